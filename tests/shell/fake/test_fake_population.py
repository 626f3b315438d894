"""The pods the fake runtime makes up: how large they are, how they change, and how their lists are told."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.relist import EventKind, Relist
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.fake.lists import BUCKET_SIZE, ElementList
from trikubelet.fake.pods import pod_address
from trikubelet.fake.population import Population
from trikubelet.fake.records import Entry


def containers(reply: bytes) -> list[pb.Container]:
    return list(pb.ListContainersResponse.FromString(reply).containers)


def sandboxes(reply: bytes) -> list[pb.PodSandbox]:
    return list(pb.ListPodSandboxResponse.FromString(reply).items)


def elements(reply: bytes, kind: type[pb.Container | pb.PodSandbox]) -> dict[str, bytes]:
    """The raw bytes of each element by id, as somebody would have them who compares bytes."""
    found = {}
    at = 0
    while at < len(reply):
        assert reply[at : at + 1] == b"\n"
        # Elements are between 128 and 16,383 bytes long: two bytes tell how long.
        start = at + 3
        at = start + (reply[at + 1] & 0x7F) + (reply[at + 2] << 7)
        found[kind.FromString(reply[start:at]).id] = reply[start:at]
    return found


def test_records_are_as_long_as_those_of_a_busy_cluster() -> None:
    population = Population(1000, 2, seed=1)

    assert 1117 == pytest.approx(len(population.sandbox_list()) / 1000, rel=0.005)
    assert 1258 == pytest.approx(len(population.container_list()) / 2000, rel=0.005)


def test_a_hundred_thousand_pods_have_addresses_of_their_own() -> None:
    assert 100_000 == len({pod_address(number) for number in range(100_000)})


def test_the_lists_hold_every_pod_and_container_once() -> None:
    population = Population(40, 3, seed=2)

    assert set(population.sandboxes) == {item.id for item in sandboxes(population.sandbox_list())}
    found = containers(population.container_list())
    assert 120 == len(found) == len({item.id for item in found})
    assert {pb.CONTAINER_RUNNING} == {item.state for item in found}


def test_no_element_has_the_same_bytes_in_two_lists_that_follow_each_other() -> None:
    population = Population(50, 2, seed=3)
    for read, kind in ((population.sandbox_list, pb.PodSandbox), (population.container_list, pb.Container)):
        lists = [elements(read(), kind) for _ in range(6)]
        for before, after in pairwise(lists):
            assert list(before) != list(after)
            assert sorted(before) == sorted(after)
            assert not [id_ for id_ in before if before[id_] == after[id_]]
            assert [] == [id_ for id_ in before if kind.FromString(before[id_]) != kind.FromString(after[id_])]


def test_the_same_seed_makes_the_same_pods_and_the_same_history() -> None:
    first, again, other = Population(20, 2, seed=4), Population(20, 2, seed=4), Population(20, 2, seed=5)

    assert first.sandbox_list() == again.sandbox_list() != other.sandbox_list()
    assert first.tick(0.5) == again.tick(0.5)
    assert first.container_list() == again.container_list()


@pytest.mark.parametrize(("fraction", "changed"), [(0, 0), (0.0001, 1), (0.1, 10), (1, 100)])
def test_a_tick_changes_that_many_pods_and_a_relist_sees_just_those(fraction: float, changed: int) -> None:
    population = Population(100, 2, seed=6)
    relist = Relist()
    for _ in range(3):
        for change in relist.observe([population.sandbox_list()], [population.container_list()]):
            relist.advance(change.uid)
        uids = population.tick(fraction)
        changes = relist.observe([population.sandbox_list()], [population.container_list()])

        assert changed == len(uids)
        assert sorted(uids) == sorted(change.uid for change in changes)
        assert 200 == len(containers(population.container_list()))


def test_a_status_is_told_as_it_is_now_whatever_was_told_before() -> None:
    population = Population(20, 2, 1)
    for _ in range(4):
        population.prepare()
        population.tick(0.5)
        population.end_sandbox(next(s for s in population.sandboxes.values() if s.ready))
        for one in (*population.sandboxes.values(), *population.containers.values()):
            assert one.reply() == population.reply(one)
        population.remove_sandbox(next(iter(population.sandboxes.values())))

    assert {*population.sandboxes, *population.containers} == population._replies.keys()


def test_a_container_that_ended_is_replaced_by_its_next_attempt() -> None:
    population = Population(1, 1, seed=7)
    relist = Relist()
    told = []
    for tick in (0, 1, 1):
        population.tick(tick)
        for change in relist.observe([population.sandbox_list()], [population.container_list()]):
            relist.advance(change.uid)
            told.append({event.kind for event in change.events if not event.is_sandbox})

    assert [{EventKind.STARTED}, {EventKind.DIED}, {EventKind.REMOVED, EventKind.STARTED}] == told
    [container] = population.containers.values()
    assert (1, "1") == (container.attempt, container.annotations["io.kubernetes.container.restartCount"])


def test_the_chunks_of_a_stream_make_the_whole_list_and_keep_their_limit() -> None:
    population = Population(100, 2, seed=8)

    of_sandboxes, of_containers = population.chunks(64 * 1024)

    assert len(of_containers) > 1
    assert max(map(len, [*of_sandboxes, *of_containers])) <= 64 * 1024
    assert 100 == len(sandboxes(b"".join(of_sandboxes)))
    assert set(population.containers) == {item.id for reply in of_containers for item in containers(reply)}


def test_lists_of_nothing_are_empty_replies() -> None:
    population = Population()

    assert (b"", b"") == (population.sandbox_list(), population.container_list())
    assert ([b""], [b""]) == population.chunks(1024)
    assert [] == population.tick(1)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5 * BUCKET_SIZE))))
def test_a_list_holds_what_was_put_and_not_removed(steps: list[tuple[bool, int]]) -> None:
    listed, expected = ElementList(seed=1), {}
    for number, (put, which) in enumerate(steps):
        id_ = f"{which:064x}"
        if put:
            expected[id_] = b"<%d %d>" % (which, number)
            listed.put(id_, Entry(expected[id_], (), (), b""))
        elif expected.pop(id_, None) is not None:
            listed.remove(id_)

        assert sorted(expected.values()) == sorted(re.findall(rb"<.*?>", b"".join(listed.pieces())))
        assert len(expected) == len(listed)
