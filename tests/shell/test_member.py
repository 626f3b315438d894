"""A membership's first steps, before there is anybody to talk to."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import trio

from shell.kube.apikit import access_to
from shell.memberkit import READING, Bench
from trikubelet.app import member
from trikubelet.app.access import Found
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from trikubelet.core.node_status import NodeReport


async def test_files_that_hang_when_a_node_joins_hold_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, answer = trio.Event(), threading.Event()

    def hanging(*_: object, **__: object) -> None:
        trio.from_thread.run_sync(looked.set)
        answer.wait()
        raise StartFailed("nobody hears this")

    async def report() -> NodeReport:
        raise NotImplementedError

    monkeypatch.setattr(member, "Credentials", hanging)
    flags = parse_agent_flags([f"--root-dir={tmp_path}", f"--kubeconfig={tmp_path}/k", "--hostname-override=n"])
    settings = load_settings(flags, Surroundings(os.geteuid(), os.environ, "n"))
    found = Found(access_to("http://192.0.2.1:1"))
    bench = Bench()
    try:
        async with bench.agent() as (node, _), trio.open_nursery() as nursery:
            task = member.MemberTask(settings, node, READING, report, found, bench.clock)
            await nursery.start(task.run)
            await looked.wait()
            assert task.publishing() is None
            nursery.cancel_scope.cancel()
    finally:
        answer.set()
