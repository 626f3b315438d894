"""The restart counts that another life of a pod goes on from."""

from __future__ import annotations

import pytest

from trikubelet.core.pod_status import last_attempts
from trikubelet.model import k8s

ENDED = k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=137))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"container_id": "containerd://1"}, {"main": 2}),
        ({"last_state": ENDED}, {"main": 2}),
        ({"state": ENDED}, {}),  # the last word on one that never ran
        ({}, {}),
    ],
)
def test_a_container_counts_once_it_has_run(fields: dict[str, object], expected: dict[str, int]) -> None:
    main = k8s.ContainerStatus(
        **{"name": "main", "image": "app:1", "image_id": "", "ready": False, "restart_count": 2, **fields}
    )
    for kind in ("container_statuses", "init_container_statuses"):
        assert expected == last_attempts(k8s.PodStatus(**{kind: (main,)}))
    assert {} == last_attempts(k8s.PodStatus(ephemeral_container_statuses=(main,)))
