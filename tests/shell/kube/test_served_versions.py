"""An API server of another version serves a kind of object in another version of its API."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from core.podkit import pod
from shell.pods.shellkit import Said
from trikubelet.kit.outage import Outage
from trikubelet.kube.pod_certificates import PodCertificates
from trikubelet.kube.served_versions import ServedVersions
from trikubelet.kube.trust_bundles import TrustBundles
from trikubelet.model import k8s
from trikubelet.model.api import CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS, SERVICE_ACCOUNTS, PatchKind, Selection
from trikubelet.model.api_errors import ObjectMissing
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from trio.testing import MockClock

    from trikubelet.model.api import Change, Item, Page, Resource

POD = pod("a", meta={"uid": "u1"}, service_account_name="sa")
SOURCE = k8s.PodCertificateProjection(key_type="ED25519", signer_name="example.com/s")
SERVED = [("v1",), ("v1beta1",), ("v1", "v1beta1")]


class Cluster(MemoryApi):
    """A cluster that serves certificates.k8s.io in some versions, and has each object once."""

    def __init__(self, served: Collection[str]) -> None:
        super().__init__(ApiServer(VirtualClock().now_ns))
        self.served = served

    def stored(self, resource: Resource) -> Resource:
        if resource.group != "certificates.k8s.io":
            return resource
        if resource.version not in self.served:
            raise ObjectMissing("the server could not find the requested resource", "NotFound")
        return CLUSTER_TRUST_BUNDLES if resource.plural == CLUSTER_TRUST_BUNDLES.plural else POD_CERTIFICATE_REQUESTS

    async def list(self, resource: Resource, selection: Selection, **more: Any) -> Page:
        return await super().list(self.stored(resource), selection, **more)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, selection: Selection, **more: Any
    ) -> AsyncIterator[AsyncIterator[Change]]:
        async with super().watch(self.stored(resource), selection, **more) as changes:
            yield changes

    async def create(self, resource: Resource, body: Any, namespace: str = "", *, under: str = "") -> Item:
        if resource.group == "certificates.k8s.io":
            assert resource.api_version == body["apiVersion"]
        return await super().create(self.stored(resource), body, namespace, under=under)


@pytest.mark.parametrize("served", SERVED)
async def test_trust_bundles_are_read_in_the_version_that_the_cluster_serves(
    autojump_clock: MockClock, served: tuple[str, ...]
) -> None:
    api = Cluster(served)
    api.server.create(CLUSTER_TRUST_BUNDLES, {"metadata": {"name": "b"}, "spec": {"trustBundle": "x"}})
    bundles = TrustBundles(api, lambda _: None, Outage("API server"), random.Random(1))
    async with trio.open_nursery() as nursery:
        await nursery.start(bundles.run)
        assert ["x"] == [one.spec.trust_bundle for one in await bundles.get("u1")]
        nursery.cancel_scope.cancel()


async def test_trust_bundles_are_followed_over_an_upgrade_of_the_cluster(autojump_clock: MockClock) -> None:
    api = Cluster(["v1beta1"])
    woken: list[set[str]] = []
    bundles = TrustBundles(api, lambda uids: woken.append(set(uids)), Outage("API server"), random.Random(1))
    async with trio.open_nursery() as nursery:
        await nursery.start(bundles.run)
        assert [] == list(await bundles.get("u1"))
        api.served = ["v1"]
        api.link.down()
        await trio.sleep(60)
        api.link.up()
        api.server.create(CLUSTER_TRUST_BUNDLES, {"metadata": {"name": "b"}, "spec": {"trustBundle": "x"}})
        await trio.sleep(600)
        assert {"u1"} in woken
        assert ["x"] == [one.spec.trust_bundle for one in await bundles.get("u1")]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("served", SERVED)
async def test_a_certificate_is_requested_in_the_version_that_the_cluster_serves(
    autojump_clock: MockClock, served: tuple[str, ...]
) -> None:
    api = Cluster(served)
    api.server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "sa"}}, "default")
    node = k8s.Node(metadata=k8s.ObjectMeta(name="n", uid="node-uid"))

    async def new_key(_: str) -> tuple[bytes, bytes]:
        return b"key", b"request"

    certificates = PodCertificates(
        api, api, lambda: node, new_key, lambda _: None, Said(), Outage("API server"), random.Random(1)
    )

    async def sign() -> None:
        await trio.sleep(1)
        (request,) = api.server.list(POD_CERTIFICATE_REQUESTS, Selection()).items
        said = {"type": "Issued", "status": "True", "reason": "Because", "message": "so"}
        times = {
            "notBefore": "2026-01-01T00:00:00Z",
            "beginRefreshAt": "2026-01-01T00:30:00Z",
            "notAfter": "2026-01-01T01:00:00Z",
        }
        chain = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
        status = {"status": {"conditions": [said], "certificateChain": chain, **times}}
        api.server.patch(
            POD_CERTIFICATE_REQUESTS, request.name, status, "default", kind=PatchKind.MERGE, subresource="status"
        )

    async with trio.open_nursery() as nursery:
        await nursery.start(certificates.run)
        nursery.start_soon(sign)
        assert b"key" == (await certificates.get(POD, SOURCE)).key_pem
        nursery.cancel_scope.cancel()


async def test_a_cluster_without_the_kind_is_reported_with_its_answer_about_the_newest_version() -> None:
    served = ServedVersions(Cluster([]))
    with pytest.raises(ObjectMissing, match="could not find the requested resource"):
        await served.list(CLUSTER_TRUST_BUNDLES, Selection())


async def test_a_kind_of_one_version_is_asked_for_once() -> None:
    api = Cluster([])
    with pytest.raises(ObjectMissing):
        await ServedVersions(api).get(SERVICE_ACCOUNTS, "none", "default")
    assert 1 == len(api.requests)


async def test_the_version_that_was_served_is_asked_first() -> None:
    api = Cluster(["v1beta1"])
    served = ServedVersions(api)
    asked: list[str] = []
    stored = api.stored

    def noted(resource: Resource) -> Resource:
        asked.append(resource.version)
        return stored(resource)

    api.stored = noted  # type: ignore[method-assign]  # to see what is asked for
    await served.list(CLUSTER_TRUST_BUNDLES, Selection())
    await served.list(CLUSTER_TRUST_BUNDLES, Selection())

    assert ["v1", "v1beta1", "v1beta1"] == asked
    assert "certificates.k8s.io/v1beta1" in repr(served)
