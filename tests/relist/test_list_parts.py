"""Lists that came in parts, joined as bytes; and the narrow questions about pods."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relist.wire import Container, Node, Sandbox, message, text
from trikubelet.core.parts import joined, pods_of
from trikubelet.core.relist import DecodeError, Relist
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

item = st.builds(lambda id_, name: message(1, text(1, id_) + name), st.sampled_from("abcä"), st.binary(max_size=3))
lists = st.lists(st.lists(st.lists(item, max_size=4).map(b"".join) | st.binary(max_size=5), max_size=3), max_size=4)


def ids(chunks: list[bytes]) -> list[str]:
    return [one.id for chunk in chunks for one in pb.ListContainersResponse.FromString(chunk).containers]


def containers(*names: str) -> bytes:
    return b"".join(message(1, text(1, name) + text(2, "s")) for name in names)


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_what_stands_in_two_parts_is_left_where_it_came_last(backend: str) -> None:
    parts = [[containers("a", "b", "c"), containers("d")], [], [containers("b", "e", "e")]]

    found = list(joined(parts, is_sandbox=False, backend=backend))[::-1]  # type: ignore[arg-type]

    assert ["a", "c", "d", "b", "e", "e"] == ids(found)
    assert parts[0][1] == found[1]


@given(lists)
def test_rust_and_its_twin_join_alike_or_refuse_alike(parts: list[list[bytes]]) -> None:
    def answer(backend: str) -> object:
        try:
            return list(joined(parts, is_sandbox=False, backend=backend))  # type: ignore[arg-type]
        except ValueError as error:
            return str(error), error.offset

    assert answer("python") == answer("rust")


def test_a_chunk_of_which_nothing_is_left_out_is_not_copied() -> None:
    parts = [[containers("a")], [containers("b")]]

    found = list(joined(parts, is_sandbox=False))[::-1]

    assert [True, True] == [chunk is part[0] for chunk, part in zip(found, parts, strict=True)]


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_the_pods_of_a_list_are_reported_by_namespace_without_those_of_others(backend: str) -> None:
    sandboxes = [Sandbox("s1", "b"), Sandbox("s2", "a"), Sandbox("s3", "a", 1), Sandbox("s4", "")]
    chunks, _ = Node(random.Random(1), sandboxes).lists()

    assert {"ns": ["a", "b"]} == pods_of(b"".join(chunks), backend=backend)  # type: ignore[arg-type]
    with pytest.raises((DecodeError, ValueError), match="ends inside a field"):
        pods_of(b"\x0a\xff", backend=backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_narrow_questions_return_running_pods_and_those_with_dead_containers(backend: str) -> None:
    node = Node(random.Random(1))
    node.sandboxes = [Sandbox("s1", "up"), Sandbox("s2", "mixed", 1), Sandbox("s3", "dead", 1)]
    node.containers = [Container("c1", "up"), Container("c2", "mixed", 1), Container("c3", "dead", 2)]
    relist = Relist(backend)  # type: ignore[arg-type]
    relist.observe(*node.lists())

    assert ["mixed", "up"] == [pod.uid for pod in relist.running()]
    assert ["mixed"] == [pod.uid for pod in relist.running(beside={"up"})]
    assert [True, False, False] == [relist.is_running(uid) for uid in ("up", "dead", "nobody")]
    assert ["dead", "mixed"] == relist.uids_with_dead()
    assert ["dead", "mixed", "up"] == relist.uids()
    assert {"c1", "c2", "c3"} == relist.container_ids()
    assert 3 == relist.pod_count()


UIDS = [f"uid-{number}" for number in range(2000)]


@contextmanager
def no_object_for_each(*allowed: object) -> Iterator[None]:
    """Beside a copy of what is allowed, a few thousand bytes at most are taken at any moment."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < sum(map(sys.getsizeof, allowed)) + 10_000


def test_listing_other_running_pods_makes_no_object_for_known_ones() -> None:
    node = Node(random.Random(1), [Sandbox(f"s-{uid}", uid) for uid in UIDS])
    relist, known = Relist("rust"), set(UIDS)
    relist.observe(*node.lists())

    with no_object_for_each(known):
        assert [] == relist.running(beside=known)


def test_list_of_new_pods_makes_no_object_until_it_is_read() -> None:
    lists = Node(random.Random(1), [Sandbox(f"s-{uid}", uid) for uid in UIDS]).lists()
    relist = Relist("rust")

    with no_object_for_each():
        relist.take(*lists)
    assert sorted(UIDS) == relist.due()
    assert ("s-uid-7",) == relist.change("uid-7").sandboxes
