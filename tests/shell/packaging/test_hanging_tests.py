"""A test that hangs fails alone: what it leaves of Trio fails no test after it (`tests/time_limit.py`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]

WAITING = """
from contextlib import asynccontextmanager

import pytest
import trio

pytestmark = pytest.mark.timeout(1)

@asynccontextmanager
async def put_up():
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            yield
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.1)

@pytest.fixture
async def something():
    async with put_up():
        yield

async def test_1_hangs_beside_what_a_fixture_put_up(something):
    await trio.sleep_forever()

async def test_2_passes(something):
    assert trio.current_time() > 0

async def test_3_hangs_within_what_it_put_up():
    async with put_up():
        await trio.sleep_forever()

def test_4_passes():
    trio.run(trio.sleep, 0)

async def test_5_hangs_on_a_clock_of_its_own(autojump_clock):
    await trio.sleep_forever()

async def test_6_passes(autojump_clock):
    await trio.sleep(1000)

async def test_7_hangs_and_lets_nobody_run():
    while True:
        pass

async def test_8_passes():
    await trio.sleep(0)
"""

IN_A_THREAD = """
import threading

import pytest
import trio

@pytest.mark.timeout(1)
async def test_1_waits_for_what_nobody_can_cancel():
    await trio.to_thread.run_sync(threading.Event().wait)

async def test_2_passes():
    await trio.sleep(0)
"""


def run(place: Path, tests: str, *words: str) -> str:
    """Return pytest's output for these tests with our settings."""
    (place / "test_hanging.py").write_text(tests)
    inherited = {name: value for name, value in os.environ.items() if "XDIST" not in name and name != "PYTEST_ADDOPTS"}
    ours = [
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-o",
        "trio_mode=true",
        "-v",
        "-W",
        "error",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *ours, *words, "-W", "error", "--rootdir", str(place), str(place)],
        env=inherited | {"PYTHONPATH": str(TOP / "tests")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)  # four of them wait for a second each
def test_tests_after_one_that_hangs_pass(tmp_path: Path) -> None:
    said = run(tmp_path, WAITING)

    outcomes = re.findall(r"::(test_\d)\S* (PASSED|FAILED|ERROR)", said)
    assert [(f"test_{n}", "FAILED" if n % 2 else "PASSED") for n in range(1, 9)] == outcomes, said
    assert "Timeout (>1.0s)" in said


@pytest.mark.slow
@pytest.mark.nightly  # a thread is waited for longer than a second
@pytest.mark.timeout(120)
def test_worker_with_a_test_that_waits_for_a_thread_is_replaced(tmp_path: Path) -> None:
    said = run(tmp_path, IN_A_THREAD, "-n", "1")

    assert re.search(r"FAILED \S*::test_1", said), said
    assert re.search(r"PASSED \S*::test_2", said), said
    assert "1 failed, 1 passed" in said
