"""When a static pod is the pod that another kubelet began."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.podkit import BOX, DEAD_BOX, container, exited, observe, pod, running
from trikubelet.core.adoption import is_computed_uid, why_not_same, with_uid
from trikubelet.core.names import CONFIG_HASH
from trikubelet.model.runtime import PodObservation

CHANGED, BEGUN = 1_000, 2_000
POD = pod(container("a"), container("b"), init=(container("i"),))
HERE = replace(BOX, created_at=BEGUN)
ALL = (running("a", sandbox_id="box"), running("b", sandbox_id="box"), exited("i", sandbox_id="box"))
RUNS = observe(POD, *ALL, sandboxes=(HERE,))


def test_pod_with_the_same_containers_in_an_unchanged_file_is_the_same() -> None:
    assert "" == why_not_same(POD, CHANGED, RUNS)


def test_pod_with_containers_that_have_not_begun_is_the_same() -> None:
    assert "" == why_not_same(POD, CHANGED, observe(POD, ALL[2], sandboxes=(HERE,)))


def test_hash_of_an_earlier_attempt_does_not_count() -> None:
    before = replace(exited("a", sandbox_id="box", hash="0"), created_at=1)
    after = running("a", 1, sandbox_id="box", created_at=5)
    assert "" == why_not_same(POD, CHANGED, observe(POD, before, after, sandboxes=(HERE,)))


def test_containers_of_an_earlier_sandbox_do_not_count() -> None:
    other = exited("gone", sandbox_id="earlier", hash="0")
    assert "" == why_not_same(POD, CHANGED, observe(POD, *ALL, other, sandboxes=(HERE,)))


@pytest.mark.parametrize(
    ("changed_ns", "observed", "why"),
    [
        (CHANGED, PodObservation("u"), "it does not run"),
        (CHANGED, observe(POD, *ALL, sandboxes=(DEAD_BOX,)), "it does not run"),
        (BEGUN, RUNS, "its manifest was changed after its start"),
        (None, RUNS, "its manifest was changed after its start"),
        (CHANGED, observe(POD, sandboxes=(HERE,)), "none of its containers was created"),
        (
            CHANGED,
            observe(POD, *ALL, running("c", sandbox_id="box", hash="0"), sandboxes=(HERE,)),
            "its container c is not in the manifest",
        ),
        (
            CHANGED,
            observe(POD, running("a", sandbox_id="box", hash="0"), sandboxes=(HERE,)),
            "its container a has another image in the manifest",
        ),
        (
            CHANGED,
            replace(RUNS, containers=(running("a", sandbox_id="box"),)),
            "its container a has another image in the manifest",
        ),
    ],
    ids=["gone", "dead", "edited", "unknown-age", "no-container", "removed", "image", "no-hash"],
)
def test_pod_that_may_have_been_edited_is_not_the_same(
    changed_ns: int | None, observed: PodObservation, why: str
) -> None:
    assert why == why_not_same(POD, changed_ns, observed)


def test_adopted_pod_shows_the_other_uid_to_its_mirror_too() -> None:
    adopted = with_uid(POD, "f" * 32)
    assert ("f" * 32, "f" * 32) == (adopted.metadata.uid, adopted.metadata.annotations[CONFIG_HASH])
    assert POD.spec is adopted.spec


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        ("0123456789abcdef" * 2, True),
        ("0b1f9f0e-8a5d-4c39-9a35-3c3f2b1a0d4c", False),
        ("web", False),
        ("A" * 32, False),
    ],
)
def test_only_uids_of_kubelets_are_computed_ones(uid: str, expected: bool) -> None:
    assert expected is is_computed_uid(uid)
