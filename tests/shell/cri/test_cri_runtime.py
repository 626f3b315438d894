"""The runtime and image adapters against servers of our own: what is asked, what comes back, what is done without."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from trio.testing import wait_all_tasks_blocked

from shell.cri.grpckit import MemoryNetwork, calls_left, cancelled_at_every_step, running
from trikubelet.core.names import POD_UID
from trikubelet.cri import to_wire
from trikubelet.cri.channel import Channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_grpc
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.registry import Login
from trikubelet.model.runtime import ExecResult, NetworkSetup
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import (
    AlreadyExists,
    NotFound,
    NotImplementedByRuntime,
    ResourceExhausted,
    RuntimeFailure,
    RuntimeTimeout,
    RuntimeUnavailable,
)

SANDBOX = SandboxConfig(uid="u", name="n", namespace="ns", attempt=1, runtime_handler="gvisor")
CONTAINER = ContainerConfig(name="c", attempt=2, image="i")


class Anything:
    """Has every method there is, for the generated tables of methods."""

    def __getattr__(self, name: str) -> None:
        return None


TABLE = {
    path: handler
    for base in (api_grpc.RuntimeServiceBase, api_grpc.ImageServiceBase)
    for path, handler in base.__mapping__(Anything()).items()
}
NAMES = {handler.request_type: path.rpartition("/")[2] for path, handler in TABLE.items()}
EMPTY = {path.rpartition("/")[2]: handler.reply_type() for path, handler in TABLE.items()}


class Scripted:
    """Both services. ``answers`` has each method's replies in order, or the error it raises; ``asked`` what came."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.inside = 0

    def __mapping__(self) -> dict[str, Any]:
        return {path: handler._replace(func=self._method(path)) for path, handler in TABLE.items()}

    def _method(self, path: str) -> Any:
        name = path.rpartition("/")[2]

        async def answer(stream: Any) -> None:
            self.inside += 1
            try:
                self.asked.append((name, await stream.recv_message()))
                answers = self.answers.get(name, GRPCError(Status.UNIMPLEMENTED, f"no {name} here"))
                if isinstance(answers, Exception):
                    raise answers
                for reply in answers if isinstance(answers, list) else [answers]:
                    if reply == "silence":
                        await trio.sleep_forever()
                    await (stream.send_raw(reply) if isinstance(reply, bytes) else stream.send_message(reply))
            finally:
                self.inside -= 1

        return answer


