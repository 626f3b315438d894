"""A second look at the node's object: what counts as one, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from trikubelet.model.api import NODES
from trikubelet.model.api_errors import ApiFailure
from trikubelet.node.second_look import KEPT_SECONDS_MAX, SecondLook
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Fail, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model import k8s

SOON = 0.01


class Bench:
    """A server, and looks at the node w1 of it."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock().now_ns)
        self.api = MemoryApi(self.server)
        self.found: list[k8s.Node] = []
        self.look = SecondLook(self.api, "w1", self.found.append)


async def test_a_look_finds_the_node_and_the_pod_waits_no_more(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    bench.server.create(NODES, {"metadata": {"name": "w1"}})
    await nursery.start(bench.look.run)

    assert bench.look.awaits("a")
    await trio.sleep(SOON)
    assert not bench.look.awaits("a")
    assert ["w1"] == [node.metadata.name for node in bench.found]


async def test_that_there_is_no_node_is_an_answer(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    await nursery.start(bench.look.run)

    assert bench.look.awaits("a")
    await trio.sleep(SOON)
    assert not bench.look.awaits("a")
    assert 1 == len(bench.api.requests)


async def test_a_failure_is_none_and_another_look_is_wanted(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    bench.api.plan("get", Fail(ApiFailure("etcd is away")))
    await nursery.start(bench.look.run)

    assert bench.look.awaits("a")
    await trio.sleep(SOON)
    assert bench.look.awaits("a")
    await trio.sleep(SOON)
    assert not bench.look.awaits("a")


async def test_a_pod_that_comes_back_after_long_gets_a_look_of_its_own(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    await nursery.start(bench.look.run)

    assert bench.look.awaits("a")
    await trio.sleep(KEPT_SECONDS_MAX + 1)
    assert bench.look.awaits("b")
    assert "<SecondLook at w1, 1 pods wait>" == repr(bench.look)
    assert bench.look.awaits("a")
