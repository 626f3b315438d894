"""What systemd is told, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from trikubelet.kit.sd_notify import Notifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address: str | bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        """The lines of the next datagram."""
        return self.socket.recv(4096).decode(errors="surrogateescape").split("\n")


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(str(tmp_path / "notify"))
    yield made
    made.socket.close()


def test_readiness_status_end_and_signs_of_life_are_reported(systemd: Systemd, tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "notify"))
    notifier.ready("running\n3 pods")
    notifier.status("still running")
    notifier.alive()
    notifier.stopping("failed: /r\udcff")
    notifier.stopping("going down", 63.5)

    assert ["READY=1", "STATUS=running 3 pods"] == systemd.heard()
    assert ["STATUS=still running"] == systemd.heard()
    assert ["WATCHDOG=1"] == systemd.heard()
    assert ["STOPPING=1", "STATUS=failed: /r\udcff"] == systemd.heard()
    assert ["STOPPING=1", "EXTEND_TIMEOUT_USEC=63500000", "STATUS=going down"] == systemd.heard()


def test_an_abstract_address_begins_with_an_at_sign() -> None:
    name = f"trikubelet-test-{os.getpid()}"
    systemd = Systemd(f"\0{name}".encode())
    try:
        Notifier(f"@{name}").alive()
        assert ["WATCHDOG=1"] == systemd.heard()
    finally:
        systemd.socket.close()


def test_the_environment_is_read_once_and_cleaned_for_the_children() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/n",
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    notifier = Notifier.take_from(environment)

    assert 30.0 == notifier.watchdog_seconds
    assert {"PATH": "/bin"} == environment


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "30000000"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"},
    ],
)
def test_a_watchdog_that_is_not_meant_for_us_is_none(environment: dict[str, str]) -> None:
    assert Notifier.take_from(environment).watchdog_seconds is None


def test_without_systemd_nothing_happens() -> None:
    Notifier.take_from({}).ready("x")


def test_a_manager_that_does_not_listen_is_told_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(str(tmp_path / "nobody"))
    notifier.ready("x")
    notifier.alive()

    assert ["Cannot notify systemd (READY=1): [Errno 2] No such file or directory"] == caplog.messages
