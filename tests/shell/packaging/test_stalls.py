"""``packaging/stalls.py``: a command on a machine that stands still."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shell.processkit import ends

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = [sys.executable, str(Path(__file__).parents[3] / "packaging" / "stalls.py")]
CHILDREN = """
import os, sys
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(*children, *(os.sched_getscheduler(int(pid)) == os.SCHED_FIFO for pid in children))
sys.exit(3)
"""


def may_stall() -> bool:
    """Root may, where the machine is not a container's whose cgroup has no real time."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except (AttributeError, PermissionError):
        return False
    return True


pytestmark = pytest.mark.skipif(not may_stall(), reason="nobody here may have the machine stand still")


def run(*words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*before, *PROGRAM, *words], capture_output=True, text=True, timeout=50, check=False)


def test_the_command_ends_as_it_does_and_what_stalls_ends_with_it() -> None:
    done = run("--still=0.01", sys.executable, "-c", CHILDREN)

    said, processors = done.stdout.split(), len(os.sched_getaffinity(0))
    assert (3, ["True"] * processors) == (done.returncode, said[processors:]), done
    assert all(ends(pid) for pid in said[:processors])


def test_unprivileged_user_gets_an_error() -> None:
    done = run("true", before=["setpriv", "--bounding-set=-sys_nice"])

    assert (1, "stalls: only root may have the machine stand still: Operation not permitted\n") == (
        done.returncode,
        done.stderr,
    )


def test_a_command_that_there_is_not_is_named() -> None:
    done = run("/no/such")

    assert (1, "stalls: /no/such: No such file or directory\n") == (done.returncode, done.stderr)
