"""What ``TRIKUBELET_EXPLORE`` does to a run of the tests (`tests/conftest.py`): what fails with fresh examples and
shuffles is found again by the number they were drawn from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]

DRAWS = """
import trio
from hypothesis import given, settings, strategies as st

drawn = []

@settings(max_examples=20)
@given(st.integers())
def test_examples(number):
    drawn.append(number)

async def test_shuffles():
    ends = []
    async def end(number):
        await trio.lowlevel.checkpoint()
        ends.append(number)
    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(end, number)
    print("drawn:", drawn, ends)
"""


def drawn(place: Path, **environment: str) -> tuple[str, str]:
    """Return the examples that these tests drew, and the number in their output."""
    (place / "test_draws.py").write_text(DRAWS)
    left_out = {"TRIKUBELET_EXPLORE", "RELIST_EXAMPLES", "PYTEST_ADDOPTS", "PYTHONHASHSEED"}
    inherited = {name: value for name, value in os.environ.items() if name not in left_out and "XDIST" not in name}
    environment |= inherited | {"PYTHONPATH": str(TOP / "tests")}
    words = ["-p", "conftest", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "trio_mode=true", "-s"]
    command = [sys.executable, "-m", "pytest", *words, "--rootdir", str(place), str(place)]
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    found = re.search("^.*drawn: (.*)$", ended.stdout, re.MULTILINE)
    assert found
    number = re.search(r"^TRIKUBELET_EXPLORE=(\d+) ", ended.stdout, re.MULTILINE)
    return found[1], number[1] if number else ""


@pytest.mark.slow
@pytest.mark.timeout(240)  # three runs
def test_what_a_run_explored_its_number_explores_again(tmp_path: Path) -> None:
    fresh, number = drawn(tmp_path, TRIKUBELET_EXPLORE="1")

    assert (fresh, number) == drawn(tmp_path, TRIKUBELET_EXPLORE=number)
    assert fresh != drawn(tmp_path, TRIKUBELET_EXPLORE="1")[0]


@pytest.mark.slow
@pytest.mark.timeout(240)  # three runs
def test_default_examples_are_fixed_and_exploration_draws_fresh_ones(
    tmp_path: Path,
) -> None:
    same, number = drawn(tmp_path)

    assert ("", same) == (number, drawn(tmp_path)[0])
    more, number = drawn(tmp_path, RELIST_EXAMPLES="1000")
    assert number
    assert same != more
