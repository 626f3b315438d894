"""A CSI driver for tests: a process of its own that speaks gRPC by grpc's own library and mounts directories.

    python -m live.kit.csi_driver NAME DIRECTORY REGISTRY [--pretend]

A volume is a directory below DIRECTORY/volumes, or a file behind a loop device for block volumes; staging and
publishing are bind mounts, with ``--pretend`` empty directories. What a volume's context said lies in the volume as
context.json. Every call is a line of DIRECTORY/calls. While DIRECTORY/hang is there, no changing call is answered; what
stands in DIRECTORY/fail is what every one of them is refused with, and in DIRECTORY/abnormal, what is wrong with the
volumes. Of each it is said that 4096 bytes of it are used, and that it has the size it was expanded to last. It ends
when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.json_format import MessageToDict

from trikubelet.cri.plugin_v1 import csi_pb2, registration_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024**2
USED = 4096
TOPOLOGY = "topology.csi.example.com/shelf"


class Driver:
    """Owns the volumes below a directory; what is mounted the kernel knows."""

    def __init__(self, name: str, directory: Path, *, pretend: bool) -> None:
        self.name = name
        self.pretend = pretend
        self._directory = directory
        self._writing = threading.Lock()
        self._sizes: dict[str, int] = {}
        (directory / "volumes").mkdir(parents=True, exist_ok=True)

    # ---- csi.v1.Node ----

    def NodeGetInfo(self, _request: Any, _context: Any) -> Any:
        where = csi_pb2.Topology(segments={TOPOLOGY: "top"})
        return csi_pb2.NodeGetInfoResponse(node_id="node-1", max_volumes_per_node=7, accessible_topology=where)

    def NodeGetCapabilities(self, _request: Any, _context: Any) -> Any:
        kinds = (
            *("STAGE_UNSTAGE_VOLUME", "SINGLE_NODE_MULTI_WRITER"),
            *("GET_VOLUME_STATS", "EXPAND_VOLUME", "VOLUME_CONDITION"),
        )
        can = [csi_pb2.NodeServiceCapability(rpc={"type": kind}) for kind in kinds]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=can)

    def NodeStageVolume(self, request: Any, context: Any) -> Any:
        self._change("stage", request, context, request.volume_id, request.staging_target_path)
        if not request.volume_capability.HasField("block"):
            self._mount(self._volume(request), request.staging_target_path)
        return csi_pb2.NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request: Any, context: Any) -> Any:
        self._change("unstage", request, context, request.volume_id, request.staging_target_path)
        self._unmount(request.staging_target_path)
        return csi_pb2.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request: Any, context: Any) -> Any:
        self._change("publish", request, context, request.volume_id, request.target_path)
        if request.volume_capability.HasField("block"):
            self._publish_device(request)
            return csi_pb2.NodePublishVolumeResponse()
        volume = self._volume(request)
        (volume / "context.json").write_text(json.dumps(dict(request.volume_context)))
        self._mount(Path(request.staging_target_path or volume), request.target_path)
        if request.readonly and not self.pretend:
            _run("mount", "-o", "remount,bind,ro", request.target_path)
        return csi_pb2.NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request: Any, context: Any) -> Any:
        self._change("unpublish", request, context, request.volume_id, request.target_path)
        self._unmount(request.target_path)
        backing = self._directory / "volumes" / f"{request.volume_id}.img"
        if backing.exists():
            for line in _run("losetup", "--associated", str(backing)).splitlines():
                _run("losetup", "--detach", line.partition(":")[0])
        return csi_pb2.NodeUnpublishVolumeResponse()

    def NodeGetVolumeStats(self, request: Any, context: Any) -> Any:
        self._check_published(request, context)
        size = self._sizes.get(request.volume_id, MIB)
        space = csi_pb2.VolumeUsage(available=size - USED, total=size, used=USED, unit="BYTES")
        inodes = csi_pb2.VolumeUsage(available=99, total=100, used=1, unit="INODES")
        condition = csi_pb2.VolumeCondition(message="well")
        with suppress(FileNotFoundError):
            told = (self._directory / "abnormal").read_text()
            condition = csi_pb2.VolumeCondition(abnormal=True, message=told)
        return csi_pb2.NodeGetVolumeStatsResponse(usage=[space, inodes], volume_condition=condition)

    def NodeExpandVolume(self, request: Any, context: Any) -> Any:
        self._change("expand", request, context, request.volume_id, request.volume_path)
        self._check_published(request, context)
        size = self._sizes[request.volume_id] = request.capacity_range.required_bytes
        return csi_pb2.NodeExpandVolumeResponse(capacity_bytes=size)

    # ---- pluginregistration.Registration ----

    def GetInfo(self, _request: Any, _context: Any) -> Any:
        endpoint = str(self._directory / "csi.sock")
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=self.name, endpoint=endpoint, supported_versions=["1.0.0"]
        )

    def NotifyRegistrationStatus(self, request: Any, _context: Any) -> Any:
        self._note("registered", request)
        return registration_pb2.RegistrationStatusResponse()

    # ---- doing it ----

    def _check_published(self, request: Any, context: Any) -> None:
        if not Path(request.volume_path).exists():
            context.abort(grpc.StatusCode.NOT_FOUND, "the volume is not published there")

    def _change(self, what: str, request: Any, context: Any, *needed: str) -> None:
        self._note(what, request)
        while (self._directory / "hang").exists():
            if not context.is_active():
                context.abort(grpc.StatusCode.CANCELLED, "nobody waits any more")
            time.sleep(0.05)
        with suppress(FileNotFoundError):
            context.abort(grpc.StatusCode.INTERNAL, (self._directory / "fail").read_text())
        if not all(needed):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a volume's id and a path are needed")

    def _note(self, what: str, request: Any) -> None:
        line = json.dumps({"call": what, **MessageToDict(request)})
        with self._writing, (self._directory / "calls").open("a") as calls:
            calls.write(f"{line}\n")

    def _volume(self, request: Any) -> Path:
        volume = self._directory / "volumes" / request.volume_id
        volume.mkdir(exist_ok=True)
        return volume

    def _publish_device(self, request: Any) -> None:
        target, backing = Path(request.target_path), self._directory / "volumes" / f"{request.volume_id}.img"
        if _is_mounted(request.target_path):
            return
        with backing.open("ab") as opened:
            opened.truncate(MIB)
        device = _run("losetup", "--find", "--show", str(backing)).strip()
        target.touch()
        _run("mount", "--bind", device, str(target))

    def _mount(self, source: Path, target: str) -> None:
        Path(target).mkdir(exist_ok=True)
        if not self.pretend and not _is_mounted(target):
            _run("mount", "--bind", str(source), target)

    def _unmount(self, target: str) -> None:
        if _is_mounted(target):
            _run("umount", target)
        with suppress(FileNotFoundError):
            Path(target).rmdir() if Path(target).is_dir() else Path(target).unlink()


def _is_mounted(path: str) -> bool:
    return any(line.split()[4] == path for line in Path("/proc/self/mountinfo").read_text().splitlines())


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _served(handlers: Driver, service: str, messages: Any, names: tuple[str, ...], socket: Path) -> grpc.Server:
    """A server of one service on one socket."""
    types: Callable[[str], Any] = lambda name: messages.DESCRIPTOR.services_by_name[service].methods_by_name[name]  # noqa: E731
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(handlers, name),
            request_deserializer=getattr(messages, types(name).input_type.name).FromString,
            response_serializer=getattr(messages, types(name).output_type.name).SerializeToString,
        )
        for name in names
    }
    server = grpc.server(ThreadPoolExecutor(16))
    full_name = messages.DESCRIPTOR.services_by_name[service].full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(full_name, methods),))
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("directory", type=Path)
    parser.add_argument("registry", type=Path)
    parser.add_argument("--pretend", action="store_true")
    asked = parser.parse_args()
    driver = Driver(asked.name, asked.directory, pretend=asked.pretend)
    node = [name for name in vars(Driver) if name.startswith("Node")]
    servers = [_served(driver, "Node", csi_pb2, tuple(node), asked.directory / "csi.sock")]
    registering = ("GetInfo", "NotifyRegistrationStatus")
    socket = asked.registry / f"{asked.name}-reg.sock"
    servers.append(_served(driver, "Registration", registration_pb2, registering, socket))
    sys.stdin.read()
    for server in servers:
        server.stop(0)


if __name__ == "__main__":
    main()
