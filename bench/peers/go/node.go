package main

import (
	"context"
	"slices"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	"k8s.io/utils/clock"
)

// runtimeRequestTimeout is the kubelet's default.
const runtimeRequestTimeout = 2 * time.Minute

// eventsMax is room for the events of one relist. The kubelet has room for 1,000 and empties it all the while; here the
// events stay until the relist is over, and none may be dropped.
const eventsMax = 1 << 18

// eventsBytes is what that room takes, which is ours and not the kubelet's.
const eventsBytes = eventsMax * 8

// node is the part of a kubelet that knows what runs: upstream's, with nobody around it.
type node struct {
	pleg    interface{ Relist() }
	events  chan *pleg.PodLifecycleEvent
	runtime *watchedRuntime
	cache   *watchedCache
	replies *replies // nil over a socket
	pending []event  // delivered and not asked for yet
}

// newNode puts a node together that lists over the socket, or from files where there is none.
func newNode(directory, socket string, streaming bool) (*node, error) {
	ctx := context.Background()
	metrics.Register() // unregistered metrics cost nothing; the kubelet's are registered
	n := &node{events: make(chan *pleg.PodLifecycleEvent, eventsMax)}
	var service internalapi.RuntimeService
	if socket == "" {
		n.replies = &replies{}
		service = n.replies
	} else {
		var err error
		service, err = remote.NewRemoteRuntimeService(
			ctx, "unix://"+socket, runtimeRequestTimeout, noop.NewTracerProvider(), streaming)
		if err != nil {
			return nil, err
		}
	}
	manager, err := newManager(ctx, directory, service)
	if err != nil {
		return nil, err
	}
	n.runtime = &watchedRuntime{KubeGenericRuntime: manager, inspects: n.replies == nil}
	n.cache = &watchedCache{Cache: kubecontainer.NewCache()}
	period := &pleg.RelistDuration{RelistPeriod: time.Second, RelistThreshold: 3 * time.Minute}
	n.pleg = pleg.NewGenericPLEG(klog.Background(), n.runtime, n.events, period, n.cache, clock.RealClock{}).(interface{ Relist() })
	return n, nil
}

// newManager makes the kubelet's runtime manager. Listing and inspecting need the CRI and nothing else, so whatever
// serves other purposes is left out, or is upstream's stand-in where the constructor asks it something.
func newManager(ctx context.Context, directory string, service internalapi.RuntimeService) (kuberuntime.KubeGenericRuntime, error) {
	manager, _, err := kuberuntime.NewKubeGenericRuntimeManager(
		ctx,
		kubecontainer.FilterEventRecorder(&record.FakeRecorder{}),
		nil, nil, nil, // probe results
		directory,
		directory, // pod logs
		&cadvisorapi.MachineInfo{},
		nil, // states of pods
		110, // pods at most
		nil, // the operating system
		nil, // what the kubelet adds to a container's options
		nil, // the client of HTTP hooks
		flowcontrol.NewBackOff(10*time.Second, 5*time.Minute),
		true, nil, 5, 10, // image pulls
		string(kubeletconfig.NeverVerify), nil, "", "", // and their credentials
		nil, true, metav1.Duration{Duration: 100 * time.Millisecond}, // cgroups
		service,
		nil, // the image service
		cm.NewFakeContainerManager(),
		logs.NewStubContainerLogManager(),
		nil, // runtime classes
		false,
		"",
		func() v1.ResourceList { return nil }, // what the node can give
		0.9, "",                               // quality of service of memory
		nil, // who records pulls
		noop.NewTracerProvider(),
		nil, nil, // service accounts
		nil, // who records init containers
	)
	return manager, err
}

// relisted answers "relist" and "observe".
type relisted struct {
	WallNS           int64   `json:"wall_ns"`
	CPUNS            int64   `json:"cpu_ns"`
	ListNS           int64   `json:"list_ns"`
	FirstPublishedNS *int64  `json:"first_published_ns"`
	LastPublishedNS  *int64  `json:"last_published_ns"`
	Inspected        int     `json:"inspected"`
	Events           int     `json:"events"`
	Allocs           uint64  `json:"allocs"`
	AllocBytes       uint64  `json:"alloc_bytes"`
	Error            *string `json:"error"`
}

func (n *node) relist() relisted {
	n.runtime.reset()
	n.cache.published = n.cache.published[:0]
	took := measure(n.pleg.Relist)
	answer := relisted{
		WallNS:           took.wallNS,
		CPUNS:            took.cpuNS,
		ListNS:           n.runtime.listed.Sub(took.started).Nanoseconds(),
		FirstPublishedNS: since(took.started, n.cache.published, 0),
		LastPublishedNS:  since(took.started, n.cache.published, len(n.cache.published)-1),
		Inspected:        n.runtime.inspected,
		Events:           len(n.events),
		Allocs:           took.mallocs,
		AllocBytes:       took.bytes,
	}
	if err := n.runtime.listError; err != nil {
		text := err.Error()
		answer.Error = &text
	}
	n.drain()
	return answer
}

func since(started time.Time, times []time.Time, at int) *int64 {
	if len(times) == 0 {
		return nil
	}
	nanoseconds := times[at].Sub(started).Nanoseconds()
	return &nanoseconds
}

// event is one of upstream's, as told to whoever asks.
type event struct {
	Pod  string `json:"pod"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (n *node) drain() {
	for len(n.events) > 0 {
		told := <-n.events
		id, _ := told.Data.(string)
		n.pending = append(n.pending, event{string(told.ID), string(told.Type), id})
	}
}

func (n *node) forgetEvents() int {
	forgotten := len(n.pending)
	n.pending = nil
	return forgotten
}

func (n *node) takeEvents() []event {
	taken := n.pending
	n.pending = nil
	slices.SortFunc(taken, func(a, b event) int {
		return slices.Compare([]string{a.Pod, a.Type, a.ID}, []string{b.Pod, b.Type, b.ID})
	})
	if taken == nil {
		return []event{}
	}
	return taken
}
