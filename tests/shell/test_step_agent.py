"""What the steps of ``examples/steps`` share, without a control plane: the live tests walk the steps themselves, and
come too late for a part that no longer fits the agent it puts together."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from shell.nobody import NOBODY

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trikubelet.app.settings import Settings

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

STEP = Path(__file__).parents[2] / "examples/steps/step.py"


@pytest.mark.slow
async def test_the_agent_of_a_step_starts_whether_or_not_its_cluster_answers_and_is_gone_afterwards(
    tmp_path: Path,
) -> None:
    (tmp_path / "kubeconfig").write_text(NOBODY)
    agent: AbstractAsyncContextManager[Settings] = runpy.run_path(str(STEP))["agent"](
        "pretender", tmp_path / "kubeconfig", "--max-pods=7"
    )

    with trio.fail_after(60):
        async with agent as settings:
            assert ("pretender", 7) == (settings.node_name, settings.configuration.max_pods)
            assert (settings.root_dir / "fake.sock").is_socket()
    assert not settings.root_dir.exists()
