"""A device plugin for tests: a process of its own that speaks gRPC by grpc's own library.

    python -m live.kit.device_plugin RESOURCE DIRECTORY SOCKETS ID...

It offers the devices with these ids, at a socket in SOCKETS, and registers whenever kubelet.sock there is another one.
A container with devices gets the variable DEVICES with their ids, /dev/ID of each, which is the host's /dev/null, and
DIRECTORY/shared at /shared. Every allocation and start is a line of DIRECTORY/calls. Ids that are lines of
DIRECTORY/unhealthy are unhealthy. It ends when its standard input does.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from trikubelet.cri.plugin_v1 import device_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.2


class Plugin:
    """Owns nothing: the devices are its arguments, and their health a file."""

    def __init__(self, directory: Path, ids: list[str]) -> None:
        self._directory = directory
        self._ids = ids
        self._writing = threading.Lock()
        (directory / "shared").mkdir(parents=True, exist_ok=True)
        (directory / "shared" / "there").touch()

    def GetDevicePluginOptions(self, _request: Any, _context: Any) -> Any:
        return pb.DevicePluginOptions(pre_start_required=True)

    def ListAndWatch(self, _request: Any, context: Any) -> Iterator[Any]:
        last = None
        while context.is_active():
            devices = [pb.Device(ID=name, health=self._health(name)) for name in self._ids]
            if devices != last:
                last = devices
                yield pb.ListAndWatchResponse(devices=devices)
            time.sleep(LOOK_SECONDS)

    def Allocate(self, request: Any, _context: Any) -> Any:
        answers = []
        for one in request.container_requests:
            ids = list(one.devices_ids)
            self._note("allocate", ids)
            answers.append(
                pb.ContainerAllocateResponse(
                    envs={"DEVICES": ",".join(ids)},
                    mounts=[pb.Mount(container_path="/shared", host_path=str(self._directory / "shared"))],
                    devices=[
                        pb.DeviceSpec(container_path=f"/dev/{name}", host_path="/dev/null", permissions="rw")
                        for name in ids
                    ],
                )
            )
        return pb.AllocateResponse(container_responses=answers)

    def PreStartContainer(self, request: Any, _context: Any) -> Any:
        self._note("start", list(request.devices_ids))
        return pb.PreStartContainerResponse()

    def _health(self, name: str) -> str:
        marked = self._directory / "unhealthy"
        return "Unhealthy" if marked.exists() and name in marked.read_text().split() else "Healthy"

    def _note(self, what: str, ids: list[str]) -> None:
        with self._writing, (self._directory / "calls").open("a") as calls:
            calls.write(f"{what} {','.join(ids)}\n")


def serve(plugin: Plugin, socket: Path) -> grpc.Server:
    """A server of the plugin's service at the socket."""
    service = pb.DESCRIPTOR.services_by_name["DevicePlugin"]
    methods = {}
    for method in service.methods:
        if hasattr(plugin, method.name):
            kind = (
                grpc.unary_stream_rpc_method_handler
                if method.name == "ListAndWatch"
                else (grpc.unary_unary_rpc_method_handler)
            )
            methods[method.name] = kind(
                getattr(plugin, method.name),
                request_deserializer=getattr(pb, method.input_type.name).FromString,
                response_serializer=getattr(pb, method.output_type.name).SerializeToString,
            )
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, methods),))
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def register(kubelet: Path, endpoint: str, resource: str) -> None:
    """Register with the agent. Raises grpc.RpcError."""
    with grpc.insecure_channel(f"unix:{kubelet}") as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=pb.RegisterRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        call(pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource), timeout=10)


def stay_registered(plugin: Plugin, sockets: Path, resource: str) -> None:
    """Serve, and register with each agent that comes, for ever."""
    name, kubelet, known = f"{resource.replace('/', '-')}.sock", sockets / "kubelet.sock", (0, 0)
    server: grpc.Server | None = None
    while True:
        try:
            status = kubelet.stat()
            there = (status.st_ino, status.st_ctime_ns)  # the number of a removed file is soon another's
            if there != known:
                if server is not None:
                    server.stop(0)
                server = serve(plugin, sockets / name)
                register(kubelet, name, resource)
                known = there
        except (OSError, grpc.RpcError) as error:
            print(f"not registered: {error}", file=sys.stderr, flush=True)
        time.sleep(LOOK_SECONDS)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("resource")
    parser.add_argument("directory", type=Path)
    parser.add_argument("sockets", type=Path)
    parser.add_argument("ids", nargs="+")
    asked = parser.parse_args()
    plugin = Plugin(asked.directory, asked.ids)
    threading.Thread(target=stay_registered, args=(plugin, asked.sockets, asked.resource), daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # the streams of lists have threads that would be waited for


if __name__ == "__main__":
    main()
