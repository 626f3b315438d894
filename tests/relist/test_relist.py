"""The relist against upstream's PLEG scenarios, on both backends, and both backends against each other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from relist.wire import Container, Node, Sandbox, message, text, varint
from trikubelet.core.relist import Counts, EventKind, Relist
from trikubelet.cri.v1 import api_pb2 as pb

RUNNING, EXITED, UNKNOWN = 1, 2, 3
STARTED, DIED, REMOVED, CHANGED = EventKind
BACKENDS = ("rust", "python")


@pytest.fixture(params=BACKENDS)
def relist(request: pytest.FixtureRequest) -> Relist:
    return Relist(request.param)


def told(relist: Relist, node: Node, *, advance: bool = True) -> dict[str, list[tuple[EventKind, str]]]:
    """What one list reports, as upstream's test tables write it."""
    changes = relist.observe(*node.lists())
    for change in changes:
        if advance:
            relist.advance(change.uid)
    return {change.uid: [(event.kind, event.id) for event in change.events] for change in changes}


def containers(*rows: tuple[str, str, int]) -> Node:
    return Node(containers=[Container(id_, uid, state) for uid, id_, state in rows])


def test_first_sight_and_every_transition_is_an_event(relist: Relist) -> None:
    node = containers(("1234", "c1", EXITED), ("1234", "c2", RUNNING), ("1234", "c3", UNKNOWN), ("4567", "c1x", EXITED))

    assert {
        "1234": [(DIED, "c1"), (STARTED, "c2"), (CHANGED, "c3")],
        "4567": [(DIED, "c1x")],
    } == told(relist, node)
    assert {} == told(relist, node)

    node = containers(("1234", "c2", EXITED), ("1234", "c3", RUNNING), ("4567", "c4", RUNNING))
    assert {
        "1234": [(REMOVED, "c1"), (DIED, "c2"), (STARTED, "c3")],
        "4567": [(REMOVED, "c1x"), (STARTED, "c4")],
    } == told(relist, node)


def test_sandboxes_make_the_same_events_as_containers(relist: Relist) -> None:
    node = Node(sandboxes=[Sandbox("s1", "1234", 1), Sandbox("s2", "1234", 0)])
    assert {"1234": [(DIED, "s1"), (STARTED, "s2")]} == told(relist, node)

    node.sandboxes = [Sandbox("s2", "1234", 1)]
    assert {"1234": [(REMOVED, "s1"), (DIED, "s2")]} == told(relist, node)


@pytest.mark.parametrize(
    ("state", "expected"),
    [(RUNNING, [(DIED, "c"), (REMOVED, "c")]), (EXITED, [(REMOVED, "c")]), (UNKNOWN, [(DIED, "c"), (REMOVED, "c")])],
)
def test_a_container_that_vanished(relist: Relist, state: int, expected: list[object]) -> None:
    told(relist, containers(("u", "c", state)))

    assert {"u": expected} == told(relist, Node())
    assert [] == relist.pods()


def test_a_pod_that_was_not_inspected_is_reported_again_with_the_same_events(relist: Relist) -> None:
    node = containers(("u", "c", RUNNING))

    assert {"u": [(STARTED, "c")]} == told(relist, node, advance=False)
    node.containers = [Container("c", "u", EXITED)]
    assert {"u": [(DIED, "c")]} == told(relist, node, advance=False)
    assert {"u": [(DIED, "c")]} == told(relist, node)
    assert {} == told(relist, node)


def test_a_pod_to_inspect_again_is_reported_without_events(relist: Relist) -> None:
    node = containers(("u", "c", RUNNING))
    told(relist, node)
    (change,) = relist.observe(*node.lists(), reinspect={"u"})
    (gone,) = relist.observe([], [], reinspect={"other", "u"})[:1]

    assert ((), ("c",), False) == (change.events, change.containers, change.gone)
    assert ("other", True) == (gone.uid, gone.gone)


def test_one_pod_can_be_listed_alone(relist: Relist) -> None:
    told(relist, containers(("a", "ca", RUNNING), ("b", "cb", RUNNING)))
    other = containers(("a", "ca", EXITED), ("b", "cb", EXITED))
    change = relist.observe_pod("a", *other.lists())

    assert change is not None
    assert [(DIED, "ca")] == [(event.kind, event.id) for event in change.events]
    relist.advance("a")
    assert relist.observe_pod("a", *other.lists()) is None
    assert relist.observe_pod("a", *other.lists(), force=True) is not None
    assert (RUNNING,) == tuple(container.state for container in relist.pod("b").containers)


