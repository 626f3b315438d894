"""The process that a command has for itself: it ends without being taken apart, and what it has said is written."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli.whole_process import keep_collector_out, let_collector_in

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def collecting() -> Iterator[None]:
    """Puts the collector of this process back."""
    yield
    gc.enable()
    gc.unfreeze()


def test_a_command_ends_its_process_when_all_it_said_is_written() -> None:
    script = (
        "import atexit, sys; from trikubelet.cli.main import program\n"
        "atexit.register(print, 'taken apart')\n"
        "sys.argv[1:] = ['version']; program()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert ("trikubelet", "") == (done.stdout.split()[0], done.stderr)
    assert "taken apart" not in done.stdout


def test_the_last_lines_of_a_log_are_written_before_the_process_ends() -> None:
    script = (
        "import logging.handlers; from trikubelet.cli.whole_process import end\n"
        "handler = logging.handlers.MemoryHandler(9, target=logging.StreamHandler())\n"
        "logging.getLogger().addHandler(handler); logging.warning('last'); end(3)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

    assert (3, "last\n") == (done.returncode, done.stderr)


def test_the_exit_code_is_the_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "trikubelet", "gte"], capture_output=True, check=False, timeout=60)

    assert 2 == done.returncode


def test_the_collector_works_again_once_all_is_imported(collecting: None) -> None:
    keep_collector_out()
    assert not gc.isenabled()

    let_collector_in()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    let_collector_in()  # of a process that has other work, too, nothing is set aside
    assert 0 == gc.get_freeze_count()
