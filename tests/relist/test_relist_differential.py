"""Rust, its twin and the protobuf library on lists no well-behaved runtime would send: fields in any order and number,
left out, repeated, unknown, of the wrong kind, cut off; items that contradict each other; histories with broken replies
in their middle. Whatever the bytes are, both backends give the same answer, or the same error at the same place.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from relist.wire import message, varint
from trikubelet.core import relist_twin
from trikubelet.core.parts import joined, pods_of
from trikubelet.core.relist import DecodeError, PodChange, PodRecord, Relist
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

# Millions of them: RELIST_EXAMPLES=1000000 pytest --timeout=0 tests/relist/test_relist_differential.py
BACKENDS = ("python", "rust")
EXAMPLES = int(os.environ.get("RELIST_EXAMPLES", "") or examples(200))
UIDS = ["a", "b", "ä", "\U0001f600", ""]
IDS = ["i", "j", "k", "ß", ""]
LABELS = ["io.kubernetes.pod.uid", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "app", ""]

# ---- a grammar of fields, good and bad ----

ids = st.sampled_from(IDS).map(str.encode)
numbers = st.sampled_from([0, 1, 2, 3, 4, 127, 128, 2**31, 2**32, 2**32 + 1, 2**63, 2**64 - 1, 12345])


def field(number: int, kind: int, body: bytes) -> bytes:
    return varint(number << 3 | kind) + body


def texts(number: int, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: message(number, value))


def integers(number: int) -> st.SearchStrategy[bytes]:
    return numbers.map(lambda value: field(number, 0, varint(value)))


def some(*parts: st.SearchStrategy[bytes], most: int = 8) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(*parts), max_size=most).map(b"".join)


def inside(number: int, *parts: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    return some(*parts, most=most).map(lambda body: message(number, body))


def label(number: int) -> st.SearchStrategy[bytes]:
    keys, values = st.sampled_from(LABELS).map(str.encode), st.sampled_from([*UIDS, "name"]).map(str.encode)
    pair = st.tuples(keys, values).map(lambda pair: message(1, pair[0]) + message(2, pair[1]))
    odd = some(texts(1, keys), texts(2, values), most=3)
    return st.one_of(pair, pair, pair, odd).map(lambda body: message(number, body))


def wrong_label(number: int) -> st.SearchStrategy[bytes]:
    """What it holds is no string, and the entry goes on behind that."""
    keys = st.sampled_from(LABELS).map(str.encode)
    no_string = st.one_of(st.just(field(2, 1, b"x" * 8)), st.just(field(2, 5, b"x" * 4)), integers(2))
    bodies = st.tuples(keys, no_string, unknown).map(lambda parts: message(1, parts[0]) + parts[1] + parts[2])
    return bodies.map(lambda body: message(number, body))


THIRD, OVERRIDDEN = message(3, b"third"), message(1, b"third")
"""What no entry of a map should have, and a key of the same length that counts for nothing before another key."""


def label_or_more(number: int) -> st.SearchStrategy[bytes]:
    keys, values = st.sampled_from(LABELS).map(str.encode), st.sampled_from(UIDS).map(str.encode)
    more = st.tuples(keys, values).map(lambda pair: THIRD + message(1, pair[0]) + message(2, pair[1]))
    return st.one_of(label(number), more.map(lambda body: message(number, body)))


# Fields nobody knows, of every kind that can be skipped.
unknown = st.one_of(
    st.builds(lambda n, v: field(n, 0, varint(v)), st.integers(20, 2**29 - 1), numbers),
    st.builds(lambda n, v: field(n, 1, v), st.integers(20, 30), st.binary(min_size=8, max_size=8)),
    st.builds(lambda n, v: field(n, 5, v), st.integers(20, 30), st.binary(min_size=4, max_size=4)),
    st.builds(message, st.integers(20, 30), st.binary(max_size=9)),
)
names = st.sampled_from([b"n", b"other", b""])
uids = st.sampled_from(UIDS).map(str.encode)


def sandboxes_with(label: Callable[[int], st.SearchStrategy[bytes]]) -> st.SearchStrategy[bytes]:
    return some(
        texts(1, ids),
        texts(1, ids),
        inside(2, texts(1, names), texts(2, uids), texts(3, names), integers(4), unknown),
        inside(2, texts(2, uids)),
        integers(3),
        integers(4),
        label(5),
        unknown,
    )


def containers_with(label: Callable[[int], st.SearchStrategy[bytes]]) -> st.SearchStrategy[bytes]:
    return some(
        texts(1, ids),
        texts(1, ids),
        texts(2, ids),
        inside(3, texts(1, names), integers(2), unknown),
        integers(6),
        integers(7),
        label(8),
        label(8),
        unknown,
    )


sandbox, container = sandboxes_with(label), containers_with(label)
wild = st.builds(field, st.integers(0, 9), st.integers(0, 7), st.binary(max_size=12))


def chunks(item: st.SearchStrategy[bytes], *, spoiled: bool) -> st.SearchStrategy[list[bytes]]:
    entry = item.map(lambda body: message(1, body))
    good = some(entry, entry, entry, unknown, most=5)
    if not spoiled:
        return st.lists(good, max_size=3)
    bad = st.one_of(
        some(entry, some(item, wild).map(lambda body: message(1, body)), wild, most=4),
        some(entry, some(item, wrong_label(5), wrong_label(8)).map(lambda body: message(1, body)), most=4),
        st.tuples(good, st.integers(0, 60), st.binary(max_size=3), st.integers(0, 2)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + parts[3] :]
        ),
        st.binary(max_size=40),
    )
    return st.lists(st.one_of(good, bad), max_size=3)


# ---- both backends, side by side ----


def answer(act: Any) -> Any:
    try:
        return act()
    except ValueError as error:
        return str(error), error.offset


class Both:
    """The two backends, asked the same."""

    def __init__(self) -> None:
        self.rust, self.twin = Relist("rust"), Relist("python")

    def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        twin, rust = (
            answer(lambda backend=backend: getattr(backend, name)(*arguments, **options))
            for backend in (self.twin, self.rust)
        )
        assert twin == rust
        return rust

    def compare(self) -> list[PodRecord]:
        self.ask("counts")
        for uid in UIDS:
            self.ask("pod", uid)
            self.ask("has_unlabelled", uid)
        return self.ask("pods")


steps = st.one_of(
    st.tuples(
        st.just("observe"),
        chunks(sandbox, spoiled=False),
        chunks(container, spoiled=False),
        st.sets(st.sampled_from(UIDS)),
    ),
    st.tuples(
        st.just("observe"),
        chunks(sandbox, spoiled=True),
        chunks(container, spoiled=True),
        st.sets(st.sampled_from(UIDS)),
    ),
    st.tuples(
        st.just("observe_pod"),
        st.sampled_from(UIDS),
        chunks(sandbox, spoiled=True),
        chunks(container, spoiled=True),
        st.booleans(),
    ),
    st.tuples(st.just("advance"), st.sampled_from(UIDS)),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(steps, max_size=10))
def test_any_history_of_any_bytes_is_answered_alike(history):
    both = Both()
    for name, *arguments in history:
        if name == "observe":
            both.ask(name, arguments[0], arguments[1], reinspect=arguments[2])
        elif name == "observe_pod":
            both.ask(name, *arguments[:3], force=arguments[3])
        else:
            both.ask(name, *arguments)
        both.compare()


@settings(max_examples=EXAMPLES, deadline=None)
@given(chunks(sandbox, spoiled=True), chunks(container, spoiled=True))
def test_a_refused_list_changes_nothing_that_can_be_asked(sandboxes, containers):
    both = Both()
    before = pb.ListContainersResponse(
        containers=[pb.Container(id="i", labels={"io.kubernetes.pod.uid": "a"}, state="CONTAINER_RUNNING")]
    ).SerializeToString()
    both.ask("observe", [], [before])
    known = both.compare()
    if isinstance(both.ask("observe", sandboxes, containers), tuple):
        assert known == both.compare()
        (change,) = both.ask("observe", [], [before])
        assert ["i"] == [event.id for event in change.events]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(chunks(container, spoiled=False), max_size=3), chunks(container, spoiled=True), st.integers(0, 3))
def test_parts_are_joined_alike_and_by_the_ids_that_the_protobuf_library_reads(parts, spoiled, place):
    whole = [*parts[:place], spoiled, *parts[place:]]
    twin, rust = (answer(lambda how=how: list(joined(whole, is_sandbox=False, backend=how))) for how in BACKENDS)
    assert twin == rust
    with suppress(ProtobufError):
        listed = [[item.id for chunk in part for item in containers_of(chunk)] for part in whole]
        later = [{id_ for after in listed[number + 1 :] for id_ in after} for number in range(len(listed))]
        kept = [id_ for ids, gone in zip(listed, later, strict=True) for id_ in ids if id_ not in gone]
        if isinstance(rust, list):
            assert kept == [item.id for chunk in reversed(rust) for item in containers_of(chunk)]


def containers_of(chunk: bytes) -> list[pb.Container]:
    return list(pb.ListContainersResponse.FromString(chunk).containers)


@settings(max_examples=EXAMPLES, deadline=None)
@given(chunks(sandbox, spoiled=True))
def test_the_pods_to_split_by_are_told_alike_and_as_the_protobuf_library_reads_them(replies):
    for reply in replies:
        twin, rust = (answer(lambda reply=reply, how=how: pods_of(reply, backend=how)) for how in BACKENDS)
        assert twin == rust
        with suppress(ProtobufError):
            read = {
                (s.metadata.namespace or s.labels.get(LABELS[2], ""), s.metadata.uid or s.labels.get(LABELS[0], ""))
                for s in pb.ListPodSandboxResponse.FromString(reply).items
            }
            if isinstance(rust, dict):
                assert {pod for pod in read if pod[1]} == {(space, uid) for space, uids in rust.items() for uid in uids}


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(sandboxes_with(label_or_more), max_size=4), st.lists(containers_with(label_or_more), max_size=5))
@example([], [b"\x08\x96\x01" * 3])
@example([], [message(1, b"i") + message(8, THIRD + message(1, LABELS[0].encode()) + message(2, b"a"))])
def test_what_the_protobuf_library_reads_is_what_is_kept(sandboxes, containers):
    one = b"".join(message(1, item) for item in sandboxes)
    two = b"".join(message(1, item) for item in containers)
    relist = Relist("rust")
    try:
        relist.observe([one], [two])
        # An entry with a third field counts, see ``any_pair`` in rust/relist/src/wire.rs; this library leaves it out.
        one, two = (listed.replace(THIRD, OVERRIDDEN) for listed in (one, two))
        decoded = pb.ListPodSandboxResponse.FromString(one), pb.ListContainersResponse.FromString(two)
    except (DecodeError, ProtobufError):
        return
    expected_sandboxes, expected_containers = expected(*decoded)

    assert expected_sandboxes == {
        (pod.uid, item.id, item.attempt, item.state) for pod in relist.pods() for item in pod.sandboxes
    }
    assert expected_containers == {
        (pod.uid, item.id, item.name, item.attempt, item.state, item.sandbox_id)
        for pod in relist.pods()
        for item in pod.containers
    }


def expected(sandboxes: pb.ListPodSandboxResponse, containers: pb.ListContainersResponse) -> tuple[set, set]:
    """What must be kept of lists that the protobuf library has decoded."""
    owners = {s.id: s.metadata.uid or s.labels.get(LABELS[0], "") for s in sandboxes.items}
    of_sandboxes = {
        (uid, s.id, s.metadata.attempt, 0 if s.state == 0 else 1)
        for s in sandboxes.items
        if (uid := s.metadata.uid or s.labels.get(LABELS[0], ""))
    }
    of_containers = {
        (uid, c.id, c.metadata.name, c.metadata.attempt, c.state if c.state in range(4) else 3, c.pod_sandbox_id)
        for c in containers.containers
        if (uid := c.labels.get(LABELS[0], "") or owners.get(c.pod_sandbox_id, ""))
    }
    return of_sandboxes, of_containers


# ---- single cases that the search is not to be relied on for ----


@pytest.mark.parametrize("backend", ["rust", "python"])
@pytest.mark.parametrize(
    ("wire", "state"), [(0, 0), (1, 1), (3, 3), (4, 3), (2**31, 3), (2**32, 0), (2**32 + 1, 1), (2**64 - 1, 3)]
)
def test_a_state_is_32_bits_of_its_varint_and_one_that_does_not_exist_is_unknown(backend, wire, state):
    relist = Relist(backend)
    uid = message(8, message(1, LABELS[0].encode()) + message(2, b"a"))
    relist.observe([], [message(1, message(1, b"c") + field(6, 0, varint(wire)) + uid)])
    assert [state] == [container.state for container in relist.pod("a").containers]


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_an_error_names_the_reply_the_chunk_and_the_place(backend):
    good, bad = message(1, message(1, b"c")), message(1, message(1, b"\xff"))
    with pytest.raises(
        ValueError, match=r"^ListContainers reply, chunk 1, at byte 9: a string is not UTF-8$"
    ) as raised:
        Relist(backend).observe([good], [good, good + bad])
    assert 9 == raised.value.offset
    with pytest.raises(ValueError, match=r"^ListPodSandbox reply, chunk 0, at byte 1: "):
        Relist(backend).observe([b"\x0a"], [bad])


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_a_pod_keeps_the_first_name_it_was_told_and_a_gone_one_is_known_by_it(backend):
    def one(name: str, state: str) -> list[bytes]:
        item = pb.PodSandbox(id="s", metadata=pb.PodSandboxMetadata(name=name, uid="a", namespace="ns"), state=state)
        return [pb.ListPodSandboxResponse(items=[item]).SerializeToString()]

    relist = Relist(backend)
    relist.observe(one("", "SANDBOX_READY"), [])
    assert "" == relist.pod("a").name
    relist.observe(one("first", "SANDBOX_NOTREADY"), [])
    relist.observe(one("second", "SANDBOX_READY"), [])
    assert ("first", "ns") == (relist.pod("a").name, relist.pod("a").namespace)
    relist.advance("a")
    assert [PodChange] == [type(change) for change in relist.observe([], [])]
    (gone,) = relist.observe([], [])
    assert ("first", True) == (gone.name, gone.gone)


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_what_is_not_bytes_is_refused_before_anything_is_read(backend):
    with pytest.raises(TypeError):
        Relist(backend).observe(["text"], [])


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_a_list_of_a_million_nothings_is_refused_and_changes_nothing(backend, monkeypatch):
    items_max = relist_twin.ITEMS_MAX
    if backend == "python":  # the same rule at a size that is quickly read
        items_max = 100
        monkeypatch.setattr(relist_twin, "ITEMS_MAX", items_max)
    relist = Relist(backend)
    relist.observe([], [message(1, b"") * items_max])
    known = relist.counts()
    with pytest.raises(ValueError, match=f"chunk 1, at byte 2: the list has more than {items_max} items$"):
        relist.observe([], [message(1, b"") * items_max, message(1, b"")])
    assert known == relist.counts()
    assert items_max == known.unmanaged


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_label_that_is_no_string_is_told_where_it_ends_whatever_follows_in_its_entry(backend):
    entry = message(1, LABELS[0].encode()) + field(2, 1, b"x" * 8) + message(20, b"y" * 40)
    head = message(1, b"i")
    item = head + message(5, entry)
    reply = message(1, item)
    ends = reply.index(b"x" * 8) + 8

    with pytest.raises(ValueError, match=f"at byte {ends}: a field has the wrong wire type$"):
        Relist(backend).observe([reply], [])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("id_", "told"),
    [("ä" * 64, "ä" * 64), ("ä" * 65, "ä" * 64 + "…"), ("i" * 60_000, "i" * 64 + "…")],
    ids=["as long", "longer", "without end"],
)
def test_an_id_that_stands_twice_is_reported_with_no_more_characters_than_ids_have(backend, id_, told):
    one = pb.PodSandbox(id=id_, metadata=pb.PodSandboxMetadata(name="n", uid="a", namespace="d"))
    reply = pb.ListPodSandboxResponse(items=[one, one]).SerializeToString()

    with pytest.raises(ValueError, match=f"id {told} stands twice in the list$"):
        Relist(backend).observe([reply], [])