def test_ids_come_newest_first_and_records_tell_the_rest(relist: Relist) -> None:
    node = Node(
        sandboxes=[Sandbox("old", "u", 1, 0, 10), Sandbox("new", "u", 0, 1, 20)],
        containers=[
            Container("c0", "u", EXITED, "web", 0, 11, "old"),
            Container("c1", "u", RUNNING, "web", 1, 21, "new"),
        ],
    )
    (change,) = relist.observe(*node.lists())

    assert (("new", "old"), ("c1", "c0")) == (change.sandboxes, change.containers)
    assert ("pod-u", "ns") == (change.name, change.namespace)
    assert (("c1", "web", 1, RUNNING, "new"), ("c0", "web", 0, EXITED, "old")) == relist.pod("u").containers
    assert Counts(1, 0, 1, 1, 0, 0) == relist.counts()


def test_of_two_of_a_name_the_later_attempt_is_the_newer_though_the_clock_was_set_back(relist: Relist) -> None:
    node = Node(
        sandboxes=[Sandbox("old", "u", 1, 0, 7210), Sandbox("new", "u", 0, 1, 20)],
        containers=[
            Container("c0", "u", EXITED, "web", 0, 7211, "old"),
            Container("c1", "u", RUNNING, "web", 1, 21, "new"),
        ],
    )
    (change,) = relist.observe(*node.lists())

    assert (("new", "old"), ("c1", "c0")) == (change.sandboxes, change.containers)


def test_a_container_without_labels_belongs_to_the_pod_of_its_sandbox(relist: Relist) -> None:
    node = Node(
        sandboxes=[Sandbox("s", "u")],
        containers=[Container("c", "", labelled=False), Container("stray", "", sandbox_id="?", labelled=False)],
    )

    assert {"u": [(STARTED, "c"), (STARTED, "s")]} == told(relist, node)


@pytest.mark.parametrize(
    ("sandbox", "container", "expected"),
    [
        (Sandbox("s", "u"), Container("c", "u"), False),
        (Sandbox("s", "u"), Container("c", "", labelled=False), True),
        (Sandbox("s", "u"), Container("c", "u", labelled=False, sandbox_id="of nobody"), False),
        (Sandbox("s", "u", labelled=False), Container("c", "u"), True),
        (Sandbox("s", "u", labelled=False), Container("c", "", labelled=False), True),
        (Sandbox("s", "other", labelled=False), Container("c", "u"), False),
    ],
)
def test_a_pod_with_something_that_its_label_does_not_find_is_known_until_a_full_list_without_it(
    sandbox: Sandbox, container: Container, expected: bool, relist: Relist
) -> None:
    assert relist.has_unlabelled("u") is False
    told(relist, Node(sandboxes=[sandbox], containers=[container]))
    assert expected is relist.has_unlabelled("u")
    relist.observe_pod("u", [], [])
    with pytest.raises(ValueError, match="at byte"):
        relist.observe([b"\x0a"], [])
    assert expected is relist.has_unlabelled("u")
    told(relist, containers(("u", "c", RUNNING)))

    assert relist.has_unlabelled("u") is False


BROKEN = [
    pytest.param(b"\x0a\x05\x0a", id="an item longer than the reply"),
    pytest.param(message(1, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), id="an overlong length"),
    pytest.param(message(1, varint(6 << 3 | 2) + b"\x01x"), id="a state that is a string"),
    pytest.param(message(1, varint(1 << 3) + b"\x01"), id="an id that is a number"),
    pytest.param(message(1, b"\x03"), id="a group"),
    pytest.param(message(1, b"\x00\x00"), id="field number zero"),
    pytest.param(message(1, message(1, b"\xff\xfe")), id="an id that is not UTF-8"),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_reply_changes_nothing(relist: Relist, broken: bytes) -> None:
    node = containers(("u", "c", RUNNING))
    told(relist, node)
    before = relist.pods()
    with pytest.raises(ValueError, match="at byte"):
        relist.observe([], [node.lists()[1][0], broken])

    assert before == relist.pods()


def test_an_id_that_stands_twice_is_refused_and_changes_nothing(relist: Relist) -> None:
    node = containers(("u", "c", RUNNING))
    told(relist, node)
    twice = containers(("u", "c", EXITED), ("u", "c", EXITED), ("v", "d", RUNNING))
    with pytest.raises(ValueError, match="stands twice"):
        relist.observe(*twice.lists())

    assert {} == told(relist, node)


# ---- both backends, and the real protobuf library, agree ----

uids = st.sampled_from(["a", "b", "c"])
sandboxes = st.builds(
    Sandbox, st.sampled_from("stuvw"), uids, st.integers(0, 2), st.integers(0, 3), st.integers(0, 9), st.booleans()
)
items = st.builds(
    Container,
    st.sampled_from("klmnopq"),
    uids,
    st.integers(0, 4),
    st.sampled_from(["web", "db"]),
    st.integers(0, 3),
    st.integers(-1, 9),
    st.sampled_from("stuvw"),
    st.booleans(),
)
observations = st.tuples(
    st.lists(sandboxes, max_size=5, unique_by=lambda s: s.id),
    st.lists(items, max_size=7, unique_by=lambda c: c.id),
    st.sets(uids),
    st.sets(uids),
    st.sampled_from([None, "a", "b"]),
)


def questions(relist: Relist) -> list[object]:
    uids = relist.uids()
    running = [relist.is_running(uid) for uid in [*uids, "nobody"]]
    beside = relist.running(uids[::2])
    unlabelled = [uid for uid in "abc" if relist.has_unlabelled(uid)]
    return [uids, running, beside, relist.uids_with_dead(), relist.container_ids(), relist.pod_count(), unlabelled]


def answer(relist: Relist, step: tuple, lists: tuple[list[bytes], list[bytes]]) -> object:
    _, _, reinspect, advanced, only = step
    try:
        found = relist.observe_pod(only, *lists) if only else relist.observe(*lists, reinspect=reinspect)
    except ValueError as error:
        found = str(error), error.offset
    for uid in sorted(advanced):
        relist.advance(uid)
    return found, relist.pods(), relist.counts(), questions(relist)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(observations, max_size=8), st.randoms(use_true_random=False))
