"""What all tests share: what property tests draw (``drawn_examples``). A signal is one: a shell has what it runs in the
background ignore interrupts, and nohup what it runs hang-ups, which a test that sends them, and commands that tests
start, would inherit. Whoever ends a run by SIGTERM has it end as an interrupt does: what fixtures put up they take
down. And what collecting the tests leaves is not looked through whenever garbage is collected: it stays to the end."""

from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import settings

from drawn_examples import EXPLORED, examples
from time_limit import pytest_runtest_call, pytest_timeout_set_timer
from trikubelet.embedded.processes import ProcessLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pytest_runtest_call", "pytest_timeout_set_timer"]  # hooks

# A timing is never asserted: a busy machine may take its time over an example.
settings.register_profile("the same every time", derandomize=True, deadline=None, max_examples=examples(100))
settings.register_profile("fresh ones", deadline=None)
settings.load_profile("fresh ones" if EXPLORED else "the same every time")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def _interrupt(_: int, __: object) -> None:
    """Once: a second one would cut short what the first has begun to take down."""
    if not _ended:
        _ended.append(True)
        signal.raise_signal(signal.SIGINT)


_ended: list[bool] = []
signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis reads it after us."""
    if EXPLORED and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = EXPLORED


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if EXPLORED:
        terminalreporter.write_line(f"TRIKUBELET_EXPLORE={EXPLORED} draws the same examples and shuffles again")


def pytest_unconfigure() -> None:
    """Of agents that tests killed empty cgroups stay, which the next agent takes away, and at the end nobody is."""
    ProcessLimits(os.getpid(), processes_max=1).close()


@pytest.fixture(autouse=True)
def _same_turns_every_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trio shuffles the tasks that are ready, so that nobody relies on their order. A test gets the same shuffles each
    time, drawn from its name, and others with every number of ``TRIKUBELET_EXPLORE``. (Waiting for a real clock leaves
    to chance who is ready.)"""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    trio._core._run._r.seed(f"{EXPLORED}{request.node.nodeid}")


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Whoever runs a command in this process sets the log up for an agent; the next test's is to be as it was."""
    loggers = [logging.getLogger(name) for name in ("", "trikubelet")]
    before = [(logger.level, logger.disabled, list(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, disabled, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.disabled = disabled
        logger.handlers[:] = [one for one in logger.handlers if one in handlers or _is_pytests(one)]


def _is_pytests(handler: logging.Handler) -> bool:
    """pytest puts its own up before the test and takes them down after it."""
    return type(handler).__module__.startswith("_pytest.")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name: a Unix socket's path may not be as long as those of ``tmp_path`` are."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are numbered and not spelled out: many are drawn when a module is imported (masks, keys), and processes
    that share the tests out have to call each by the same name."""
    return argname if isinstance(val, bytes) else None
