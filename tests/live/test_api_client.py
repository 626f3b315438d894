"""The API client on a real API server: who it is taken for, and connections that die without a word."""

from __future__ import annotations

import subprocess
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import pytest
import trio

from trikubelet.host.clock import SystemClock
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.file_content import LOOK_SECONDS
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model.api import NODES, PODS, Resource, Selection
from trikubelet.model.api_errors import ApiLost, ApiUnreachable, Forbidden, Unauthorized
from trikubelet.model.kubeconfig import Impersonation, Token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from live.kit.control_plane import ControlPlane
    from trikubelet.model.kubeconfig import ClusterAccess

pytestmark = pytest.mark.slow

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
NOTICED_SECONDS_MAX = 60.0
"""Twice what the kernel is told: it is not a measurement."""


@asynccontextmanager
async def asking(access: ClusterAccess) -> AsyncIterator[ApiClient]:
    client = ApiClient(Credentials(access, SystemClock(), {}), "trikubelet/tests")
    try:
        yield client
    finally:
        client.reset()


async def who_am_i(client: ApiClient) -> dict[str, Any]:
    """Whom the server takes the client for."""
    review = await client.create(REVIEWS, {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind})
    user: dict[str, Any] = msgspec.json.decode(review.raw)["status"]["userInfo"]
    return user


async def test_a_node_is_known_by_its_certificate_and_by_the_next_one(control_plane: ControlPlane) -> None:
    kubeconfig = await issue(control_plane, "w1")
    async with asking(load_kubeconfig(kubeconfig)) as client:
        first = await who_am_i(client)
        assert kubeconfig == await issue(control_plane, "w1")
        await trio.sleep(LOOK_SECONDS)
        second = await who_am_i(client)

    assert ["system:node:w1"] * 2 == [first["username"], second["username"]]
    certificate = "authentication.kubernetes.io/credential-id"
    assert first["extra"][certificate] != second["extra"][certificate]


async def test_an_expired_certificate_and_a_false_token_are_unauthorized_and_told_as_what_they_are(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    lasting = timedelta(seconds=1)
    expired = load_kubeconfig(await issue(control_plane, "late", lasting))
    await trio.sleep(2 * lasting.total_seconds())
    for access in (expired, replace(expired, key_pair=None, proof=Token("abcdef.0123456789abcdef"))):
        async with asking(access) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "late")

    start = "The API server answers, but does not know this node (Unauthorized). It was shown the "
    expired_line, false_line = caplog.messages
    assert expired_line.startswith(f"{start}client certificate of system:node:late")
    assert "which was valid until" in expired_line
    assert false_line.startswith(f"{start}token of users[0].user.token in ")


async def test_a_bootstrap_token_makes_one_a_bootstrapper(control_plane: ControlPlane) -> None:
    kubeconfig = await trio.to_thread.run_sync(control_plane.bootstrap_kubeconfig)
    async with asking(load_kubeconfig(kubeconfig)) as client:
        assert "system:bootstrappers" in (await who_am_i(client))["groups"]
        with pytest.raises(Forbidden):
            await client.get(NODES, "w1")


async def test_administrator_may_impersonate_another_user(control_plane: ControlPlane) -> None:
    jane = Impersonation("jane", "7", ("a", "b"), (("acme.com/scope", ("x", "y")),))
    async with asking(replace(load_kubeconfig(control_plane.kubeconfig), impersonation=jane)) as client:
        user = await who_am_i(client)

    assert ("jane", "7", ["a", "b", "system:authenticated"]) == (user["username"], user["uid"], user["groups"])
    assert ["x", "y"] == user["extra"]["acme.com/scope"]


async def test_watch_with_lost_packets_fails_within_a_minute(control_plane: ControlPlane) -> None:
    access = load_kubeconfig(control_plane.kubeconfig)
    async with (
        asking(access) as client,
        client.watch(PODS, Selection(), resource_version="", initial=True) as changes,
    ):
        async for change in changes:
            if change.initial_end:
                break
        with cut_off(access), trio.fail_after(NOTICED_SECONDS_MAX), pytest.raises(ApiLost):
            async for _ in changes:
                pass


async def test_a_request_to_a_server_that_is_cut_off_fails_soon_and_the_next_after_it_works(
    control_plane: ControlPlane,
) -> None:
    access = load_kubeconfig(control_plane.kubeconfig)
    async with asking(access) as client:
        await client.list(NODES, Selection())
        with cut_off(access), trio.fail_after(NOTICED_SECONDS_MAX):
            with pytest.raises(ApiLost):  # on the connection there is
                await client.list(NODES, Selection())
            with pytest.raises(ApiUnreachable):
                await client.list(NODES, Selection())
        await client.list(NODES, Selection())


async def issue(plane: ControlPlane, node: str, lasting: timedelta = timedelta(hours=1)) -> Path:
    """A kubeconfig of a node, with a new certificate."""
    return await trio.to_thread.run_sync(plane.node_kubeconfig, node, lasting)


@contextmanager
def cut_off(access: ClusterAccess) -> Iterator[None]:
    """Nothing reaches the server any more, and nothing comes from it; nobody is told."""
    port = str(urlsplit(access.server.url).port)
    rules = [["INPUT", "-p", "tcp", side, port, "-j", "DROP"] for side in ("--dport", "--sport")]
    for rule in rules:
        subprocess.run(["iptables", "-w", "-I", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run(["iptables", "-w", "-D", *rule], check=True)
