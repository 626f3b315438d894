"""The steps of ``examples/steps`` do what docs/steps.md says they do, on a real control plane.

The page is the test: each of its ``console`` blocks is one command line and what it printed. The command is run, and
its output compared but for what differs from run to run. ``TRIKUBELET_STEPS_RECORD=1`` writes the outputs into the
page instead.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]
PAGE = TOP / "docs/steps.md"
STEPS = sorted((TOP / "examples/steps").glob("0*.py"))
LINES_MAX = 60
IMPATIENT = {"kube-controller-manager": ["--node-monitor-grace-period=12s", "--node-monitor-period=1s"]}
_BLOCK = re.compile(r"^```console\n\$ python examples/steps/(\d\d_\w+)\.py(.*)\n([\s\S]*?)```$", re.MULTILINE)
_VARIES = re.compile(r"\d{4}-\d\d-\d\d[T-][\d:-]+Z?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{6,}\b")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader of the page stands: what one step writes the next one finds."""
    return tmp_path_factory.mktemp("desk")


def follow(step: str, desk: Path, plane: ControlPlane | None = None) -> None:
    """Do what the page says of a step."""
    text = PAGE.read_text()
    (found,) = (one for one in _BLOCK.finditer(text) if one[1] == step)
    if plane is not None:
        shutil.copy(plane.kubeconfig, desk / "admin.kubeconfig")
    command = [sys.executable, str(TOP / f"examples/steps/{step}.py"), *shlex.split(found[2])]
    done = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=200, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    if os.environ.get("TRIKUBELET_STEPS_RECORD"):
        PAGE.write_text(text[: found.start(3)] + done.stdout + text[found.end(3) :])
    else:
        assert _VARIES.sub("*", found[3]) == _VARIES.sub("*", done.stdout)


def test_the_page_has_every_step_in_its_order_and_none_is_long() -> None:
    assert [step.stem for step in STEPS] == [one[1] for one in _BLOCK.finditer(PAGE.read_text())]
    assert [] == [step.name for step in STEPS if len(step.read_text().splitlines()) > LINES_MAX]


def test_a_lease_alone_keeps_a_node_ready(desk: Path, own_control_plane: Callable[..., ControlPlane]) -> None:
    follow("01_lease", desk, own_control_plane(IMPATIENT))


@pytest.mark.parametrize("step", ["02_token", "03_certificate", "05_ready", "07_mirror", "08_pods"])
def test_a_step_prints_what_the_page_says(step: str, desk: Path, control_plane: ControlPlane) -> None:
    follow(step, desk, control_plane)


def test_the_token_that_was_made_leads_to_a_node(desk: Path, control_plane: ControlPlane) -> None:
    if not (desk / "bootstrap.kubeconfig").exists():  # this test was asked for alone
        shutil.copy(control_plane.bootstrap_kubeconfig(), desk / "bootstrap.kubeconfig")
    follow("04_bootstrap", desk, control_plane)


@pytest.mark.parametrize("step", ["06_pleg", "09_newer"])
def test_a_step_without_a_cluster_prints_what_the_page_says(step: str, desk: Path) -> None:
    follow(step, desk)
