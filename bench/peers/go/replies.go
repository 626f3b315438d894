package main

import (
	"context"
	"os"

	"google.golang.org/protobuf/proto"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// replies is a CRI whose lists are undecoded replies from files. They are decoded when they are asked for, by the
// library that gRPC decodes with.
type replies struct {
	internalapi.RuntimeService // nothing else is ever asked
	sandboxes, containers      [][]byte
}

func (r *replies) load(sandboxes, containers []string) (err error) {
	if r.sandboxes, err = read(sandboxes); err != nil {
		return err
	}
	r.containers, err = read(containers)
	return err
}

func read(paths []string) ([][]byte, error) {
	contents := make([][]byte, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	return contents, nil
}

// Version is asked once, when the runtime manager is made.
func (*replies) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: "files", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
	}, nil
}

// ListPodSandbox decodes the sandboxes; several chunks are what a stream would bring.
func (r *replies) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	var items []*runtimeapi.PodSandbox
	for _, chunk := range r.sandboxes {
		reply := &runtimeapi.ListPodSandboxResponse{}
		if err := proto.Unmarshal(chunk, reply); err != nil {
			return nil, err
		}
		items = append(items, reply.Items...)
	}
	return items, nil
}

// ListContainers decodes the containers.
func (r *replies) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	var items []*runtimeapi.Container
	for _, chunk := range r.containers {
		reply := &runtimeapi.ListContainersResponse{}
		if err := proto.Unmarshal(chunk, reply); err != nil {
			return nil, err
		}
		items = append(items, reply.Containers...)
	}
	return items, nil
}
