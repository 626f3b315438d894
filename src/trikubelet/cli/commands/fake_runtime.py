"""``trikubelet fake-runtime``: a container runtime on a socket with any number of pods, none of which runs.

It is for trying an agent without a runtime, and for measuring one with more pods than the machine could hold. It runs
until a signal ends it; see docs/fake-runtime.md.
"""

from __future__ import annotations

import gc
import signal
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import trio

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.words.fake_runtime import parser
from trikubelet.cri.listener import UnixListener
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_BYTES_MAX: Final = 2**32 - 1  # the limit of gRPC's length prefix


def run(argv: Sequence[str]) -> int:
    """Run ``fake-runtime`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    if args.churn_period == 0:
        parser().error("--churn-period must be more than 0")
    plan = Plan(
        pods=args.pods,
        containers_per_pod=args.containers_per_pod,
        seed=args.seed,
        churn=args.churn,
        churn_period_seconds=args.churn_period,
        list_latency_seconds=args.list_latency,
        status_latency_seconds=args.status_latency,
        error_rate=args.error_rate,
        events=args.events,
        streaming=args.streaming,
        message_bytes_max=args.message_limit,
    )
    with ExitStack() as files:
        try:
            journal = Path(args.journal).open("w", buffering=1) if args.journal else None  # noqa: SIM115 - see _close
        except OSError as error:
            raise CommandFailed(f"--journal: {error.filename}: {error.strerror}") from error
        if journal is not None:
            files.callback(_close, journal)
        trio.run(_serve, plan, args.socket, args.http, journal)
    return 0


def _close(journal: IO[str]) -> None:
    with suppress(OSError):  # a full disk was reported when the write failed
        journal.close()


async def _serve(plan: Plan, socket: str, http: tuple[str, int] | None, journal: IO[str] | None) -> None:
    try:
        page = await trio.open_tcp_listeners(http[1], host=http[0]) if http else []
    except OSError as error:
        assert http is not None
        raise CommandFailed(f"--http: {_address_text(http)}: {error.strerror or error}") from error
    try:
        unix = UnixListener(socket)
    except (OSError, ValueError) as error:
        said = f"{socket}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        raise CommandFailed(f"--socket: {said}") from error
    problem: OSError | None = None
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(run_fake, plan, unix.listener, http=page, journal=journal))
                # Existing objects are never garbage: scanning 100,000 pods for it would show in every figure.
                gc.collect()
                gc.freeze()
                where = f", page at http://{_where(page[0])}/" if page else ""
                try:
                    print(f"ready: {plan.pods} pods at {unix.path}{where}", flush=True)
                    await anext(aiter(signals))
                except OSError as error:
                    problem = error
                nursery.cancel_scope.cancel()
    finally:
        unix.remove()
    if problem is not None:
        raise CommandFailed(f"standard output: {problem.strerror}") from problem


def _where(listener: trio.SocketListener) -> str:
    return _address_text(listener.socket.getsockname()[:2])


def _address_text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ---- values of flags ----


_SIZE: Final = "a whole number of bytes, with k, M, G (thousands) or Ki, Mi, Gi (of 1024) if any, such as 16Mi"


def read_limit(said: str) -> int:
    """Return the size limit of a message, in bytes. Raises ValueError."""
    try:
        size = quantity.parse(said)
    except ValueError:
        raise ValueError(f"{said!r} is not {_SIZE}") from None
    if size.denominator != 1:  # 1m is a thousandth, as in every quantity, and certainly a mistake
        raise ValueError(f"{said!r} is not {_SIZE}")
    if not 0 < size <= MESSAGE_BYTES_MAX:
        raise ValueError(f"{said!r} is not from 1 to {MESSAGE_BYTES_MAX} bytes")
    return int(size)


def read_address(said: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError."""
    host, colon, port = said.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise ValueError(f"{said!r} is not HOST:PORT, such as 127.0.0.1:8080 or :8080")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