def test_rust_and_its_twin_answer_alike_on_every_history(history: list[tuple], chance: random.Random) -> None:
    rust, twin = Relist("rust"), Relist("python")
    for step in history:
        lists = Node(chance, list(step[0]), list(step[1])).lists()
        assert answer(twin, step, lists) == answer(rust, step, lists)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(observations, max_size=8), st.randoms(use_true_random=False))
def test_lists_by_label_between_full_ones_tell_nothing_of_what_is_as_it_was(
    history: list[tuple], chance: random.Random
) -> None:
    rust, twin = Relist("rust"), Relist("python")
    for step in history:
        node = Node(chance, list(step[0]), list(step[1]))
        lists = node.lists()
        assert answer(twin, (*step[:4], None), lists) == answer(rust, (*step[:4], None), lists)
        for uid in "abc":
            rust.advance(uid)
            twin.advance(uid)
            if not rust.has_unlabelled(uid):
                filtered = node.filtered(uid)
                assert [None, None] == [rust.observe_pod(uid, *filtered), twin.observe_pod(uid, *filtered)]


@settings(max_examples=examples(60), deadline=None)
@given(observations, st.randoms(use_true_random=False), st.data())
def test_rust_and_its_twin_refuse_the_same_corrupt_bytes(
    step: tuple, chance: random.Random, data: st.DataObject
) -> None:
    lists = Node(chance, list(step[0]), list(step[1])).lists()
    for chunks in lists:
        for index, chunk in enumerate(chunks):
            if chunk:
                at = data.draw(st.integers(0, len(chunk) - 1))
                damage = data.draw(st.binary(max_size=3))
                chunks[index] = chunk[:at] + damage + chunk[at + data.draw(st.integers(0, 2)) :]
    rust, twin = Relist("rust"), Relist("python")

    assert answer(twin, step, lists) == answer(rust, step, lists)


@settings(max_examples=examples(60), deadline=None)
@given(observations, st.randoms(use_true_random=False))
def test_the_real_protobuf_library_reads_the_same(step: tuple, chance: random.Random) -> None:
    lists = Node(chance, list(step[0]), list(step[1])).lists()
    relist = Relist("rust")
    relist.observe(*lists)
    ours = {container.id: container for pod in relist.pods() for container in pod.containers}
    decoded = [c for chunk in lists[1] for c in pb.ListContainersResponse.FromString(chunk).containers]

    for container in decoded:
        if container.id in ours:
            mine = ours[container.id]
            state = container.state if container.state in (0, 1, 2, 3) else 3
            assert (container.metadata.name, container.metadata.attempt, state, container.pod_sandbox_id) == (
                mine.name,
                mine.attempt,
                mine.state,
                mine.sandbox_id,
            )


def test_a_label_map_with_a_million_entries_is_read_in_one_pass(relist: Relist) -> None:
    labels = message(8, text(1, "k") + text(2, "v")) * (1_000_000 if "rust" in repr(relist._inner) else 10_000)
    body = text(1, "c") + labels + message(8, text(1, "io.kubernetes.pod.uid") + text(2, "u"))

    assert ["u"] == [change.uid for change in relist.observe([], [message(1, body)])]
