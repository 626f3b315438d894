"""The benchmark's peers relist over a socket and from files, and all tell the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from shell.cri.grpckit import Bare, memory_pair
from trikubelet.benchmark.grid import Cell, Crowd, Mode
from trikubelet.benchmark.lineup import lineup
from trikubelet.benchmark.peers import ours
from trikubelet.benchmark.peers.ours import RecordObserver, open_ours
from trikubelet.benchmark.peers.port import PortedPleg, open_port
from trikubelet.benchmark.peers.protocol import Peer, main
from trikubelet.benchmark.peers.pure import PureRelist, open_pure
from trikubelet.benchmark.peers.usage import StallWatch, memory
from trikubelet.core.names import POD_UID
from trikubelet.core.relist import Relist
from trikubelet.cri.channel import Channel
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.fake.population import Population

PODS = 20
RELISTERS = {"ours": open_ours, "port": open_port, "pure": open_pure}
OBSERVERS = {"ours": Relist, "port": PortedPleg, "pure": PureRelist}


class Crib(Bare):
    """A runtime that reads its answers off a population. The status of what belongs to ``failing`` is an error."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.failing: set[str] = set()
        self.is_listed = True
        self.status_seconds = 0.0

    async def ListPodSandbox(self, stream: Any) -> None:
        await stream.recv_message()
        self._fail_list()
        await stream.send_raw(self.population.sandbox_list())

    async def ListContainers(self, stream: Any) -> None:
        await stream.recv_message()
        await stream.send_raw(self.population.container_list())

    async def StreamPodSandboxes(self, stream: Any) -> None:
        await stream.recv_message()
        self._fail_list()
        for chunk in self.population.chunks(5000)[0]:
            await stream.send_raw(chunk)

    async def StreamContainers(self, stream: Any) -> None:
        await stream.recv_message()
        for chunk in self.population.chunks(5000)[1]:
            await stream.send_raw(chunk)

    async def PodSandboxStatus(self, stream: Any) -> None:
        status = self.population.sandboxes[(await stream.recv_message()).pod_sandbox_id].status()
        await self._answer_status(status)
        await stream.send_message(pb.PodSandboxStatusResponse(status=status))

    async def ContainerStatus(self, stream: Any) -> None:
        status = self.population.containers[(await stream.recv_message()).container_id].status()
        await self._answer_status(status)
        await stream.send_message(pb.ContainerStatusResponse(status=status))

    def _fail_list(self) -> None:
        if not self.is_listed:
            raise GRPCError(Status.INTERNAL, "no list today")

    async def _answer_status(self, status: Any) -> None:
        await trio.sleep(self.status_seconds)
        if status.labels[POD_UID] in self.failing:
            raise GRPCError(Status.INTERNAL, "this one cannot be seen")


@pytest.fixture(params=[(name, streaming) for name in RELISTERS for streaming in (False, True)])
async def over_socket(request, autojump_clock):
    """A population, its runtime, and a peer that relists over a channel to it."""
    name, streaming = request.param
    crib = Crib(Population(PODS, 2, seed=1))
    async with memory_pair(crib) as channel, RELISTERS[name](channel, streaming) as relister:
        yield crib, Peer(None, relister)


async def events(peer: Peer) -> list[tuple[str, str, str]]:
    return [tuple(event.values()) for event in await peer.answer({"do": "events"})]


async def test_the_first_relist_tells_everything_and_the_next_one_nothing(over_socket):
    crib, peer = over_socket
    first = await peer.answer({"do": "relist"})
    assert (3 * PODS, PODS, None) == (first["events"], first["inspected"], first["error"])
    assert 0 < first["list_ns"] < first["first_published_ns"] < first["last_published_ns"] < first["wall_ns"]
    started = await events(peer)
    assert sorted(started) == started
    assert {*crib.population.containers, *crib.population.sandboxes} == {id_ for _, _, id_ in started}
    assert {"ContainerStarted"} == {kind for _, kind, _ in started}

    second = await peer.answer({"do": "relist"})
    assert (0, 0, None, None) == tuple(second[key] for key in ("events", "inspected", "error", "last_published_ns"))
    assert [] == await events(peer)


async def test_what_happened_in_between_is_reported_once(over_socket):
    crib, peer = over_socket
    await peer.answer({"do": "relist"})
    await events(peer)
    before = set(crib.population.containers)
    for _ in range(2):  # a container ends, and the next one runs in its place
        crib.population.tick(0.2)
    await peer.answer({"do": "relist"})
    told = await events(peer)
    assert {id_ for _, kind, id_ in told if kind == "ContainerStarted"} == {*crib.population.containers} - before
    assert {id_ for _, kind, id_ in told if kind == "ContainerRemoved"} == before - {*crib.population.containers}
    assert {"ContainerDied"} <= {kind for _, kind, _ in told}


