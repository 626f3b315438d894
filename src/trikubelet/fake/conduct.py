"""How the fake runtime behaves towards its callers: its latency, its error rate, and hanging pods.

Set by the command line at first, by the HTTP page while it runs; the CRI's servicer reads it at the start of every
call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from random import Random

MESSAGE_BYTES_MAX: Final = 16 * 2**20
"""Bytes of one reply, like containerd's limit."""

LATENCY_SECONDS_MAX: Final = 3600.0


@dataclass(slots=True)
class Conduct:
    """Owns the fake runtime's behaviour. ``error_rate``: the fraction of lists and status calls that fail; ``events``
    and ``streaming``: whether it has container events and streamed lists at all."""

    chance: Random
    list_latency_seconds: float = 0.0
    status_latency_seconds: float = 0.0
    error_rate: float = 0.0
    events: bool = True
    streaming: bool = True
    message_bytes_max: int = MESSAGE_BYTES_MAX
    hung: dict[str, trio.Event] = field(default_factory=dict)

    def hang(self, uid: str) -> None:
        """Block the status calls of a pod until it is released."""
        self.hung.setdefault(uid, trio.Event())

    def release(self, uid: str) -> None:
        """Let them go on. Does nothing when the pod does not hang."""
        if (held := self.hung.pop(uid, None)) is not None:
            held.set()

    async def before_list(self) -> None:
        """Wait before a list. Raises RuntimeFailure at the error rate."""
        await trio.sleep(self.list_latency_seconds)
        self._stumble("list")

    async def before_status(self, uid: str) -> None:
        """Wait before a status call of a pod. Raises RuntimeFailure at the error rate."""
        await trio.sleep(self.status_latency_seconds)
        while (held := self.hung.get(uid)) is not None:
            await held.wait()
        self._stumble("status call")

    def is_prompt(self, uid: str) -> bool:
        """True if status calls of a pod have no latency and cannot fail."""
        return not (self.status_latency_seconds or self.error_rate or uid in self.hung)

    def _stumble(self, what: str) -> None:
        if self.chance.random() < self.error_rate:
            raise RuntimeFailure(f"the fake runtime lets this {what} fail: its error rate is {self.error_rate:g}")
