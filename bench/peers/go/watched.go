package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
)

// watchedRuntime is upstream's runtime manager under observation.
type watchedRuntime struct {
	kuberuntime.KubeGenericRuntime
	inspects  bool     // whether a pod is really inspected, or every answer is empty
	fail      []string // UIDs of pods whose inspection fails
	listed    time.Time
	listError error
	inspected int
}

func (r *watchedRuntime) reset() {
	r.listError, r.inspected = nil, 0
}

// GetPods lists, decodes and converts.
func (r *watchedRuntime) GetPods(ctx context.Context, all bool) ([]*kubecontainer.Pod, error) {
	pods, err := r.KubeGenericRuntime.GetPods(ctx, all)
	r.listed, r.listError = time.Now(), err
	return pods, err
}

// GetPodStatus inspects a pod.
func (r *watchedRuntime) GetPodStatus(ctx context.Context, pod *kubecontainer.Pod) (*kubecontainer.PodStatus, error) {
	r.inspected++
	if slices.Contains(r.fail, string(pod.ID)) {
		return nil, errors.New("this inspection was to fail")
	}
	if !r.inspects {
		return &kubecontainer.PodStatus{ID: pod.ID}, nil
	}
	return r.KubeGenericRuntime.GetPodStatus(ctx, pod)
}

// watchedCache is upstream's cache and says when each pod became known.
type watchedCache struct {
	kubecontainer.Cache
	published []time.Time
}

// Set publishes a pod.
func (c *watchedCache) Set(uid types.UID, status *kubecontainer.PodStatus, err error, at time.Time) bool {
	updated := c.Cache.Set(uid, status, err, at)
	c.published = append(c.published, time.Now())
	return updated
}
