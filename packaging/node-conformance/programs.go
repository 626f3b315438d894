//go:build tools

// Package nodeconformance names the programs build.sh makes, so that the module files hold the versions of all they are
// made of. It is never compiled itself.
package nodeconformance

import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/nonewprivs"
	_ "k8s.io/kubernetes/test/images/sample-device-plugin"
)
