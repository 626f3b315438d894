"""Runs a command on a machine that stands still now and then, as a guest does whose host is busy.

    python packaging/stalls.py [--seed N] [--still SECONDS] [--between SECONDS] COMMAND…

All processors at once run nothing else for up to ``--still`` seconds, threads of the kernel neither, and the clock goes
on: a deadline may come before the news it waits for, though that was there in time. What holds beside busy loops, which
only slow everything down, may fail here. The kernel leaves others a twentieth of each second (sched_rt_runtime_us).

The command takes this process's place. Its stalls are children of it, and end with it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from typing import NoReturn

from trikubelet.embedded.keeper.syscalls import die_with_parent

STILL_SECONDS_MAX = 2.0
BETWEEN_SECONDS_MAX = 3.0
_PRIORITY = 50


def main() -> NoReturn:
    """Start the stalls and become the command."""
    parser = argparse.ArgumentParser(description="Run a command on a machine that stands still now and then.")
    parser.add_argument("--seed", type=int, default=0, help="of how long it does, and how long not")
    parser.add_argument("--still", type=float, default=STILL_SECONDS_MAX, help="seconds at most")
    parser.add_argument("--between", type=float, default=BETWEEN_SECONDS_MAX, help="seconds at most")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    words = parser.parse_args()
    if not words.command:
        parser.error("what is to be run?")
    begin = time.monotonic() + 1.0  # at the same time on all processors
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))  # for the children
        for processor in os.sched_getaffinity(0):
            if os.fork() == 0:
                _stand_still(processor, random.Random(words.seed), begin, words.still, words.between)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.execvp(words.command[0], words.command)
    except PermissionError as error:
        sys.exit(f"stalls: only root may have the machine stand still: {error.strerror}")
    except OSError as error:
        sys.exit(f"stalls: {words.command[0]}: {error.strerror}")


def _stand_still(processor: int, draw: random.Random, at: float, still: float, between: float) -> NoReturn:
    die_with_parent(signal.SIGKILL)
    os.sched_setaffinity(0, {processor})
    while True:
        at += draw.uniform(0.0, between)
        time.sleep(max(0.0, at - time.monotonic()))
        at += draw.uniform(0.0, still)
        while time.monotonic() < at:
            pass


if __name__ == "__main__":
    main()
