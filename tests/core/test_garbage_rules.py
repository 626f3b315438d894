"""What the runtime may forget: all but the newest dead container of each name, and all of a pod that is gone."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.garbage import Garbage, collect
from trikubelet.core.relist import ContainerRecord, PodRecord, SandboxRecord
from trikubelet.model.runtime import ContainerState, SandboxState

CREATED, RUNNING, EXITED, UNKNOWN = ContainerState


def box(id_: str, state: SandboxState = SandboxState.READY) -> SandboxRecord:
    return SandboxRecord(id_, 0, state)


def dead_box(id_: str) -> SandboxRecord:
    return box(id_, SandboxState.NOTREADY)


def one(id_: str, state: ContainerState = EXITED, sandbox: str = "s1") -> ContainerRecord:
    """The container's name is the letter its id begins with."""
    return ContainerRecord(id_, id_[0], 0, state, sandbox)


class Case(NamedTuple):
    id: str
    expected: Garbage
    containers: tuple[ContainerRecord, ...]
    sandboxes: tuple[SandboxRecord, ...] = (box("s1"),)
    gone: bool = False


CASES = [
    Case("of each container the newest dead one stays", Garbage(("b1", "a1", "a2")),
         (one("a3"), one("b2"), one("a2"), one("a1"), one("b1"))),
    Case("a running one is not a dead one", Garbage(("a1",)), (one("a3", RUNNING), one("a2"), one("a1"))),
    Case("one that is about to start is none either", Garbage(("a1",)), (one("a3", CREATED), one("a2"), one("a1"))),
    Case("one that was made and then left alone is", Garbage(("a1", "a2")),
         (one("a4", RUNNING), one("a3"), one("a2", CREATED), one("a1"))),
    Case("unknown counts as dead", Garbage(("a1",)), (one("a2", UNKNOWN), one("a1"))),
    Case("an init container keeps one as well", Garbage(("i1",)), (one("a1", RUNNING), one("i2"), one("i1"))),
    Case("of a pod that is gone nothing stays", Garbage(("a1", "a2", "b1"), ("s1",)),
         (one("b1"), one("a2"), one("a1")), (dead_box("s1"),), gone=True),
    Case("not even one that never started", Garbage(("a1",), ("s1",)), (one("a1", CREATED),), (dead_box("s1"),), True),
    Case("what still runs of a pod that is gone is not garbage", Garbage(("b1",)), (one("a1", RUNNING), one("b1")),
         (dead_box("s1"),), True),
    Case("a live sandbox stays", Garbage(), (), (box("s1"),)),
    Case("the newest sandbox stays though it is dead", Garbage(), (), (dead_box("s1"),)),
    Case("older dead sandboxes go", Garbage((), ("s1", "s2")), (), (box("s3"), dead_box("s2"), dead_box("s1"))),
    Case("of several dead ones the newest stays", Garbage((), ("s1",)), (), (dead_box("s2"), dead_box("s1"))),
    Case("a dead sandbox stays while a container is kept in it", Garbage(), (one("a1", sandbox="s1"),),
         (box("s2"), dead_box("s1"))),
    Case("a dead sandbox goes with its last container", Garbage(("a1",), ("s1",)),
         (one("a2", sandbox="s2"), one("a1", sandbox="s1")), (box("s2"), dead_box("s1"))),
    Case("an older sandbox that lives is not garbage", Garbage(), (), (box("s2"), box("s1"))),
    Case("a live sandbox of a pod that is gone is stopped first by others", Garbage(), (), (box("s1"),), True),
]  # fmt: skip


def record(uid: str, case: Case) -> PodRecord:
    return PodRecord(uid, "pod", "default", case.sandboxes, case.containers)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_collect(case: Case) -> None:
    assert case.expected == collect([record("1", case)], lambda _: case.gone)


def test_each_pod_is_judged_by_itself() -> None:
    case = Case("", Garbage(), (one("a1"),), (dead_box("s1"),))
    asked: list[str] = []

    def gone(uid: str) -> bool:
        asked.append(uid)
        return uid == "2"

    records = [record("1", case), record("2", case._replace(containers=(one("b1", sandbox="s2"),)))]
    assert Garbage(("b1",), ("s1",)) == collect(records, gone)
    assert ["1", "2"] == asked


def test_none_may_be_kept() -> None:
    case = Case("", Garbage(), (one("a2"), one("a1")))
    assert Garbage(("a1", "a2")) == collect([record("1", case)], lambda _: False, dead_kept_per_container=0)


CONTAINERS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(list(ContainerState)), st.sampled_from(["s1", "s2", "s3"])),
    max_size=8,
).map(lambda rows: tuple(one(f"{name}{i}", state, sandbox) for i, (name, state, sandbox) in enumerate(rows)))
SANDBOXES = st.lists(st.sampled_from(list(SandboxState)), max_size=3).map(
    lambda states: tuple(box(f"s{3 - i}", state) for i, state in enumerate(states))
)


@given(CONTAINERS, SANDBOXES, st.booleans(), st.integers(0, 3))
def test_garbage_is_never_alive_and_a_second_collection_finds_none(
    containers: tuple[ContainerRecord, ...], sandboxes: tuple[SandboxRecord, ...], gone: bool, keep: int
) -> None:
    pod = PodRecord("1", "pod", "default", sandboxes, containers)
    found = collect([pod], lambda _: gone, dead_kept_per_container=keep)
    assert not {c.id for c in containers if c.state is RUNNING} & set(found.containers)
    assert not {s.id for s in sandboxes if s.state is SandboxState.READY} & set(found.sandboxes)
    left = tuple(c for c in containers if c.id not in found.containers)
    assert not {c.sandbox_id for c in left} & set(found.sandboxes), "a sandbox goes only after its containers"
    boxes = tuple(s for s in sandboxes if s.id not in found.sandboxes)
    rest = PodRecord("1", "pod", "default", boxes, left)
    assert Garbage() == collect([rest], lambda _: gone, dead_kept_per_container=keep)
