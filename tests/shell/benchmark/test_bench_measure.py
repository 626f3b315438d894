"""Rounds, who takes part in them, and what is written down of who does not. The peers are tiny programs."""

from __future__ import annotations

import dataclasses
import io

import pytest
import trio

from shell.benchmark.benchkit import ANSWERING, ENDING, SILENT, cell, program
from trikubelet.benchmark.grid import Mode, in_order
from trikubelet.benchmark.lineup import Peer
from trikubelet.benchmark.measure import Rules, measure
from trikubelet.benchmark.process import ENDING_SECONDS_MAX, open_program
from trikubelet.benchmark.progress import Progress
from trikubelet.benchmark.results import Memory


async def measured(cells, peers, rules=Rules(rounds_max=3)):  # noqa: B008 - a frozen record
    progress = Progress(cells, io.StringIO())
    await measure(cells, peers, rules, progress)
    return progress.results


async def test_each_peer_has_its_rounds_its_counted_one_and_its_memory():
    cells = in_order([cell(pods=3)])
    unknown, known = await measured(cells, [program("ours", ANSWERING), program("port", ANSWERING)])

    assert cells == [unknown.cell, known.cell]
    for name in ("ours", "port"):
        assert [1] == [one.wall_ns for one in unknown.peers[name].rounds]
        assert Memory(10, 20, 30) == unknown.peers[name].before
        assert [3, 4, 5] == [one.wall_ns for one in known.peers[name].rounds]  # the second was to catch up
        assert [7] == [one.allocs for one in known.peers[name].counted]
        assert Memory(10, 20, 36) == known.peers[name].memory
    assert known.list_bytes > 3 * 3_000
    assert min(known.calibration_ns) > 0


async def test_peer_that_cannot_run_is_named_with_the_reason():
    (result, _) = await measured(in_order([cell(pods=1)]), [Peer("upstream", left_out="no Go")])

    assert ("no Go", []) == (result.peers["upstream"].left_out, result.peers["upstream"].rounds)


async def test_a_peer_that_ends_is_left_out_of_the_rest_with_its_last_words():
    known = (await measured(in_order([cell(pods=1)]), [program("port", ENDING), program("ours", ANSWERING)]))[1]

    assert "it ended: I have had enough" == known.peers["port"].left_out
    assert 3 == len(known.peers["ours"].rounds)


async def test_a_peer_that_does_not_answer_is_ended_and_left_out(autojump_clock):
    # The clock jumps only when nobody has anything to do, as while a silent program is waited for.
    known = (await measured(in_order([cell(pods=1)]), [program("port", SILENT)]))[1]

    assert "it had not answered after 180 s" == known.peers["port"].left_out
    assert trio.current_time() >= 180


async def test_slow_peers_are_measured_less_often_rather_than_never():
    rules = Rules(rounds_max=5, peer_seconds=7e-9)  # the peer says that its relists take 1, 2, 3 … ns
    known = (await measured(in_order([cell(pods=1)]), [program("ours", ANSWERING)], rules))[1]

    assert [3, 4] == [one.wall_ns for one in known.peers["ours"].rounds]


async def test_each_peer_is_first_to_relist_a_crowd_it_does_not_know():
    cells = in_order(cell(pods=pods) for pods in (1, 2))
    progress = Progress(cells, io.StringIO())
    relisted = []
    progress.now = lambda which, doing: relisted.append((which, *doing.split(", ")))
    await measure(cells, [program(name, ANSWERING) for name in ("ours", "port")], Rules(rounds_max=2), progress)

    def firsts(which):
        order = [said[1:] for said in relisted if said[0] == which and "round" in said[-1]]
        return [name for name, _ in order[::2]]

    assert [["ours"], ["ours", "port"], ["port"], ["port", "ours"]] == list(map(firsts, cells))


async def test_a_killed_program_that_does_not_end_is_not_waited_for_for_ever(tmp_path, monkeypatch, autojump_clock):
    # Nobody can make a process that survives being killed, but the kernel can: while it waits for a disk.
    open_process = trio.lowlevel.open_process
    ended = trio.Process.wait

    async def open_stuck(*words, **more):
        nonlocal process
        process = await open_process(*words, **more)
        return process

    process = None
    monkeypatch.setattr(trio.lowlevel, "open_process", open_stuck)

    async def never(_: trio.Process) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio.Process, "wait", never)
    async with open_program(program("port", SILENT).command, tmp_path / "log"):
        began = trio.current_time()
    assert ENDING_SECONDS_MAX == trio.current_time() - began
    await ended(process)


@pytest.mark.slow
async def test_over_a_socket_calls_that_only_wait_are_not_waited_for():
    cells = in_order([cell(2, Mode.UNARY, 1, status_latency_seconds=10.0)])  # of 2 times 3 calls
    patient = dataclasses.replace(program("ours", ANSWERING), calls_at_once=3)
    known = (await measured(cells, [program("port", ANSWERING), patient]))[1]

    assert ("its status calls would wait for 60 s", []) == (known.peers["port"].left_out, known.peers["port"].rounds)
    assert 3 == len(known.peers["ours"].rounds)
    assert known.runtime_cpu_ns > 0
