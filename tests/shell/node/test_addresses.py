"""A node's addresses, which come late and change."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.core.node_addresses import AddressRules
from trikubelet.node.addresses import LOOK_SECONDS, NAME_SECONDS_MAX, NodeAddresses
from trikubelet.testing.memory_host import MemoryHostNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import pytest
    from trio.testing import MockClock

RULES = AddressRules("n")


@asynccontextmanager
async def followed(network: MemoryHostNetwork, rules: AddressRules = RULES) -> AsyncIterator[NodeAddresses]:
    addresses = NodeAddresses(network, rules)
    async with trio.open_nursery() as nursery:
        await nursery.start(addresses.run)
        yield addresses
        nursery.cancel_scope.cancel()


async def test_a_network_that_comes_up_late_is_noticed_within_a_second(autojump_clock: MockClock) -> None:
    network = MemoryHostNetwork()
    async with followed(network) as addresses:
        await trio.sleep(100.5)
        assert () == addresses.get()
        network.routes = ["10.0.0.1"]
        await trio.sleep(1)
        assert ("10.0.0.1",) == addresses.get()


async def test_an_address_that_changes_is_noticed_and_one_that_goes_stays(autojump_clock: MockClock) -> None:
    network, heard = MemoryHostNetwork("10.0.0.1"), list[tuple[str, ...]]()
    async with followed(network) as addresses:
        addresses.changed.add(heard.append)
        await trio.sleep(100)
        network.routes = []
        await trio.sleep(100)
        assert ("10.0.0.1",) == addresses.get()
        network.routes = ["10.0.0.2"]
        await trio.sleep(LOOK_SECONDS)
        assert ("10.0.0.2",) == addresses.get()

    assert [("10.0.0.2",)] == heard


async def test_an_address_of_a_flag_counts_once_the_machine_has_it(autojump_clock: MockClock) -> None:
    network = MemoryHostNetwork("10.0.0.1")
    async with followed(network, AddressRules("n", ("10.9.9.9",))) as addresses:
        await trio.sleep(60.5)
        assert () == addresses.get()
        network.held = ["10.9.9.9"]
        await trio.sleep(1)
        assert ("10.9.9.9",) == addresses.get()


async def test_a_node_without_an_address_says_so_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryHostNetwork()
    async with followed(network):
        await trio.sleep(179)
        told = "This node has no address, a new one is not registered before it has one: there is no default route"
        assert [True] * 3 == [message.startswith(told) for message in caplog.messages]
        network.routes = ["10.0.0.1"]
        await trio.sleep(2)
        caplog.clear()
        network.routes = []
        await trio.sleep(2 * LOOK_SECONDS)

    assert ["This node has no address, 10.0.0.1 stays"] == [one.partition(":")[0] for one in caplog.messages]


async def test_dns_holds_up_nothing_and_what_it_said_counts_while_it_does_not_answer(autojump_clock: MockClock) -> None:
    network = MemoryHostNetwork("10.0.0.1")
    network.names, network.held, network.dns_seconds = ["10.0.0.5"], ["10.0.0.5"], NAME_SECONDS_MAX + 1
    async with followed(network) as addresses:
        assert ("10.0.0.1",) == addresses.get()
        assert not addresses.looked.is_set()
        await trio.sleep(NAME_SECONDS_MAX)
        await addresses.looked.wait()
        assert ("10.0.0.1",) == addresses.get()

        network.dns_seconds = 0.1
        await trio.sleep(2 * LOOK_SECONDS)
        assert ("10.0.0.5",) == addresses.get()
        network.dns_seconds, network.names = 0, None
        await trio.sleep(100)
        assert ("10.0.0.5",) == addresses.get()
        network.dns_seconds, network.names = 3600, []
        await trio.sleep(100)
        assert ("10.0.0.5",) == addresses.get()
        network.held = []  # it is not this machine's any more
        await trio.sleep(2 * LOOK_SECONDS)
        assert ("10.0.0.1",) == addresses.get()


async def test_an_answer_of_dns_that_always_comes_late_counts_when_it_comes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryHostNetwork()
    network.names, network.held, network.dns_seconds = ["10.0.0.5"], ["10.0.0.5"], 12
    async with followed(network) as addresses:
        await trio.sleep(11)
        assert () == addresses.get()
        await trio.sleep(3)
        assert ("10.0.0.5",) == addresses.get()
        await trio.sleep(600)
        assert ("10.0.0.5",) == addresses.get()

    slow, without = (text for text in caplog.messages if "DNS" in text)
    assert slow.startswith("DNS does not answer within 5 s for n: ")
    assert "and DNS does not answer in time for n: " in without


async def test_dns_is_asked_once_at_a_time_and_again_after_each_answer(autojump_clock: MockClock) -> None:
    class Counted(MemoryHostNetwork):
        asked = together = together_peak = 0

        async def named(self, name: str) -> Sequence[str] | None:
            self.asked += 1
            self.together += 1
            self.together_peak = max(self.together_peak, self.together)
            found = await super().named(name)
            self.together -= 1
            return found

    network = Counted("10.0.0.1")
    network.dns_seconds = 300
    async with followed(network):
        await trio.sleep(1000)

    assert (4, 1) == (network.asked, network.together_peak)


async def test_a_node_that_the_cluster_knows_by_an_address_is_not_said_to_wait_for_one(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    addresses = NodeAddresses(MemoryHostNetwork(), RULES)
    addresses.published = lambda: ("10.0.0.7",)
    with trio.move_on_after(10):
        await addresses.run()

    assert ["This node has no address, 10.0.0.7 stays"] == [one.partition(":")[0] for one in caplog.messages]


async def test_an_agent_that_is_alone_has_the_loopback_address_until_there_is_another(
    autojump_clock: MockClock,
) -> None:
    network = MemoryHostNetwork()
    async with followed(network, AddressRules("n", in_cluster=False)) as addresses:
        assert ("127.0.0.1",) == addresses.get()
        network.routes = ["10.0.0.1", "fd00::1"]
        await trio.sleep(2 * LOOK_SECONDS)
        assert ("10.0.0.1", "fd00::1") == addresses.get()
        network.routes = []  # for a moment, as while the network is set up again
        await trio.sleep(2 * LOOK_SECONDS)
        assert ("10.0.0.1", "fd00::1") == addresses.get()
