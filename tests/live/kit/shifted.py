"""The agent with a wall clock that a test moves: ``shifted.py FILE words…`` is ``trikubelet words…``, but for the clock
of its own, which is so many seconds ahead as FILE says. The machine's stays as it is, and so do other processes'.

    ShiftedAgent.shift(seconds) ─► FILE ─► every look at the clock
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from trikubelet.cli.main import main
from trikubelet.host.clock import SystemClock


def shift_clock(file: Path) -> None:
    """From now on this process' clock says what the file says."""

    def now_ns(_: SystemClock) -> int:
        return time.time_ns() + round(float(file.read_text()) * 1e9)

    SystemClock.now_ns = now_ns  # type: ignore[method-assign] # what a test is for


if __name__ == "__main__":
    shift_clock(Path(sys.argv.pop(1)))
    sys.exit(main())
