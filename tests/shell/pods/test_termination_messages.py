"""What containers that ended left to say: read once for each, from the log where that counts, gone with the pod."""

from __future__ import annotations

import pytest

from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.pods.termination_messages import TerminationMessages
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

LOG = "/logs/web/main/0.log"
FALLBACK = pod("web", container(termination_message_policy="FallbackToLogsOnError"))


def ended(exit_code: int = 1, id_: str = "c0", attempt: int = 0) -> ContainerStatus:
    """Container "main" as it is once it has ended."""
    return ContainerStatus(
        id_,
        "main",
        attempt,
        ContainerState.EXITED,
        0,
        exit_code=exit_code,
        log_path=LOG,
        termination_path="/dev/termination-log",
    )


def disk(message: bytes = b"") -> MemoryPodFiles:
    """A disk with a termination message of the first attempt, and a log."""
    files = MemoryPodFiles()
    files.content["/pods/uid-web/containers/main/0"] = message
    files.content[LOG] = b"2026-01-01T00:00:00Z stderr F no such file\n"
    return files


def test_a_message_is_read_once_and_forgotten_with_its_pod() -> None:
    files = disk(b"first")
    messages, seen = TerminationMessages(files), PodObservation("uid-web", containers=(ended(),))
    assert {"c0": "first"} == messages.of(FALLBACK, seen)

    files.content["/pods/uid-web/containers/main/0"] = b"another"
    assert {"c0": "first"} == messages.of(FALLBACK, seen)

    messages.forget("uid-web")
    assert {"c0": "another"} == messages.of(FALLBACK, seen)


def test_what_runs_has_left_nothing_to_say() -> None:
    running = ContainerStatus("c1", "main", 0, ContainerState.RUNNING, 0, termination_path="/dev/termination-log")

    assert {} == TerminationMessages(disk(b"early")).of(FALLBACK, PodObservation("uid-web", containers=(running,)))


@pytest.mark.parametrize(
    ("expected", "message", "exit_code", "policy"),
    [
        pytest.param("no such file\n", b"", 1, "FallbackToLogsOnError", id="it failed and said nothing"),
        pytest.param("mine", b"mine", 1, "FallbackToLogsOnError", id="it said something itself"),
        pytest.param("", b"", 0, "FallbackToLogsOnError", id="it ended well"),
        pytest.param("", b"", 1, "File", id="only the file counts"),
    ],
)
def test_the_end_of_the_log_stands_in_for_a_message_where_that_is_asked_for(
    expected: str, message: bytes, exit_code: int, policy: str
) -> None:
    web = pod("web", container(termination_message_policy=policy))
    seen = PodObservation("uid-web", containers=(ended(exit_code),))

    assert {"c0": expected} == TerminationMessages(disk(message)).of(web, seen)
