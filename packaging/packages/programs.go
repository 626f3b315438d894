//go:build tools

// Package packages names the program that build.sh packs with, so that go.mod and go.sum hold the versions of all it is
// made of. It is never compiled itself.
package packages

import _ "github.com/goreleaser/nfpm/v2/cmd/nfpm"
