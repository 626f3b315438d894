"""The lease waits for nothing else that a node says to its cluster: it has a client and connections of its own."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from trustme import CA

from shell.kube.apikit import FixedClock, access_to, client_pem, serving
from shell.memberkit import Bench, until
from trikubelet.app.cluster import ApiClients
from trikubelet.app.member import open_api_clients
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.httpd.messages import Response
from trikubelet.httpd.messages import json as told
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, LEASES
from trikubelet.model.api_errors import OutOfFiles
from trikubelet.model.decoding import decode_object
from trikubelet.model.kubeconfig import File, KeyPair
from trikubelet.testing.api_link import Link
from trikubelet.testing.memory_api import MemoryApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.httpd.messages import Request

PODS = 500
GAP_SECONDS_MAX = 10 * 1.04 + 0.1
"""A quarter of the lease, its jitter, and how often the test looks."""
NO_CLIENTS = {"reset", "figures"}
"""What is no client of them."""


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_purpose_has_a_client_of_its_own() -> None:
    clients = open_api_clients(Credentials(access_to("http://192.0.2.1:1"), FixedClock(), {}))
    names = {field.name for field in fields(clients)} - NO_CLIENTS
    apis = [getattr(clients, name) for name in names]

    assert {"lease", "node", "statuses"} < names
    assert len(names) == len(set(map(id, apis)))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_all(files: ExitStack) -> None:
    """As many as may be."""
    with suppress(OSError):
        while True:
            files.callback(os.close, os.open(os.devnull, os.O_RDONLY))


@pytest.fixture
def few_files() -> Iterator[int]:
    """So many files may be open: what is open now twice over, and a few for a test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = 2 * open_files() + 40
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    yield allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_more_objects_than_open_files_take_no_connection_from_the_lease_nor_from_volumes(few_files: int) -> None:
    are_open = trio.Event()

    async def answer(request: Request) -> Response:
        if "/configmaps/" in request.path:
            if len(server.requests) == few_files // 4:
                are_open.set()
            await trio.sleep_forever()
        return told({"metadata": {"name": "w1", "resourceVersion": "1"}})

    async with serving(None, answer) as server, trio.open_nursery() as nursery:
        clients = open_api_clients(Credentials(access_to(server.url), FixedClock(), {}))
        for number in range(few_files):
            nursery.start_soon(clients.objects.get, CONFIG_MAPS, f"c{number}", "default")
        await are_open.wait()
        await trio.testing.wait_all_tasks_blocked()

        assert few_files // 4 == len(server.requests)
        for line in (clients.lease, clients.volumes):
            assert "w1" == (await line.get(LEASES, "w1", "kube-node-lease")).name
            assert isinstance(line, ApiClient)
            line.reset()
        nursery.cancel_scope.cancel()


async def test_a_process_that_may_open_no_more_files_says_so(few_files: int) -> None:
    clients = open_api_clients(Credentials(access_to("http://192.0.2.1:1"), FixedClock(), {}))
    with ExitStack() as files:
        open_all(files)
        with pytest.raises(OutOfFiles, match=r"no connection to http://192\.0\.2\.1:1: Too many open files; more must"):
            await clients.lease.get(LEASES, "w1", "kube-node-lease")


@pytest.mark.parametrize("spare", [0, 1])
async def test_a_certificate_renewed_while_few_files_may_be_open_is_shown_once_more_may_be(
    spare: int, few_files: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = CA()
    path = tmp_path / "current.pem"
    path.write_bytes(client_pem(authority, "first"))
    access = access_to("https://x", authority.cert_pem.bytes(), key_pair=KeyPair(File(str(path)), File(str(path))))
    credentials = Credentials(access, FixedClock(), {})
    first = credentials.tls
    path.write_bytes(client_pem(authority, "second"))
    with ExitStack() as files, ExitStack() as rest:
        for _ in range(spare):
            rest.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        open_all(files)
        rest.close()
        credentials.refresh()
        await credentials.headers()
        assert first is credentials.tls
        assert "Too many open files" in caplog.text
    credentials.refresh()
    await credentials.headers()

    assert first is not credentials.tls


async def follow(bench: Bench, gaps: list[float]) -> None:
    """Note how long each renewal of the lease was in coming."""
    latest, at = "", trio.current_time()
    while True:
        await trio.sleep(0.1)
        lease = decode_object(bench.server.get(LEASES, "n", "kube-node-lease").raw, k8s.Lease)
        assert lease.spec is not None
        if lease.spec.renew_time != latest:
            gaps.append(trio.current_time() - at)
            assert not latest or parse_rfc3339(lease.spec.renew_time) > parse_rfc3339(latest)
            latest, at = lease.spec.renew_time, trio.current_time()


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [Link.silence, *(pytest.param(problem, marks=pytest.mark.nightly) for problem in (Link.up, Link.down))],
)
async def test_500_pods_that_start_hold_up_no_renewal_whatever_becomes_of_what_is_said_of_them(
    autojump_clock: MockClock, bench: Bench, problem: Callable[[Link], None]
) -> None:
    elsewhere = Link()
    rest = MemoryApi(bench.server, elsewhere)
    others = {field.name: rest for field in fields(bench.clients) if field.name not in NO_CLIENTS}
    bench.clients = replace(ApiClients(**others, reset=lambda: None), lease=bench.api, watches=bench.api)
    bench.amounts = bench.amounts | {"pods": PODS}
    bench.world.keeps_trace = False
    gaps: list[float] = []
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(1)  # the lease is made then
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, bench, gaps)
            await trio.sleep(15)
            problem(elsewhere)
            for number in range(PODS):
                bench.schedule(f"p{number}")
            await until(lambda: len(bench.running()) == PODS)
            await trio.sleep(60)
            nursery.cancel_scope.cancel()

    assert len(gaps) >= 6
    assert max(gaps) <= GAP_SECONDS_MAX