async def test_pod_with_a_failed_inspection_is_reported_with_the_next_relist(over_socket):
    crib, peer = over_socket
    blocked = min(crib.population.pods)
    crib.failing = {blocked}
    assert PODS == (await peer.answer({"do": "relist"}))["inspected"]
    assert blocked not in {pod for pod, _, _ in await events(peer)}
    crib.failing = set()
    assert 1 == (await peer.answer({"do": "relist"}))["inspected"]
    assert [blocked] * 3 == [pod for pod, _, _ in await events(peer)]


async def test_a_list_that_fails_is_an_answer_and_not_an_end(over_socket):
    crib, peer = over_socket
    crib.is_listed = False
    answer = await peer.answer({"do": "relist"})
    assert ("no list today", 0, None) == (answer["error"], answer["events"], answer["list_ns"])
    crib.is_listed = True
    assert 3 * PODS == (await peer.answer({"do": "relist"}))["events"]


@pytest.mark.parametrize("name", ["port", "pure"])
async def test_what_is_found_is_kept_as_a_kubelet_would_keep_it(name, autojump_clock):
    crib = Crib(Population(PODS, 2, seed=6))
    async with memory_pair(crib) as channel, RELISTERS[name](channel, False) as relister:
        peer = Peer(None, relister)
        await peer.answer({"do": "relist"})
        gone, *rest = crib.population.pods
        for sandbox in list(crib.population.pods[gone].values()):
            crib.population.remove_sandbox(sandbox)
        await peer.answer({"do": "relist"})
        assert {*rest} == {*relister.cache}
        kept = relister.cache[rest[0]]
        assert [*crib.population.pods[rest[0]]] == [sandbox.id for sandbox in kept.sandboxes]
        assert 2 == len(kept.containers)


@pytest.mark.parametrize("containers", [2, 20])
@pytest.mark.parametrize(("name", "turns"), [("ours", (4, 8)), ("pure", (4, 8)), ("port", (300, 2100))])
async def test_ours_and_pure_have_the_same_bounds_and_the_port_one_call_at_a_time(
    name, turns, containers, autojump_clock
):
    (peer,) = lineup([name])
    crowd = Crowd(100, containers, Mode.UNARY)
    seconds = Cell(crowd, status_latency_seconds=1, unknown=True).wait_seconds(peer.pods_at_once, peer.calls_at_once)
    assert turns[containers > 2] == seconds  # 32 pods at once are four turns, and 21 statuses of a pod are two

    crib = Crib(Population(crowd.pods, containers, seed=7))
    crib.status_seconds = 1
    async with memory_pair(crib) as channel, RELISTERS[name](channel, False) as relister:
        began = trio.current_time()
        assert 100 == (await Peer(None, relister).answer({"do": "relist"}))["inspected"]
        assert seconds == pytest.approx(trio.current_time() - began)


@pytest.mark.parametrize("name", ["ours", "pure"])
async def test_ours_and_pure_ask_for_all_statuses_of_a_pod_in_one_round(name, autojump_clock, monkeypatch):
    sizes: list[int] = []
    whole_round = Channel.round

    def counted(channel, questions):
        sizes.append(len(questions))
        return whole_round(channel, questions)

    monkeypatch.setattr(Channel, "round", counted)
    async with memory_pair(Crib(Population(PODS, 2, seed=8))) as channel, RELISTERS[name](channel, False) as relister:
        await Peer(None, relister).answer({"do": "relist"})
    assert [1, 1, *[3] * PODS] == sizes  # the lists, then each pod's sandbox and containers


async def test_how_long_the_loop_was_kept_is_told_when_asked_for(over_socket):
    _, peer = over_socket
    assert "stall_ns" not in await peer.answer({"do": "relist"})
    answer = await peer.answer({"do": "relist", "stall": True})
    assert 0 < answer["stall_ns"]
    assert 0 < answer["stall_cpu_ns"]


# ---- from files ----


def written(tmp_path, population: Population) -> dict[str, Any]:
    question: dict[str, Any] = {"do": "observe"}
    for kind, chunks in zip(("sandboxes", "containers"), population.chunks(5000), strict=True):
        paths = [tmp_path / f"{kind}-{number}" for number in range(len(chunks))]
        for path, chunk in zip(paths, chunks, strict=True):
            path.write_bytes(chunk)
        question[kind] = [str(path) for path in paths]
    return question


