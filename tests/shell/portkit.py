"""Ports for tests: one that somebody is to listen at who must be told its number before, and one where nobody does; and
a Unix socket whose queue is full.

Who can bind to port 0 does that and needs nothing from here.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Below those the kernel gives to connections, and beside those of the live tests.
_PORTS = range(12_000, 20_000)
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

_handed_out: set[int] = set()


def free_port() -> int:
    """A TCP port nobody listens on just now, and which no other process of this test run is given, nor this one again:
    who asks for it does not listen yet. Raises RuntimeError when none is left."""
    ours = [port for port in _PORTS[_WORKER::_WORKERS] if port not in _handed_out]
    for port in random.sample(ours, len(ours)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            _handed_out.add(port)
            return port
    raise RuntimeError(f"every port from {_PORTS.start} to {_PORTS.stop} is taken")


@contextmanager
def port_of_nobody() -> Iterator[int]:
    """A port at which a connection is refused, whatever else this machine runs: it is ours, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def full_queue(path: Path) -> Iterator[None]:
    """Somebody listens at ``path`` and accepts nobody, and as many as may wait do."""
    with ExitStack() as stack, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        with suppress(BlockingIOError):
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(path))
        yield
