"""What a source's new snapshot means for its pods."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import pod
from core.statuskit import status
from trikubelet.core.merge import Merged, Op, merge
from trikubelet.core.names import CONFIG_HASH, CONFIG_SEEN, CONFIG_SOURCE
from trikubelet.model import k8s

replace = msgspec.structs.replace


def named(name: str, uid: str = "", **meta: Any) -> k8s.Pod:
    return pod("a", meta={"name": name, "uid": uid or f"uid-{name}", **meta})


def changed(base: k8s.Pod, **meta: Any) -> k8s.Pod:
    return replace(base, metadata=replace(base.metadata, **meta))


def words(merged: Merged) -> list[str]:
    return [f"{change.op.value} {change.pod.metadata.name}" for change in merged.changes]


A, B, C = named("a"), named("b"), named("c")


def held(*pods: k8s.Pod) -> dict[str, k8s.Pod]:
    return {p.metadata.uid: p for p in pods}


def test_new_pods_are_added_oldest_first_and_by_name() -> None:
    young, old = (
        named("young", creation_timestamp="2026-01-02T00:00:00Z"),
        named("old", creation_timestamp="2026-01-01T00:00:00Z"),
    )
    merged = merge("api", {}, [young, B, old, A])
    assert ["add a", "add b", "add old", "add young"] == words(merged)
    assert {"api"} == {change.source for change in merged.changes}


def test_what_goes_comes_first_as_it_was_last_known() -> None:
    replacement = named("a", "uid-2")
    merged = merge("file", held(A, B), [B, replacement])
    assert [(Op.REMOVE, A), (Op.ADD, replacement)] == [(change.op, change.pod) for change in merged.changes]


def test_an_empty_snapshot_removes_everything() -> None:
    assert ["remove a", "remove b"] == words(merge("file", held(A, B), []))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(replace(A, spec=replace(A.spec, node_name="n")), id="spec"),
        pytest.param(changed(A, labels={"x": "y"}), id="labels"),
        pytest.param(changed(A, annotations={"x": "y"}), id="annotations"),
        pytest.param(changed(A, deletion_timestamp="2026-01-01T00:00:00Z"), id="deletion"),
        pytest.param(changed(A, deletion_grace_period_seconds=3), id="deletion grace"),
        pytest.param(replace(changed(A, labels={"x": "y"}), status=status("Failed")), id="labels and status"),
    ],
)
def test_a_difference_that_matters_is_an_update(after: k8s.Pod) -> None:
    merged = merge("api", held(A), [after])
    assert [(Op.UPDATE, after)] == [(change.op, change.pod) for change in merged.changes]
    assert held(after) == merged.pods


@pytest.mark.parametrize("before", [None, status("Running")])
def test_a_difference_of_status_alone_is_to_be_reconciled(before: k8s.PodStatus | None) -> None:
    after = replace(A, status=status("Failed"))
    assert ["reconcile a"] == words(merge("api", held(replace(A, status=before)), [after]))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(A, id="the very same"),
        pytest.param(replace(A), id="an equal one"),
        pytest.param(changed(A, resource_version="2"), id="resource version"),
        pytest.param(changed(A, generation=2), id="generation"),
        pytest.param(
            changed(A, annotations={CONFIG_SOURCE: "api", CONFIG_SEEN: "now", CONFIG_HASH: "1"}),
            id="annotations that are ours",
        ),
    ],
)
def test_a_difference_that_does_not_matter_is_none_and_yet_remembered(after: k8s.Pod) -> None:
    merged = merge("api", held(A), [after])
    assert () == merged.changes
    assert held(after) == merged.pods


@pytest.mark.parametrize(
    "second", [pytest.param(named("a", "uid-2"), id="name"), pytest.param(named("z", "uid-a"), id="uid")]
)
def test_of_two_pods_with_one_name_or_uid_the_first_wins_and_the_other_is_told(second: k8s.Pod) -> None:
    merged = merge("file", {}, [A, second, B])
    assert (["add a", "add b"], (second,)) == (words(merged), merged.duplicates)


def test_the_same_name_in_two_namespaces_is_two_pods() -> None:
    other = named("a", "uid-2", namespace="other")
    assert ((), 2) == (merge("file", {}, [A, other]).duplicates, len(merge("file", {}, [A, other]).pods))


def test_pod_is_removed_when_another_takes_its_name() -> None:
    assert ["remove a", "add a"] == words(merge("file", held(A), [named("a", "uid-0"), A]))


def test_a_uid_that_was_given_to_another_name_is_another_pod_which_comes_after_the_one_that_goes() -> None:
    """Its worker, its sandbox and its logs have the name that it began with."""
    renamed, again = named("z", "uid-a"), named("a", "uid-2")
    merged = merge("file", held(A, B), [again, B, renamed])
    assert [(Op.REMOVE, A), (Op.ADD, again), (Op.ADD, renamed)] == [(one.op, one.pod) for one in merged.changes]
    assert held(again, B, renamed) == merged.pods
    assert ["remove a", "add a"] == words(merge("file", held(A), [changed(A, namespace="other")]))


def test_a_uid_that_another_source_has_is_left_out() -> None:
    merged = merge("file", held(B), [A, B], taken={"uid-a"})
    assert ([], (A,), held(B)) == (words(merged), merged.duplicates, merged.pods)


PODS = st.builds(
    lambda uid, label, phase: replace(named(uid[0], uid, labels={"x": label}), status=status(phase)),
    st.sampled_from(["a1", "a2", "b1", "b2", "c1"]), st.sampled_from("xy"), st.sampled_from(["Pending", "Running"]),
)  # fmt: skip
SNAPSHOTS = st.lists(PODS, max_size=6)


@given(SNAPSHOTS)
def test_merging_the_same_snapshot_once_more_changes_nothing(snapshot: list[k8s.Pod]) -> None:
    once = merge("file", {}, snapshot)
    again = merge("file", once.pods, snapshot)
    assert ((), once.pods, once.duplicates) == (again.changes, again.pods, again.duplicates)


@given(SNAPSHOTS, SNAPSHOTS)
def test_the_changes_carried_out_in_order_lead_from_one_snapshot_to_the_next(
    first: list[k8s.Pod], second: list[k8s.Pod]
) -> None:
    before = merge("file", {}, first).pods
    merged = merge("file", before, second)
    world = dict(before)
    for change in merged.changes:
        if change.op is Op.REMOVE:
            assert change.pod is world.pop(change.pod.metadata.uid)
        else:
            assert (change.op is Op.ADD) == (change.pod.metadata.uid not in world)
            world[change.pod.metadata.uid] = change.pod
        names = [p.metadata.name for p in world.values()]
        removals_over = change.op is not Op.REMOVE
        assert not removals_over or len(names) == len(set(names)), "two pods of one name at a time"
    assert merged.pods == world


@given(SNAPSHOTS)
def test_every_pod_of_a_snapshot_is_wanted_or_told_as_a_duplicate(snapshot: list[k8s.Pod]) -> None:
    merged = merge("file", {}, snapshot)
    assert len(snapshot) == len(merged.pods) + len(merged.duplicates)
