"""What containers that ended left to say: read once for each, from the log where that counts, gone with the pod."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace

from trikubelet.model.k8s import EphemeralContainer
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.pods.termination_messages import READ_SECONDS_MAX, TerminationMessages
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod

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


async def learned(messages: TerminationMessages, web: Pod, *containers: ContainerStatus) -> Mapping[str, str]:
    """Return the messages after an observation of the pod with these containers."""
    seen = PodObservation("uid-web", containers=containers)
    await messages.read(web, seen)
    return messages.of("uid-web", seen)


async def test_a_message_is_read_once_and_forgotten_with_its_pod() -> None:
    files = disk(b"first")
    messages = TerminationMessages(files)
    assert {"c0": "first"} == await learned(messages, FALLBACK, ended())

    files.content["/pods/uid-web/containers/main/0"] = b"another"
    assert {"c0": "first"} == await learned(messages, FALLBACK, ended())

    messages.forget("uid-web")
    assert {"c0": "another"} == await learned(messages, FALLBACK, ended())


async def test_what_runs_has_left_nothing_to_say() -> None:
    running = ContainerStatus("c1", "main", 0, ContainerState.RUNNING, 0, termination_path="/dev/termination-log")

    assert {} == await learned(TerminationMessages(disk(b"early")), FALLBACK, running)


async def test_what_was_removed_is_known_no_more() -> None:
    messages = TerminationMessages(disk(b"first"))
    await learned(messages, FALLBACK, ended())

    assert {"c1": "no such file\n"} == await learned(messages, FALLBACK, ended(id_="c1", attempt=1))
    assert {} == messages.of("uid-web", PodObservation("uid-web", containers=(ended(),)))


@pytest.mark.parametrize(
    ("expected", "message", "exit_code", "policy"),
    [
        pytest.param("no such file\n", b"", 1, "FallbackToLogsOnError", id="it failed and said nothing"),
        pytest.param("mine", b"mine", 1, "FallbackToLogsOnError", id="it said something itself"),
        pytest.param("", b"", 0, "FallbackToLogsOnError", id="it ended well"),
        pytest.param("", b"", 1, "File", id="only the file counts"),
    ],
)
async def test_the_end_of_the_log_stands_in_for_a_message_where_that_is_asked_for(
    expected: str, message: bytes, exit_code: int, policy: str
) -> None:
    web = pod("web", container(termination_message_policy=policy))

    assert {"c0": expected} == await learned(TerminationMessages(disk(message)), web, ended(exit_code))


async def test_a_disk_that_hangs_costs_a_moment_and_what_is_known_stays_known(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> str:
        await trio.sleep_forever()
        raise AssertionError

    async def busy(*_: object) -> str:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EBUSY, "an earlier reading of it has not ended yet")

    files, new = disk(b"first"), ended(id_="c1", attempt=1)
    messages, began = TerminationMessages(files), trio.current_time()
    await learned(messages, FALLBACK, ended())
    for reading, seconds in ((hang, READ_SECONDS_MAX), (busy, READ_SECONDS_MAX)):
        with monkeypatch.context() as patch:
            patch.setattr(files, "tail_log", reading)
            assert {"c0": "first"} == await learned(messages, FALLBACK, new, ended())
            assert seconds == trio.current_time() - began

    assert {"c0": "first", "c1": "no such file\n"} == await learned(messages, FALLBACK, new, ended())


async def test_an_ephemeral_container_has_its_say_too() -> None:
    debugged = replace(
        pod("web"), spec=replace(pod("web").spec, ephemeral_containers=(EphemeralContainer(name="dbg"),))
    )
    files = disk()
    files.content["/pods/uid-web/containers/dbg/0"] = b"found it"
    messages = TerminationMessages(files)

    assert {"c0": "found it"} == await learned(messages, debugged, dataclasses.replace(ended(), name="dbg"))


async def test_message_of_a_container_of_another_kubelet_is_read_from_the_file_that_it_named() -> None:
    files = disk(b"not this one")
    files.content["/pods/uid-web/containers/main/1f2e3d4c"] = b"from before"
    foreign = dataclasses.replace(ended(), termination_file="1f2e3d4c")

    assert {"c0": "from before"} == await learned(TerminationMessages(files), pod("web"), foreign)
