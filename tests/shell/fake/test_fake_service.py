"""The fake runtime as a client sees it: its lists and their limits, its manners, its events, its journal."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
import trio

from shell.fake.fakekit import fake
from trikubelet.core.names import POD_UID
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import MessageTooLarge, NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

EVERY = pb.ListContainersRequest()


async def test_every_made_up_container_is_listed_whole_and_streamed(autojump_clock: MockClock) -> None:
    async with fake(pods=30, containers_per_pod=2, message_bytes_max=30_000) as runtime:
        with pytest.raises(MessageTooLarge):
            await runtime.stub.ListContainers(EVERY)
        chunks = await runtime.stub.StreamContainers(pb.StreamContainersRequest())
        sandboxes = await runtime.stub.StreamPodSandboxes(pb.StreamPodSandboxesRequest())

    assert 60 == len({item.id for chunk in chunks for item in chunk.containers})
    assert 30 == len({item.id for chunk in sandboxes for item in chunk.pod_sandboxes})
    assert max(chunk.ByteSize() for chunk in (*chunks, *sandboxes)) > 10_000
    assert len(chunks) > 2


async def test_a_list_above_the_limit_fails_in_the_words_of_gos_grpc(autojump_clock: MockClock) -> None:
    async with fake(pods=30, message_bytes_max=20_000) as runtime:
        with pytest.raises(MessageTooLarge, match=r"^grpc: trying to send message larger than max \(\d+ vs\. 20000\)$"):
            await runtime.stub.ListContainers(EVERY)


async def test_what_an_older_runtime_lacks_can_be_left_out(autojump_clock: MockClock) -> None:
    async with fake(events=False, streaming=False) as runtime:
        with pytest.raises(NotImplementedByRuntime, match="unknown method GetContainerEvents"):
            await runtime.stub.GetContainerEvents(pb.GetEventsRequest())
        with pytest.raises(NotImplementedByRuntime, match="unknown method StreamContainers"):
            await runtime.stub.StreamContainers(pb.StreamContainersRequest())
        with pytest.raises(NotImplementedByRuntime, match="unknown method StreamPodSandboxes"):
            await runtime.stub.StreamPodSandboxes(pb.StreamPodSandboxesRequest())


async def test_lists_can_be_narrowed_by_everything_the_CRI_has(autojump_clock: MockClock) -> None:
    async with fake(pods=20, containers_per_pod=2) as runtime:
        some = (await runtime.stub.ListContainers(EVERY)).containers[0]
        uid = some.labels[POD_UID]

        async def found(**only: object) -> list[str]:
            asked = pb.ListContainersRequest(filter=pb.ContainerFilter(**only))
            return sorted(item.id for item in (await runtime.stub.ListContainers(asked)).containers)

        of_pod = await found(label_selector={POD_UID: uid})
        assert 2 == len(of_pod)
        assert of_pod == await found(pod_sandbox_id=some.pod_sandbox_id)
        assert [some.id] == await found(id=some.id[:20])
        assert 20 == len(await found(label_selector={"io.kubernetes.container.name": "app"}))
        assert 40 == len(await found(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)))
        assert [] == await found(state=pb.ContainerStateValue(state=pb.CONTAINER_EXITED))
        assert [] == await found(label_selector={POD_UID: "nobody"})

        ready, dead = (pb.PodSandboxStateValue(state=s) for s in (pb.SANDBOX_READY, pb.SANDBOX_NOTREADY))
        for number, only in (
            (1, pb.PodSandboxFilter(label_selector={POD_UID: uid})),
            (1, pb.PodSandboxFilter(id=some.pod_sandbox_id)),
            (20, pb.PodSandboxFilter(state=ready)),
            (0, pb.PodSandboxFilter(state=dead)),
        ):
            reply = await runtime.stub.ListPodSandbox(pb.ListPodSandboxRequest(filter=only))
            assert number == len(reply.items)


async def test_lists_and_status_calls_take_as_long_as_they_were_told(autojump_clock: MockClock) -> None:
    async with fake(pods=1, containers_per_pod=1, list_latency_seconds=2, status_latency_seconds=0.5) as runtime:
        began = trio.current_time()
        [container] = (await runtime.stub.ListContainers(EVERY)).containers
        listed = trio.current_time()
        await runtime.container(container.id)
        await runtime.sandbox(container.pod_sandbox_id)

        assert (2, 1) == (round(listed - began, 3), round(trio.current_time() - listed, 3))


async def test_as_many_calls_fail_as_were_told_to(autojump_clock: MockClock) -> None:
    async with fake(error_rate=0.25, seed=1) as runtime:
        failed = 0
        for _ in range(200):
            try:
                await runtime.stub.ListContainers(EVERY)
            except RuntimeFailure:
                failed += 1

    assert 50 == pytest.approx(failed, abs=15)


async def test_time_passes_by_itself_and_is_heard_of(autojump_clock: MockClock) -> None:
    async with fake(pods=10, containers_per_pod=1, churn=0.2, churn_period_seconds=5) as runtime:
        before = (await runtime.stub.ListContainers(EVERY)).containers
        async with runtime.runtime.events() as events:
            heard = [await anext(aiter(events)) for _ in range(2)]
        after = (await runtime.stub.ListContainers(EVERY)).containers

    assert {pb.CONTAINER_RUNNING} == {item.state for item in before}
    ended = {item.id for item in after if item.state == pb.CONTAINER_EXITED}
    assert 2 == len(ended)
    assert ended == {event.container_id for event in heard}
    assert {pb.CONTAINER_STOPPED_EVENT} == {event.kind for event in heard}


async def test_an_agents_container_runs_with_a_log_and_ends_when_its_command_says_so(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fake() as runtime:
        cri = runtime.runtime
        pod = SandboxConfig(uid="u", name="p", namespace="n", attempt=0, log_directory=str(tmp_path))
        config = ContainerConfig(
            name="c",
            attempt=0,
            image="i:1",
            user_specified_image="i:1",
            command=("exit", "3", "60"),
            log_path="c/0.log",
        )
        container_id = await cri.create_container(await cri.run_sandbox(pod), config, pod)
        await cri.start_container(container_id)
        await trio.sleep(59)
        assert pb.CONTAINER_RUNNING == (await runtime.container(container_id)).state
        await trio.sleep(2)
        status = await runtime.container(container_id)

    assert (pb.CONTAINER_EXITED, 3, "Error") == (status.state, status.exit_code, status.reason)
    assert str(tmp_path / "c/0.log") == status.log_path
    assert " stdout F This container runs nowhere" in (tmp_path / "c/0.log").read_text()


async def test_container_with_an_unwritable_log_cannot_start(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("not a directory")
    async with fake() as runtime:
        cri = runtime.runtime
        pod = SandboxConfig(uid="u", name="p", namespace="n", attempt=0, log_directory=str(tmp_path))
        config = ContainerConfig(name="c", attempt=0, image="i:1", user_specified_image="i:1", log_path="c/0.log")
        container_id = await cri.create_container(await cri.run_sandbox(pod), config, pod)
        with pytest.raises(RuntimeFailure, match="cannot be started"):
            await cri.start_container(container_id)

        assert "StartError" == (await runtime.container(container_id)).reason


async def test_statistics_rise_with_time_and_only_of_what_runs(autojump_clock: MockClock) -> None:
    async with fake(pods=3, containers_per_pod=2) as runtime:
        stats = (await runtime.stub.ListContainerStats(pb.ListContainerStatsRequest())).stats
        streamed = await runtime.stub.StreamContainerStats(pb.StreamContainerStatsRequest())
        pods = (await runtime.stub.ListPodSandboxStats(pb.ListPodSandboxStatsRequest())).stats
        await runtime.runtime.stop_sandbox(pods[0].attributes.id)
        later = (await runtime.stub.ListContainerStats(pb.ListContainerStatsRequest())).stats

    assert 6 == len(stats) == sum(len(reply.container_stats) for reply in streamed)
    assert [2, 2, 2] == [len(pod.linux.containers) for pod in pods]
    used = {one.attributes.id: one.cpu.usage_core_nano_seconds.value for one in stats}
    assert 4 == len(later)
    assert all(one.cpu.usage_core_nano_seconds.value > used[one.attributes.id] > 0 for one in later)


async def test_the_journal_has_every_call_with_its_pod(autojump_clock: MockClock) -> None:
    journal = io.StringIO()
    async with fake(journal=journal) as runtime:
        pod = SandboxConfig(uid="u", name="p", namespace="n", attempt=0)
        sandbox_id = await runtime.runtime.run_sandbox(pod)
        await runtime.sandbox(sandbox_id)
        await runtime.stub.ListContainers(EVERY)
    lines = [json.loads(line) for line in journal.getvalue().splitlines()]

    assert [("RunPodSandbox", "u"), ("PodSandboxStatus", "u"), ("ListContainers", "")] == [
        (line["method"], line["pod"]) for line in lines
    ]
    assert all(line["began"] <= line["ended"] for line in lines)


async def test_a_runtime_that_is_restarted_gives_no_id_to_another_thing(autojump_clock: MockClock) -> None:
    made: list[str] = []
    for uid in ("a", "b"):  # another pod comes first after each start
        async with fake(seed=7) as runtime:
            sandbox = SandboxConfig(uid=uid, name=uid, namespace="default", attempt=0)
            made.append(await runtime.runtime.run_sandbox(sandbox))
            config = ContainerConfig(name="c", attempt=0, image="i:1", user_specified_image="i:1", log_path="c/0.log")
            made.append(await runtime.runtime.create_container(made[-1], config, sandbox))

    assert 4 == len(set(made))


async def test_an_address_is_not_given_again_while_its_pod_runs(autojump_clock: MockClock) -> None:
    async with fake(pods=2) as runtime:
        first, second = (SandboxConfig(uid=uid, name=uid, namespace="n", attempt=0) for uid in "ab")
        removed = await runtime.runtime.run_sandbox(first)
        before = await runtime.runtime.run_sandbox(second)
        await runtime.runtime.stop_sandbox(removed)
        await runtime.runtime.remove_sandbox(removed)
        after = await runtime.runtime.run_sandbox(first)

        addresses = [(await runtime.sandbox(id_)).network.ip for id_ in (before, after)]
    assert 2 == len(set(addresses))