@pytest.fixture(params=OBSERVERS)
def from_files(request):
    kind = OBSERVERS[request.param]
    return Peer(kind() if kind is PortedPleg else RecordObserver(kind()), None)


async def test_lists_in_files_are_compared_with_the_ones_before(from_files, tmp_path):
    population = Population(PODS, 2, seed=2)
    first = await from_files.answer(written(tmp_path, population))
    assert (3 * PODS, None) == (first["events"], first["error"])
    assert 0 == (await from_files.answer(written(tmp_path, population)))["events"]
    population.tick(0.1)
    assert 2 == (await from_files.answer(written(tmp_path, population)))["events"]
    assert 3 * PODS + 2 == len(await events(from_files))


async def test_a_list_that_breaks_off_is_refused_and_nothing_has_changed(from_files, tmp_path):
    population = Population(PODS, 2, seed=3)
    await from_files.answer(written(tmp_path, population))
    broken = written(tmp_path, Population())
    (tmp_path / "containers-0").write_bytes(b"\x0a\x7f")
    assert (await from_files.answer(broken))["error"]
    assert 0 == (await from_files.answer(written(tmp_path, population)))["events"]


async def test_allocations_are_counted_when_asked_for(from_files, tmp_path):
    asked = written(tmp_path, Population(PODS, 2, seed=4))
    counted = await from_files.answer({**asked, "count": True})
    assert counted["allocs"] > 0
    assert counted["alloc_bytes"] > 0
    assert "allocs" not in await from_files.answer(asked)


async def test_unread_events_are_dropped(from_files, tmp_path):
    await from_files.answer(written(tmp_path, Population(PODS, 2, seed=2)))
    assert 3 * PODS == await from_files.answer({"do": "forget"})
    assert [] == await events(from_files)


async def test_a_question_that_makes_no_sense_is_refused(from_files):
    with pytest.raises(ValueError, match="cannot 'relist' here"):
        await from_files.answer({"do": "relist"})


# ---- the process, and what is measured of it ----


@pytest.mark.slow
@pytest.mark.parametrize("name", OBSERVERS)
def test_a_peer_is_a_process_that_answers_line_by_line(name, tmp_path):
    questions = [written(tmp_path, Population(PODS, 2, seed=5)), {"do": "memory"}, {"do": "quit"}]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"trikubelet.benchmark.peers.{name}", "--bytes"],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
    )
    observed, used = (json.loads(line) for line in ran.stdout.splitlines())
    assert 3 * PODS == observed["events"]
    assert 0 < used["heap_bytes"]
    assert 0 < used["rss_bytes"] <= used["peak_rss_bytes"]


@pytest.mark.parametrize("flags", [[], ["--bytes", "--socket", "x"]])
def test_a_peer_relists_over_a_socket_or_from_files_and_not_both(flags, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peer", *flags])
    with pytest.raises(SystemExit):
        main(PortedPleg, open_port)
    assert "--socket" in capsys.readouterr().err


def test_without_go_there_is_one_clear_word_and_no_peer():
    script = Path(__file__).parents[3] / "bench/peers/build.sh"
    ran = subprocess.run(["/bin/sh", script], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=True)
    assert ("no-go\n", "") == (ran.stdout, ran.stderr)


@pytest.mark.slow
def test_memory_in_use_is_pythons_and_the_c_librarys():
    before = memory()["heap_bytes"]
    many = [str(number) * 3 for number in range(100_000)]
    large = b"x" * 30_000_000
    held = memory()["heap_bytes"] - before
    del many
    assert 30_000_000 + 5_000_000 < held < 30_000_000 + 20_000_000
    assert held - (memory()["heap_bytes"] - before) > 5_000_000
    assert len(large)


async def test_the_stall_watch_knows_the_longest_step():
    watch = StallWatch()
    trio.lowlevel.add_instrument(watch)
    await trio.lowlevel.checkpoint()
    trio.lowlevel.remove_instrument(watch)
    assert 0 < watch.longest_ns
    assert 0 < watch.longest_cpu_ns


async def test_ours_looks_after_its_heap_as_the_agent_does(autojump_clock, monkeypatch):
    looked: list[float] = []

    async def look_after_heap():
        looked.append(trio.current_time())
        await trio.sleep_forever()

    monkeypatch.setattr(ours, "look_after_heap", look_after_heap)
    async with memory_pair(Crib(Population(1, 1, seed=9))) as channel, open_ours(channel, False):
        await trio.sleep(1)
    assert [0] == looked
