"""What may change in a pod that exists: a row for each rule of the API."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.manifest.update import unchangeable
from trikubelet.model import k8s

SOON = k8s.Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=5)
LATE = k8s.Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=50)
OTHER = k8s.Toleration(key="b", operator="Exists")


def it(*containers: k8s.Container, init: tuple[str, ...] = (), meta: Any = None, **fields: Any) -> k8s.Pod:
    return pod(*(containers or (container("a"),)), init=init, meta=meta, **fields)


@pytest.mark.parametrize(
    ("expected", "before", "now"),
    [
        ([], it(), it()),
        ([], it(), it(meta={"labels": {"a": "b"}, "annotations": {"a": "b"}})),
        ([], it(), it(container("a", image="image:2"))),
        ([], it(), it(tolerations=(OTHER,))),
        ([], it(tolerations=(SOON,)), it(tolerations=(OTHER, LATE))),
        (["spec.tolerations"], it(tolerations=(SOON, OTHER)), it(tolerations=(SOON,))),
        ([], it(), it(active_deadline_seconds=9)),
        ([], it(active_deadline_seconds=9), it(active_deadline_seconds=8)),
        (["spec.activeDeadlineSeconds"], it(active_deadline_seconds=9), it(active_deadline_seconds=10)),
        (["spec.activeDeadlineSeconds"], it(active_deadline_seconds=9), it()),
        (["metadata.name"], it(), it(meta={"name": "other"})),
        (["spec.hostname", "spec.volumes"], it(), it(volumes=(k8s.Volume(name="v"),), hostname="other")),
        (["spec.containers"], it(), it(container("a"), container("b"))),
        (["spec.containers[0].name"], it(), it(container("b"))),
        (["spec.initContainers"], it(init=("i",)), it()),
        (["spec.containers[0].command"], it(), it(container("a", command=("b",)))),
        (["spec.containers[0].resources"], it(), it(container("a", resources=k8s.ResourceRequirements()))),
    ],
)
def test_all_may_change_but_what_a_pod_is_made_of(expected: list[str], before: k8s.Pod, now: k8s.Pod) -> None:
    assert expected == list(unchangeable(before, now))
