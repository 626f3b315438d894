"""A membership's first steps, before there is anybody to talk to."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import trio

from shell.kube.apikit import access_to
from shell.kube.authoritykit import Authority
from shell.memberkit import READING, Bench
from trikubelet.app import member
from trikubelet.app.access import Found, client_certificate
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.kube.credentials import Credentials
from trikubelet.model.certificates import CLIENT_SIGNER, node_subject
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import OwnPair, Token

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.core.node_status import NodeReport


async def test_hanging_files_of_a_joining_node_delay_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("name", ["n", "before"])
async def test_a_certificate_of_a_nodes_earlier_name_is_no_reason_to_wait_with_the_request(
    tmp_path: Path, name: str
) -> None:
    flags = parse_agent_flags([f"--root-dir={tmp_path}", f"--kubeconfig={tmp_path}/k", "--hostname-override=n"])
    settings = load_settings(flags, Surroundings(os.geteuid(), os.environ, "n"))
    bench = Bench()
    store = client_certificate(settings, bench.clock)
    begin = datetime.fromtimestamp(bench.clock.now_ns() / SECOND_NS, UTC)
    store.keep(Authority().sign(store.request(node_subject(name), CLIENT_SIGNER).pem, begin))
    own = OwnPair(str(store.current_path), "system:node:n")
    found = Found(access_to("http://192.0.2.1:1", proof=Token("t"), own=own))

    async def report() -> NodeReport:
        raise NotImplementedError

    async with bench.agent() as (node, _):
        task = member.MemberTask(settings, node, READING, report, found, bench.clock)
        rotation = task._client_rotation(bench.clients, Credentials(found.access, bench.clock, {}))

    assert (name == "n") is (rotation._held() is not None)
