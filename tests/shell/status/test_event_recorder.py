"""What the log has of events: what is new to an operator, and not each step of each container."""

from __future__ import annotations

import logging

import pytest

from trikubelet.kit.klog import verbosity_of
from trikubelet.model.objects import ObjectRef
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.memory_host import VirtualClock

WEB = ObjectRef("Pod", "web", "default", "uid-web")


@pytest.mark.parametrize(
    ("expected", "type_", "reason"),
    [
        (2, "Normal", "Pulling"),
        (2, "Normal", "Started"),
        (2, "Normal", "Killing"),
        (0, "Normal", "NodeReady"),
        (0, "Normal", "SandboxChanged"),
        (0, "Warning", "BackOff"),
        (0, "Warning", "FailedMount"),
    ],
)
async def test_normal_events_that_each_container_has_are_logged_from_verbosity_2_on(
    expected: int, type_: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    EventRecorder(VirtualClock(), 10).record(WEB, type_, reason, "so it is")  # type: ignore[arg-type]

    (line,) = caplog.records
    assert f"Event pod default/web: {reason}: so it is" == line.getMessage()
    assert expected == verbosity_of(line.levelno)
