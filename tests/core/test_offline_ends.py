"""When the API server may hear that a pod has ended."""

from __future__ import annotations

import pytest

from trikubelet.core.offline_ends import (
    END_WAIT_SECONDS_MAX,
    Confirmation,
    End,
    confirmation,
    confirms_end,
)
from trikubelet.core.pod_status import Patch, Remove
from trikubelet.model import k8s


def patch(**members: object) -> Patch:
    return Patch({"metadata": {"uid": "u"}, "status": members}, k8s.PodStatus(phase="Failed"))


@pytest.mark.parametrize(
    ("expected", "step"),
    [
        (True, Remove()),
        (True, patch(phase="Succeeded")),
        (True, patch(phase="Failed", reason="Evicted")),
        (False, patch(phase="Running")),
        (False, patch(message="an end that is held back")),
        (False, patch()),
    ],
)
def test_write_confirms_an_end_only_with_what_the_server_is_told(expected: bool, step: Patch | Remove) -> None:
    assert expected is confirms_end(step)


@pytest.mark.parametrize(
    ("expected", "end", "now"),
    [
        (Confirmation.WAITS, End(100.0), 100.0),
        (Confirmation.WAITS, End(100.0), 99.9 + END_WAIT_SECONDS_MAX),
        (Confirmation.LATE, End(100.0), 100.0 + END_WAIT_SECONDS_MAX),
        (Confirmation.CONFIRMED, End(100.0, is_recorded=True), 100.0),
        (Confirmation.CONFIRMED, End(100.0, is_recorded=True), 1e6),
    ],
)
def test_end_is_confirmed_once_it_is_recorded_or_late(expected: Confirmation, end: End, now: float) -> None:
    assert expected is confirmation(end, now)
