"""How much of requests a server holds at a time, for all its connections together.

    bytes that came ─► ConnectionShare.hold ─► up to what each may: always
                          ├─ beyond it, out of the RequestByteBudget that all share ─► until the request is answered
                          └─ nothing left there ─► refused; a client with small requests never notices

A thousand unauthenticated clients may each send nearly a megabyte of headers and stop. Nearly every request is smaller
than what its connection may always hold, so a client that fills the budget keeps only large ones from being read.
"""

from __future__ import annotations


class RequestByteBudget:
    """Owns how many bytes connections may still hold beyond what each may by itself."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max


class ConnectionShare:
    """Owns how many bytes one connection holds."""

    def __init__(self, budget: RequestByteBudget, own_bytes_max: int) -> None:
        """``own_bytes_max``: so many need nothing of the budget."""
        self._budget = budget
        self._own_bytes_max = own_bytes_max
        self._borrowed = 0
        self.held = 0

    def hold(self, size: int) -> bool:
        """Hold ``size`` bytes in place of what was held. Whether there is room for them, as for fewer there always is;
        without room all stays as it was."""
        borrowed = max(0, size - self._own_bytes_max)
        more = borrowed - self._borrowed
        if more > self._budget.left:
            return False
        self._budget.left -= more
        self._borrowed, self.held = borrowed, size
        return True
