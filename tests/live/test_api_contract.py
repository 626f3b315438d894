"""The real API server keeps the contract that the memory one is held to, asked by the product's client; and the
informer finds on it what it relies on.

When this fails and the memory server's tests do not, the contract says something of the fake only. Everything is made
in a namespace of the test's own, which goes with it.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from contract.api_subject import WAIT_SECONDS_MAX, Subject
from contract.api_suite import ApiContract
from live.kit.kubectl import KubectlFailed
from trikubelet.host.clock import SystemClock
from trikubelet.kit.outage import Outage
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.informer import Informer
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model.api import CONFIG_MAPS, PatchKind
from trikubelet.model.api_errors import Expired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> None:
    """Real time: this is a real server."""


@pytest.fixture
async def subject(control_plane: ControlPlane) -> AsyncIterator[Subject]:
    """An administrator's client, and a namespace in which pods can be created."""
    name = f"contract-{secrets.token_hex(4)}"
    kubectl = control_plane.kubectl
    await trio.to_thread.run_sync(kubectl, "create", "namespace", name)
    await until_it_has_a_service_account(control_plane, name)
    client = ApiClient(Credentials(load_kubeconfig(control_plane.kubeconfig), SystemClock(), {}), "trikubelet/tests")
    try:
        yield Subject(client, name, name)
    finally:
        client.reset()
        await trio.to_thread.run_sync(kubectl, "delete", "namespace", name, "--wait=false")


async def until_it_has_a_service_account(plane: ControlPlane, namespace: str) -> None:
    """The controllers make it; pods are refused until they have."""
    with trio.fail_after(WAIT_SECONDS_MAX):
        while True:
            try:
                await trio.to_thread.run_sync(
                    plane.kubectl, "get", "--namespace", namespace, "serviceaccount", "default"
                )
                return
            except KubectlFailed:
                await trio.sleep(0.1)


class TestApiServer(ApiContract):
    """The whole contract."""


async def test_a_server_that_started_again_remembers_no_old_version(
    subject: Subject, control_plane: ControlPlane
) -> None:
    made = await subject.config_map("one")
    await subject.config_map("two")
    await trio.to_thread.run_sync(restart, control_plane)

    with pytest.raises(Expired):
        await first_change_after(subject, made.resource_version)


async def test_an_informer_knows_what_is_there_and_what_happens(subject: Subject) -> None:
    await subject.config_map("before", key="1")

    async with knowing(subject) as known:
        await known.becomes({"before": "1"})
        await subject.config_map("later", key="2")
        await known.becomes({"before": "1", "later": "2"})
        await subject.api.patch(CONFIG_MAPS, "before", data("3"), subject.namespace, kind=PatchKind.MERGE)
        await known.becomes({"before": "3", "later": "2"})
        await subject.api.delete(CONFIG_MAPS, "before", subject.namespace)
        await known.becomes({"later": "2"})


async def test_an_informer_survives_its_connection_and_its_server(
    subject: Subject, control_plane: ControlPlane
) -> None:
    await subject.config_map("goes", key="1")
    await subject.config_map("stays", key="1")

    async with knowing(subject) as known:
        await known.becomes({"goes": "1", "stays": "1"})
        assert isinstance(subject.api, ApiClient)
        subject.api.reset()
        await subject.api.delete(CONFIG_MAPS, "goes", subject.namespace)
        await known.becomes({"stays": "1"})

        await trio.to_thread.run_sync(restart, control_plane)
        assert {"stays": "1"} == known.now()
        await subject.api.patch(CONFIG_MAPS, "stays", data("2"), subject.namespace, kind=PatchKind.MERGE)
        await known.becomes({"stays": "2"})


def restart(plane: ControlPlane) -> None:
    """The API server ends as a crash would end it, and starts again with an empty cache."""
    plane.apiserver.kill()
    plane.apiserver.start()


async def first_change_after(subject: Subject, version: str) -> object:
    """What a watch tells first."""
    with trio.fail_after(WAIT_SECONDS_MAX):
        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=version) as changes:
            return await anext(changes)


class Knowledge:
    """What an informer knows, as names and values, and waiting for it."""

    def __init__(self, informer: Informer[dict[str, Any]]) -> None:
        self._informer = informer
        self._woken = trio.Event()
        informer.add_listener(self._stir)

    def _stir(self, _: object) -> None:
        self._woken.set()
        self._woken = trio.Event()

    def now(self) -> dict[str, str]:
        """What it knows."""
        return {name: tree["data"]["key"] for (_, name), tree in self._informer.objects.items()}

    async def becomes(self, expected: dict[str, str]) -> None:
        """Wait until it knows just that."""
        with trio.move_on_after(WAIT_SECONDS_MAX):
            while expected != self.now():
                await self._woken.wait()
        assert expected == self.now()


@asynccontextmanager
async def knowing(subject: Subject) -> AsyncIterator[Knowledge]:
    """An informer of the test's config maps, running."""
    informer = Informer(subject.api, CONFIG_MAPS, subject.marked, decoded, Outage("API server"))
    known = Knowledge(informer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(informer.run)
        yield known
        nursery.cancel_scope.cancel()


def decoded(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


def data(value: str) -> dict[str, object]:
    return {"data": {"key": value}}
