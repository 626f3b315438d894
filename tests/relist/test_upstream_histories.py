"""Upstream's own PLEG was told random histories of a node and its events were kept (bench/peers/compare_histories.py
--record): whoever relists here must tell the same ones.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from random import Random

import pytest
from google.protobuf.message import DecodeError

from trikubelet.benchmark.peers.histories import Item, Step, generate
from trikubelet.benchmark.peers.ours import RecordObserver
from trikubelet.benchmark.peers.port import PortedPleg
from trikubelet.benchmark.peers.pure import PureRelist
from trikubelet.core.relist import Relist

KEPT = Path(__file__).parent / "upstream_histories.json.xz"
OBSERVERS = {
    "rust": lambda: RecordObserver(Relist("rust")),
    "python": lambda: RecordObserver(Relist("python")),
    "port": PortedPleg,
    "pure": lambda: RecordObserver(PureRelist()),
}


@pytest.fixture(scope="module")
def histories() -> list[list[tuple[Step, list[list[str]] | None]]]:
    """Every history's steps, and what upstream told; None where it could not read the lists."""
    kept = json.loads(lzma.decompress(KEPT.read_bytes()))
    return [
        [
            (Step([Item(*s) for s in sandboxes], [Item(*c) for c in containers], fail, readable), told)
            for sandboxes, containers, fail, readable, told in history
        ]
        for history in kept
    ]


def told(observer, step: Step, chance: Random) -> list[list[str]] | None:
    sandboxes, containers = step.lists(chance)
    try:
        return sorted(list(event) for event in observer.observe([sandboxes], [containers], step.fail))
    except (ValueError, DecodeError):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", OBSERVERS)
def test_the_events_are_upstreams(histories, name):
    chance = Random(name)
    for number, history in enumerate(histories):
        observer = OBSERVERS[name]()
        for place, (step, upstream) in enumerate(history):
            assert upstream == told(observer, step, chance), (number, place)


def test_the_histories_have_everything_in_them(histories):
    steps = [pair for history in histories for pair in history]
    assert {"ContainerStarted", "ContainerDied", "ContainerRemoved", "PodSync"} == {
        event[1] for _, upstream in steps for event in upstream or ()
    }
    assert {True, False} == {step.readable for step, _ in steps}
    assert all(step.readable == (upstream is not None) for step, upstream in steps)
    assert any(upstream == [] and step.fail for step, upstream in steps)


def test_a_seed_is_a_history():
    assert list(generate(7)) == list(generate(7))
    assert list(generate(7)) != list(generate(8))
