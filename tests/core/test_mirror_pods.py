"""What a static pod's mirror looks like, and what is to be done about the mirror of one name."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest

from core.podkit import pod
from core.statuskit import NOW, status
from trikubelet.core.mirror import Create, Delete, mirror_due, mirror_of
from trikubelet.core.names import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE, is_mirror, status_uid
from trikubelet.model import k8s

NODE = k8s.Node(metadata=k8s.ObjectMeta(name="worker-1", uid="node-uid"))
STATIC = pod(
    "web", status=status("Running"),
    meta={"uid": "h1", "labels": {"a": "b"}, "annotations": {CONFIG_SOURCE: "file", CONFIG_HASH: "h1", "note": "n"}},
)  # fmt: skip


def mirror(hash_: str, **meta: object) -> k8s.Pod:
    return pod("web", meta={"uid": f"mirror-of-{hash_}", "annotations": {CONFIG_MIRROR: hash_}, **meta})


def ended(hash_: str) -> k8s.Pod:
    return msgspec.structs.replace(mirror(hash_), status=status("Failed"))


class Case(NamedTuple):
    id: str
    expected: type | None
    static: k8s.Pod | None
    seen: k8s.Pod | None
    living: set[str]
    phase: str = ""
    begins_again: bool = False


CASES = [
    Case("no static pod and no object", None, None, None, set()),
    Case("a static pod has no mirror yet", Create, STATIC, None, {"h1"}),
    Case("nor does one whose earlier instance is not gone yet", None, STATIC, None, {"h1"}, begins_again=True),
    Case("it has one", None, STATIC, mirror("h1"), {"h1"}),
    Case("it has one, though it does not run", None, STATIC, mirror("h1"), set()),
    Case("it shows the end of an earlier life", Delete, STATIC, ended("h1"), {"h1"}, "Running"),
    Case("or of the one before the one that only waits", Delete, STATIC, ended("h1"), {"h1"}, "Pending"),
    Case("it shows the end it had", None, STATIC, ended("h1"), set(), "Failed"),
    Case("it shows an end, and nobody has looked yet", None, STATIC, ended("h1"), {"h1"}),
    Case("its mirror was asked to go: another is made once it is gone", Delete, STATIC,
         mirror("h1", deletion_timestamp=NOW), {"h1"}),
    Case("its mirror shows an earlier manifest", Delete, STATIC, mirror("h0"), {"h1"}),
    Case("whose pod still ends", None, STATIC, mirror("h0"), {"h0", "h1"}),
    Case("a mirror of nothing", Delete, None, mirror("h0"), set()),
    Case("a mirror of what still ends", None, None, mirror("h0"), {"h0"}),
    Case("a mirror of what still ends, asked to go", Delete, None, mirror("h0", deletion_timestamp=NOW), {"h0"}),
    Case("somebody's own pod has the name", None, STATIC, pod("web", meta={"uid": "own"}), {"h1"}),
    Case("somebody's own pod goes", None, STATIC, pod("web", meta={"deletion_timestamp": NOW}), {"h1"}),
    Case("a pod that is no mirror and nobody's", None, None, pod("web"), set()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_due_about_a_mirror(case: Case) -> None:
    found = mirror_due(
        case.static, case.seen, NODE, case.living.__contains__, lambda _: case.phase, lambda _: case.begins_again
    )
    assert case.expected == (None if found is None else type(found))
    if isinstance(found, Delete):
        assert found.pod is case.seen


def test_mirror_pod_has_the_spec_the_annotations_and_the_owner() -> None:
    shown = mirror_of(STATIC, NODE)

    assert is_mirror(shown)
    assert ("h1", "") == (status_uid(shown), shown.metadata.uid)
    assert {**STATIC.metadata.annotations, CONFIG_MIRROR: "h1"} == shown.metadata.annotations
    assert (STATIC.metadata.labels, None) == (shown.metadata.labels, shown.status)
    assert "worker-1" == shown.spec.node_name
    assert STATIC.spec.containers == shown.spec.containers
    (owner,) = shown.metadata.owner_references
    assert ("v1", "Node", "worker-1", "node-uid") == (owner.api_version, owner.kind, owner.name, owner.uid)
    assert owner.controller is True
    assert owner.block_owner_deletion is None  # a node may not hold its own deletion up