@asynccontextmanager
async def talking(server: Scripted, **options: Any):
    """Both adapters over one channel to ``server``, and the channel."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [server], network)
        async with running(Channel("memory", connector=network.connect, **options)) as channel:
            yield CriRuntime(channel), CriImages(channel), channel
        nursery.cancel_scope.cancel()


async def follow(runtime: CriRuntime) -> list[str]:
    async with runtime.events() as events:
        return [event.container_id async for event in events]


# What is done, by whom, and what must arrive at the server.
CALLS = [
    (lambda r, i: r.stop_sandbox("s"), pb.StopPodSandboxRequest(pod_sandbox_id="s")),
    (lambda r, i: r.remove_sandbox("s"), pb.RemovePodSandboxRequest(pod_sandbox_id="s")),
    (lambda r, i: r.sandbox_status("s"), pb.PodSandboxStatusRequest(pod_sandbox_id="s")),
    (lambda r, i: r.container_status("c"), pb.ContainerStatusRequest(container_id="c")),
    (lambda r, i: r.start_container("c"), pb.StartContainerRequest(container_id="c")),
    (lambda r, i: r.stop_container("c", 7), pb.StopContainerRequest(container_id="c", timeout=7)),
    (lambda r, i: r.remove_container("c"), pb.RemoveContainerRequest(container_id="c")),
    (lambda r, i: r.reopen_log("c"), pb.ReopenContainerLogRequest(container_id="c")),
    (
        lambda r, i: r.run_sandbox(SANDBOX),
        pb.RunPodSandboxRequest(config=to_wire.sandbox_config(SANDBOX), runtime_handler="gvisor"),
    ),
    (
        lambda r, i: r.create_container("s", CONTAINER, SANDBOX),
        pb.CreateContainerRequest(
            pod_sandbox_id="s",
            config=to_wire.container_config(CONTAINER),
            sandbox_config=to_wire.sandbox_config(SANDBOX),
        ),
    ),
    (
        lambda r, i: r.exec_sync("c", ["sh", "-c", "x"], 3),
        pb.ExecSyncRequest(container_id="c", cmd=["sh", "-c", "x"], timeout=3),
    ),
    (lambda r, i: r.list_sandboxes(), pb.ListPodSandboxRequest()),
    (
        lambda r, i: r.list_sandboxes("u"),
        pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector={POD_UID: "u"})),
    ),
    (lambda r, i: r.list_containers(), pb.ListContainersRequest()),
    (
        lambda r, i: r.list_containers("u"),
        pb.ListContainersRequest(filter=pb.ContainerFilter(label_selector={POD_UID: "u"})),
    ),
    (lambda r, i: follow(r), pb.GetEventsRequest()),
    (lambda r, i: i.image_status("b"), pb.ImageStatusRequest(image=pb.ImageSpec(image="b"))),
    (
        lambda r, i: i.pull_image("b"),
        pb.PullImageRequest(image=pb.ImageSpec(image="b", user_specified_image="b")),
    ),
    (
        lambda r, i: i.pull_image("b", SANDBOX),
        pb.PullImageRequest(
            image=pb.ImageSpec(image="b", user_specified_image="b"), sandbox_config=to_wire.sandbox_config(SANDBOX)
        ),
    ),
    (
        lambda r, i: i.pull_image("b", login=Login("joe", "s3cret")),
        pb.PullImageRequest(
            image=pb.ImageSpec(image="b", user_specified_image="b"),
            auth=pb.AuthConfig(username="joe", password="s3cret"),
        ),
    ),
    (lambda r, i: i.list_images(), pb.ListImagesRequest()),
    (lambda r, i: i.remove_image("b"), pb.RemoveImageRequest(image=pb.ImageSpec(image="b"))),
]


@pytest.mark.parametrize(("call", "request_"), CALLS, ids=lambda part: NAMES.get(type(part), ""))
async def test_what_is_asked_for_arrives_and_nothing_else(autojump_clock, call, request_):
    name = NAMES[type(request_)]
    server = Scripted(**{name: EMPTY[name]})
    async with talking(server) as (runtime, images, _):
        await call(runtime, images)

    assert [(name, request_)] == server.asked


STATUSES = [
    (Status.UNAVAILABLE, RuntimeUnavailable),
    (Status.DEADLINE_EXCEEDED, RuntimeTimeout),
    (Status.UNIMPLEMENTED, NotImplementedByRuntime),
    (Status.RESOURCE_EXHAUSTED, ResourceExhausted),
    (Status.ALREADY_EXISTS, AlreadyExists),
    (Status.UNKNOWN, RuntimeFailure),
]


@pytest.mark.parametrize(("call", "request_"), CALLS, ids=lambda part: NAMES.get(type(part), ""))
async def test_each_error_of_the_runtime_is_one_of_ours_with_its_own_words(autojump_clock, call, request_):
    for status, error in STATUSES:
        server = Scripted(**{NAMES[type(request_)]: GRPCError(status, "the runtime's own words")})
        async with talking(server) as (runtime, images, _):
            with pytest.raises(error, match=r"^the runtime's own words$"):
                await call(runtime, images)


PLUGIN = '{"Network": {"type": "bridge", "ipam": {"type": "host-local"}, "dns": null}, "Source": "..."}'
NETWORKS = (
    f'[{{"Config": {{"Name": "n", "Plugins": [{PLUGIN}, {{"Network": {{"type": "portmap"}}}}]}}, "IFName": "eth0"}}]'
)
CNI = '{"PluginDirs": ["/opt/cni/bin"], "PluginConfDir": "/etc/cni/net.d", "Networks": %s}'
LOOKS_IN = NetworkSetup("/etc/cni/net.d", ("/opt/cni/bin",))


@pytest.mark.parametrize(
    ("expected", "info"),
    [
        (replace(LOOKS_IN, plugins=("bridge", "host-local", "portmap")), {"cniconfig": CNI % NETWORKS}),
        (LOOKS_IN, {"cniconfig": CNI % "null"}),
        (None, {"cniconfig": "{}"}),
        (None, {"cniconfig": "?"}),
        (None, {}),
    ],
)
async def test_the_plugins_of_the_network_are_those_that_containerd_reports(autojump_clock, expected, info):
    server = Scripted(Status=pb.StatusResponse(info=info))
    async with talking(server) as (runtime, _, _):
        assert expected == await runtime.network_setup()

    assert [("Status", pb.StatusRequest(verbose=True))] == server.asked


async def test_a_cgroup_driver_that_has_no_name_here_is_reported_and_counts_as_unsaid(autojump_clock, caplog):
    linux = [pb.LinuxRuntimeConfiguration(cgroup_driver=number) for number in (pb.CGROUPFS, 7)]
    said = []
    for one in linux:
        async with talking(Scripted(RuntimeConfig=pb.RuntimeConfigResponse(linux=one))) as (runtime, _, _):
            said.append(await runtime.cgroup_driver())

    assert ["cgroupfs", ""] == said
    assert ["The container runtime has an unknown cgroup driver: number 7"] == caplog.messages


async def test_what_is_gone_already_need_not_be_removed(autojump_clock):
    gone = GRPCError(Status.NOT_FOUND, "gone")
    server = Scripted(RemovePodSandbox=gone, RemoveContainer=gone, RemoveImage=gone, StopContainer=gone)
    async with talking(server) as (runtime, images, _):
        await runtime.remove_sandbox("s")
        await runtime.remove_container("c")
        await images.remove_image("b")
        with pytest.raises(NotFound):
            await runtime.stop_container("c", 2)


SANDBOX_STATUS = pb.PodSandboxStatus(id="s", metadata=pb.PodSandboxMetadata(name="n"), created_at=1)
CONTAINER_STATUS = pb.ContainerStatus(id="c", metadata=pb.ContainerMetadata(name="n"), created_at=1)


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (["id", "metadata", "created_at"], "{}: the runtime's reply lacks id, metadata.name, created_at"),
        (["metadata"], "{}: the runtime's reply of {} lacks metadata.name"),
        (["created_at"], "{}: the runtime's reply of {} lacks created_at"),
    ],
)
async def test_half_a_status_is_none(autojump_clock, without, said):
    replies = [
        pb.PodSandboxStatusResponse(status=SANDBOX_STATUS),
        pb.ContainerStatusResponse(status=CONTAINER_STATUS),
    ]
    for reply in replies:
        for field in without:
            reply.status.ClearField(field)
    server = Scripted(PodSandboxStatus=replies[0], ContainerStatus=replies[1])
    async with talking(server) as (runtime, *_):
        with pytest.raises(RuntimeFailure, match=f"^{said.format('PodSandboxStatus', 's')}$"):
            (await runtime.sandbox_status("s")).decode()
        for sandbox in (await runtime.statuses(["s"], ["c"])).sandboxes:
            with pytest.raises(RuntimeFailure, match=f"^{said.format('PodSandboxStatus', 's')}$"):
                sandbox.decode()
        with pytest.raises(RuntimeFailure, match=f"^{said.format('ContainerStatus', 'c')}$"):
            (await runtime.container_status("c")).decode()


async def test_the_status_of_another_thing_is_no_answer(autojump_clock):
    server = Scripted(
        PodSandboxStatus=pb.PodSandboxStatusResponse(status=SANDBOX_STATUS),
        ContainerStatus=pb.ContainerStatusResponse(status=CONTAINER_STATUS),
    )
    async with talking(server) as (runtime, *_):
        found = await runtime.statuses(["other"], ["another"])
        for reply, words in ((found.sandboxes[0], "of other, .* of s"), (found.containers[0], "of another, .* of c")):
            with pytest.raises(RuntimeFailure, match=words):
                reply.decode()
        with pytest.raises(RuntimeFailure, match="asked for the status of other, the runtime returned that of s"):
            (await runtime.sandbox_status("other")).decode()


async def test_answers_come_back_as_records(autojump_clock):
    condition = pb.RuntimeCondition(type="RuntimeReady", status=True)
    server = Scripted(
        Version=pb.VersionResponse(runtime_name="r"),
        Status=pb.StatusResponse(status=pb.RuntimeStatus(conditions=[condition])),
        RunPodSandbox=pb.RunPodSandboxResponse(pod_sandbox_id="s"),
        CreateContainer=pb.CreateContainerResponse(container_id="c"),
        PodSandboxStatus=pb.PodSandboxStatusResponse(status=SANDBOX_STATUS),
        ContainerStatus=pb.ContainerStatusResponse(status=CONTAINER_STATUS),
        ExecSync=pb.ExecSyncResponse(exit_code=3, stdout=b"\xff", stderr=b"e"),
        PullImage=pb.PullImageResponse(image_ref="sha256:1"),
        ListImages=pb.ListImagesResponse(images=[pb.Image(id="i"), pb.Image(id="j")]),
    )
    async with talking(server) as (runtime, images, _):
        info = await runtime.info()
        assert "r" == info.name
        assert info.condition("RuntimeReady").status
        assert "s" == await runtime.run_sandbox(SANDBOX)
        assert "c" == await runtime.create_container("s", CONTAINER, SANDBOX)
        assert "s" == (await runtime.sandbox_status("s")).decode().id
        assert "c" == (await runtime.container_status("c")).decode().id
        assert ExecResult(3, b"\xff", b"e") == await runtime.exec_sync("c", ["x"], 0)
        assert "sha256:1" == await images.pull_image("b")
        assert ["i", "j"] == [image.id for image in await images.list_images()]


async def test_a_command_that_crio_killed_at_its_limit_has_timed_out(autojump_clock):
    async with talking(Scripted(ExecSync=pb.ExecSyncResponse(exit_code=-1, stderr=b"command timed out"))) as (
        runtime,
        *_,
    ):
        with pytest.raises(RuntimeTimeout, match="longer than 3 s"):
            await runtime.exec_sync("c", ["x"], 3)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (pb.ImageStatusResponse(image=pb.Image(id="i")), "i"),
        (pb.ImageStatusResponse(), None),
        (pb.ImageStatusResponse(image=pb.Image()), None),
        (GRPCError(Status.NOT_FOUND, "no"), None),
    ],
)
async def test_an_image_the_node_does_not_have_is_none(autojump_clock, answer, expected):
    async with talking(Scripted(ImageStatus=answer)) as (_, images, _):
        found = await images.image_status("b")
    assert expected == (found and found.id)


async def test_lists_are_handed_over_as_they_came(autojump_clock):
    odd = b"\x0a\x00\xf8\x3f\x01"  # an empty item, and a field nobody knows
    async with talking(Scripted(ListPodSandbox=odd, ListContainers=odd)) as (runtime, _, _):
        assert [odd] == await runtime.list_sandboxes()
        assert [odd] == await runtime.list_containers()


SMALL = 64 * 1024
LARGE = bytes(2 * SMALL)
PIECES = [b"one", b"", b"three"]


# ---- events ----


def event(id_: str) -> pb.ContainerEventResponse:
    return pb.ContainerEventResponse(container_id=id_)


async def test_events_come_one_by_one_and_end_with_the_block(autojump_clock):
    server = Scripted(GetContainerEvents=[event("a"), event("b"), "silence"])
    async with talking(server) as (runtime, _, channel):
        async with runtime.events() as events:
            assert ["a", "b"] == [(await events.__anext__()).container_id for _ in range(2)]
            assert 1 == server.inside
        await wait_all_tasks_blocked()
        assert (0, 0) == (server.inside, calls_left(channel))


async def test_an_event_that_cannot_be_read_is_a_failure_of_the_runtime(autojump_clock):
    async with talking(Scripted(GetContainerEvents=[event("a"), b"\xff\xff"])) as (runtime, _, _):
        with pytest.raises(RuntimeFailure, match="cannot be read"):
            await follow(runtime)


async def test_a_runtime_without_events_says_so_and_serves_all_else(autojump_clock):
    async with talking(Scripted(ListContainers=b"")) as (runtime, _, _):
        with pytest.raises(NotImplementedByRuntime):
            await follow(runtime)
        assert [b""] == await runtime.list_containers()


# ---- nothing is left behind ----


async def first_event(runtime):
    async with runtime.events() as events:
        await events.__anext__()


@pytest.mark.parametrize(
    "act", [CriRuntime.list_containers, CriRuntime.info, first_event, follow], ids=lambda act: act.__name__
)
async def test_an_adapters_call_may_be_cancelled_at_every_await_and_leaves_nothing_behind(act):
    server = Scripted(
        Version=pb.VersionResponse(),
        Status=pb.StatusResponse(),
        ListContainers=LARGE,
        StreamContainers=PIECES,
        GetContainerEvents=[event("a"), event("b")],
    )
    async with talking(server, message_bytes_max=SMALL) as (_, _, channel):
        async for _ in cancelled_at_every_step(lambda: act(CriRuntime(channel))):
            await channel.unary_raw("/runtime.v1.RuntimeService/Version", pb.VersionRequest())
            await wait_all_tasks_blocked()
            assert (0, 0, 0) == (server.inside, channel.statistics().calls_in_flight, calls_left(channel))


async def test_an_unavailable_runtime_is_waited_for_until_the_callers_scope_ends(autojump_clock):
    network = MemoryNetwork()
    network.up = False
    async with running(Channel("memory", connector=network.connect)) as channel:
        with trio.move_on_after(120) as scope:
            await CriRuntime(channel).list_containers()
        assert scope.cancelled_caught
        assert 0 == channel.statistics().calls_waiting
