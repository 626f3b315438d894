"""Notifies systemd of the agent's state: readiness, a status line, the shutdown, and keep-alives for the watchdog.

The protocol is a datagram of ``KEY=VALUE`` lines to the socket named by NOTIFY_SOCKET. Without systemd there is no such
variable, and everything here does nothing. Nothing here raises, waits or is async, because an agent must not fail when
its service manager does not listen.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import MutableMapping

log = logging.getLogger(__name__)

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")
_STATUS_CHARS_MAX: Final = 500


class Notifier:
    """The connection to the service manager. ``address``: its socket, "" for none; ``watchdog_seconds``: how long it
    waits for a keep-alive before it kills the process, None without a watchdog."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self.watchdog_seconds = watchdog_seconds
        # In the variable, "@" stands for the zero byte of an abstract address.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._failed = False

    @classmethod
    def take_from(cls, environment: MutableMapping[str, str]) -> Notifier:
        """Remove the address from an environment, so that children do not act as the service."""
        address = environment.pop(_SOCKET, "")
        period, pid = (environment.pop(name, "") for name in _WATCHDOG)
        ours = not pid or pid == str(os.getpid())
        seconds = int(period) / 1e6 if address and ours and period.isdecimal() and int(period) > 0 else None
        return cls(address if address.startswith(("/", "@")) else "", seconds)

    def ready(self, status: str) -> None:
        """Report that the agent is ready."""
        self._send("READY=1", _status(status))

    def status(self, status: str) -> None:
        """Set the line in ``systemctl status``."""
        self._send(_status(status))

    def stopping(self, status: str, seconds_max: float = 0.0) -> None:
        """Report that the agent is shutting down, and may take this long, even longer than TimeoutStopSec, which this
        never shortens."""
        extension = [f"EXTEND_TIMEOUT_USEC={round(seconds_max * 1e6)}"] if seconds_max else []
        self._send("STOPPING=1", *extension, _status(status))

    def alive(self) -> None:
        """Send a keep-alive for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
                way.setblocking(False)
                way.sendto("\n".join(lines).encode(errors="surrogateescape"), self._address)
        except OSError as error:
            if not self._failed:
                log.warning("Cannot notify systemd (%s): %s", lines[0], error)
            self._failed = True
        else:
            self._failed = False


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())[:_STATUS_CHARS_MAX]}"
