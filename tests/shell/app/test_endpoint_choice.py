"""Which runtime an agent takes when it is told, and when it is not."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trikubelet.app import endpoint as endpoint_module
from trikubelet.app.endpoint import (
    DEFAULT,
    EMBEDDED,
    FAKE,
    WELL_KNOWN,
    EndpointChoice,
    RuntimeRecord,
    choose_endpoint,
)
from trikubelet.kit.unix_connection import connected

if TYPE_CHECKING:
    from collections.abc import Iterator

CRIO = WELL_KNOWN[1]
NOBODY = 65534


@pytest.mark.parametrize(
    ("expected", "named", "standalone"),
    [
        ("unix:///x.sock", "unix:///x.sock", True),
        ("unix:///x.sock", "unix:///x.sock", False),
        (EMBEDDED, "embedded:", True),
        (EMBEDDED, "embedded://", False),
        (FAKE, "fake:", True),
        (EMBEDDED, "", True),
        (DEFAULT, "", False),
    ],
)
def test_a_named_runtime_is_taken_and_none_means_the_default_or_the_embedded_one(
    expected: str, named: str, standalone: bool, tmp_path: Path
) -> None:
    assert expected == choose_endpoint(named, standalone=standalone, root=tmp_path).endpoint


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as place:  # a Unix socket's path must be short, and pytest's are not
        made = Machine(Path(place))
        yield made
        made.close()


class Machine:
    """A root of the file system with sockets of runtimes in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: list[socket.socket] = []

    def listens(self, endpoint: str) -> None:
        """A process listens there."""
        self._socket(endpoint).listen()

    def stale(self, endpoint: str) -> None:
        """A socket that was left behind."""
        self._socket(endpoint).close()

    def _socket(self, endpoint: str) -> socket.socket:
        path = self.root / endpoint.removeprefix("unix:///")
        path.parent.mkdir(parents=True, exist_ok=True)
        made = socket.socket(socket.AF_UNIX)
        self._open.append(made)
        made.bind(str(path))
        return made

    def close(self) -> None:
        for one in self._open:
            one.close()

    def chosen(self, *records: RuntimeRecord) -> EndpointChoice:
        """Return the choice without a configured endpoint."""
        return choose_endpoint("", standalone=True, records=records, root=self.root)


def forbid(monkeypatch: pytest.MonkeyPatch, *endpoints: str) -> None:
    """Have these sockets refuse this user, as the kernel does for one who is not root."""

    def refused(path: os.PathLike[str]) -> socket.socket:
        if any(str(path).endswith(one.removeprefix("unix://")) for one in endpoints):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return connected(path)

    monkeypatch.setattr(endpoint_module, "connected", refused)


def record(endpoint: str, *, has_pods: bool = False) -> RuntimeRecord:
    return RuntimeRecord(endpoint, Path("/r"), has_pods)


def test_standalone_takes_the_first_well_known_socket_that_answers_and_logs_why(machine: Machine) -> None:
    machine.listens(CRIO)
    machine.listens(WELL_KNOWN[2])

    assert EndpointChoice(CRIO, f"{CRIO}, because it answers") == machine.chosen()


def test_a_socket_on_which_no_process_listens_is_passed_over_and_the_log_says_so(machine: Machine) -> None:
    machine.stale(DEFAULT)
    machine.listens(CRIO)

    found = machine.chosen()

    assert CRIO == found.endpoint
    assert (
        f"{CRIO}, because it answers (passed over: no process listens at /run/containerd/containerd.sock: the runtime "
        "has ended and left its socket behind)"
    ) == found.reason


def test_a_socket_that_the_user_may_not_open_is_passed_over_and_the_log_says_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.listens(DEFAULT)
    machine.stale(CRIO)
    forbid(monkeypatch, DEFAULT)

    found = machine.chosen()

    assert EMBEDDED == found.endpoint
    assert "no permission for /run/containerd/containerd.sock: run as a user" in found.reason
    assert "no process listens at /run/crio/crio.sock" in found.reason


def test_a_socket_below_a_directory_that_the_user_may_not_enter_is_passed_over(machine: Machine) -> None:
    machine.listens(DEFAULT)
    machine.root.chmod(0o755)
    (machine.root / "run/containerd").chmod(0)
    user = os.geteuid()
    if user == 0:  # who may enter every directory
        os.seteuid(NOBODY)
    try:
        found = machine.chosen()
    finally:
        os.seteuid(user)

    assert EMBEDDED == found.endpoint
    assert "no permission for /run/containerd/containerd.sock" in found.reason


def test_a_runtime_that_accepts_no_connection_for_now_answers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: object) -> socket.socket:
        raise BlockingIOError(errno.EAGAIN, "its queue is full")

    monkeypatch.setattr(endpoint_module, "connected", full)

    assert DEFAULT == machine.chosen().endpoint


@pytest.mark.parametrize("state", ["missing", "stale", "answers"])
@pytest.mark.parametrize("other", ["nothing", "answers"])
def test_a_recorded_runtime_is_taken_in_whatever_state_because_it_may_be_late_at_boot(
    state: str, other: str, machine: Machine
) -> None:
    if state != "missing":
        (machine.stale if state == "stale" else machine.listens)(CRIO)
    if other == "answers":
        machine.listens(DEFAULT)

    assert EndpointChoice(CRIO, f"{CRIO}, recorded in /r") == machine.chosen(record(CRIO))


def test_the_recorded_embedded_runtime_stays_though_containerd_was_installed_since(machine: Machine) -> None:
    machine.listens(DEFAULT)

    assert EMBEDDED == machine.chosen(record(EMBEDDED)).endpoint


def test_of_two_records_the_first_is_taken(machine: Machine) -> None:
    assert CRIO == machine.chosen(record(CRIO), record(EMBEDDED)).endpoint


@pytest.mark.parametrize(("has_pods", "expected"), [(False, EMBEDDED), (True, DEFAULT)])
def test_a_recorded_socket_that_the_user_may_not_open_is_passed_over_unless_pods_are_on_it(
    has_pods: bool, expected: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.listens(DEFAULT)
    forbid(monkeypatch, DEFAULT)

    found = machine.chosen(record(DEFAULT, has_pods=has_pods))

    assert expected == found.endpoint
    assert (not has_pods) == (1 == found.reason.count("no permission"))


def test_a_configured_runtime_is_taken_whatever_is_recorded(machine: Machine) -> None:
    named = choose_endpoint(CRIO, standalone=True, records=[record(EMBEDDED)], root=machine.root)

    assert CRIO == named.endpoint
