"""Every async method of every fake passes a checkpoint, as the real part does, which asks a socket, a thread or a disk.

A fake that answers at once hides what happens between a question and its answer: another task that runs, a request that
comes, a cancellation. The methods are found by looking, so that one that is new has to be asked here, too.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest
from trio.testing import assert_checkpoints

from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
from trikubelet.model import api
from trikubelet.model.api import Selection
from trikubelet.model.credential_plugin import CredentialPlugin
from trikubelet.model.csi import AccessMode, Expand, Publish, Stage, Use
from trikubelet.model.handlers import HttpTarget
from trikubelet.model.offline_records import Record, pod_key
from trikubelet.model.pod_notes import NodeNote
from trikubelet.model.pull_records import PulledRecord
from trikubelet.model.runtime_config import LinuxResources, SandboxConfig
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.model.usage import Depth
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_handlers import MemoryHandlers
from trikubelet.testing.memory_host import MemoryContainerLogs, MemoryPodCgroups, MemoryPodFiles, MemoryVolumes
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_offline import MemoryOfflineStore
from trikubelet.testing.memory_plugins import MemoryDriver, MemoryPlugins
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.memory_shutdown import MemoryShutdownManager, MemoryShutdownRecords, MemoryShutdownSession
from trikubelet.testing.memory_usage import MemoryUsage
from trikubelet.testing.world import World, wall_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trio.testing import MockClock

SYSTEM = ReservedCgroup("System", "/system.slice", {"cpu": 500})
WEB = pod("web")
USE = Use(AccessMode.SINGLE_NODE_WRITER)
RECORD = PulledRecord(image_ref="sha256:1", last_updated_time="")
STREAMS = StandardStreams()
SANDBOX = SandboxConfig("uid-web", "web", "default", 0, "/logs/web")


def _fakes() -> list[tuple[object, Mapping[str, tuple[object, ...]]]]:
    """Each fake and what each of its async methods is asked."""
    plugins, files = MemoryPlugins(), MemoryPodFiles()
    plugins.listen("socket", "driver", MemoryDriver())
    machine = MemoryShutdownManager()
    return [
        (
            MemoryRuntime(World()),
            {
                "wait_connected": (),
                "info": (),
                "cgroup_driver": (),
                "list_sandboxes": (),
                "list_containers": (),
                "sandbox_status": ("s",),
                "container_status": ("c",),
                "statuses": (("s",), ("c",)),
                "run_sandbox": (SANDBOX,),
                "stop_sandbox": ("s",),
                "remove_sandbox": ("s",),
                "create_container": ("s", None, None),
                "start_container": ("c",),
                "stop_container": ("c", 1),
                "remove_container": ("c",),
                "update_resources": ("c", LinuxResources()),
                "exec_sync": ("c", ("hang",), 0),
                "exec_url": ("c", (), STREAMS),
                "attach_url": ("c", STREAMS),
                "port_forward_url": ("s", ()),
                "container_stats": (),
                "checkpoint_container": ("c", "/there", 1),
                "reopen_log": ("c",),
                "events": (),
            },
        ),
        (
            MemoryImages(["app:1"], ["web:2"]),
            {
                "image_status": ("app:1",),
                "pull_image": ("web:2",),
                "list_images": (),
                "remove_image": ("app:1",),
                "stores": (),
            },
        ),
        (
            files,
            {
                "make_pod": ("uid",),
                "pods_on_disk": (),
                "note_unknown": (("uid",),),
                "log_directories": (),
                "write_hosts": ("uid", "hosts"),
                "termination_log": ("uid", "main", 0),
                "make_log_directory": ("/logs/web", "main"),
                "log_attempts": ("/logs/web", "main"),
                "keep_node_note": (NodeNote.ALLOCATED, b""),
                "link_log": ("link", "/logs/web/main/0.log"),
                "remove_pod": ("uid",),
                "read_termination_log": ("uid", "main", "0", 1),
                "tail_log": ("/log", 1, 1),
                "remove_log_directory": ("web",),
                "remove_dead_links": ((),),
                "remove_container_logs": ("/log",),
            },
        ),
        (
            MemoryContainerLogs(_with_log(MemoryPodFiles())),
            {
                "sizes": (["/logs/web/0.log"],),
                "free_bytes": (),
                "parts": ("/logs/web/0.log",),
                "remove": ("/logs/web/0.log", "part"),
                "set_aside": ("/logs/web/0.log", "part"),
                "put_back": ("/logs/web/0.log", "part"),
                "compress": ("/logs/web/0.log", "part"),
            },
        ),
        (
            MemoryVolumes(),
            {
                "run": (),
                "set_up": (WEB,),
                "resolve": (WEB, container(), ()),
                "volume_stats": ("uid", "/there"),
                "read_env_file": ("/there", "file", ("K",)),
                "tear_down": ("uid",),
            },
        ),
        (MemoryUsage(), {"node": (), "snapshot": (Depth.SUMMARY,), "disks_measured": ()}),
        (
            MemoryPodCgroups(),
            {
                "ensure": (WEB,),
                "remove": ("uid",),
                "limit_all": (),
                "allow_online_cpus": (),
                "limit_reserved": (SYSTEM,),
            },
        ),
        (
            MemoryHandlers(World()),
            {
                "http_get": (HttpTarget("http", "192.0.2.1", 80, "/main/well"),),
                "tcp_connect": ("192.0.2.1", 80),
                "grpc_health": ("192.0.2.1", 80, "main/well", "agent"),
            },
        ),
        (
            MemoryOfflineStore(),
            {
                "load": (),
                "read": (pod_key("uid-web"),),
                "put": ([Record(pod_key("uid-web"), b"")],),
                "end": (["uid-web"],),
                "forget": ([pod_key("uid-web")],),
                "stamp": ("now",),
                "clear": (),
            },
        ),
        (
            MemoryPullRecords(),
            {
                "pulled": ("sha256:1",),
                "all_pulled": (),
                "keep": (RECORD,),
                "forget": ("sha256:1",),
                "intend": ("web:2",),
                "is_intended": ("web:2",),
                "intents": (),
                "settle": ("web:2",),
            },
        ),
        (MemoryLogins(), {"configured": (), "ask": (CredentialPlugin(name="none"), b"")}),
        (
            MemoryDriver(),
            {
                "info": (),
                "capabilities": (),
                "stage": (Stage("v", "/staged", USE),),
                "unstage": ("v", "/staged"),
                "publish": (Publish("v", "/there", USE),),
                "unpublish": ("v", "/there"),
                "volume_stats": ("v", "/there"),
                "expand": (Expand("v", "/there", 1, USE),),
            },
        ),
        (machine, {"connect": ()}),
        (
            _with_announcement(MemoryShutdownSession(machine)),
            {
                "delay_seconds": (),
                "allow_delay": (1,),
                "inhibit": (),
                "is_shutting_down": (),
                "next": (),
            },
        ),
        (MemoryShutdownRecords(), {"read": (), "write": (ShutdownTimes(),)}),
        (plugins, {"info": ("socket",), "notify": ("socket", ""), "driver": ("socket",)}),
        (
            MemoryApi(ApiServer(wall_ns)),
            {
                "get": (api.PODS, "web", "default"),
                "list": (api.PODS, Selection()),
                "watch": (api.PODS, Selection()),
                "create": (api.PODS, WEB, "default"),
                "replace": (api.PODS, "web", WEB, "default"),
                "patch": (api.PODS, "web", {}, "default"),
                "delete": (api.PODS, "web", "default"),
            },
        ),
    ]


def _with_announcement(session: MemoryShutdownSession) -> MemoryShutdownSession:
    session.put(True)
    return session


def _with_log(files: MemoryPodFiles) -> MemoryPodFiles:
    files.directories.add("/logs/web")
    return files


NAMED: Mapping[str, dict[str, object]] = {
    "watch": {"resource_version": "0"},
    "patch": {"kind": api.PatchKind.MERGE},
}
QUESTIONS = [
    pytest.param(fake, name, asked, id=f"{type(fake).__name__}.{name}")
    for fake, questions in _fakes()
    for name, asked in questions.items()
]


def _is_async(method: object) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(inspect.unwrap(method))  # type: ignore[arg-type]


@pytest.mark.parametrize(("fake", "name", "asked"), QUESTIONS)
async def test_every_async_method_of_a_fake_passes_a_checkpoint(
    fake: Any, name: str, asked: tuple[object, ...], autojump_clock: MockClock
) -> None:
    answers = getattr(fake, name)(*asked, **NAMED.get(name, {}))

    # Whoever is refused has waited for that, too: what is raised says nothing of a checkpoint.
    with assert_checkpoints():
        try:
            if isinstance(answers, AbstractAsyncContextManager):
                async with answers:
                    pass
            else:
                await answers
        except (TypeError, AttributeError, AssertionError) as error:
            raise AssertionError(f"{name} was asked what it cannot answer") from error
        except Exception:  # a runtime's or a driver's, a server's
            pass


@pytest.mark.parametrize(("fake", "questions"), [pytest.param(*one, id=type(one[0]).__name__) for one in _fakes()])
def test_all_of_them_are_asked(fake: object, questions: Mapping[str, object]) -> None:
    names = {name for name in dir(type(fake)) if not name.startswith("_") and _is_async(getattr(fake, name))}

    assert names == set(questions)
