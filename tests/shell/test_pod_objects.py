"""What pods need of the API server: one watch and one copy of each object, pods woken, tokens in time. All of it on a
memory API server and virtual time."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from core.podkit import pod
from shell.pods.shellkit import Said
from trikubelet.kit.outage import Outage
from trikubelet.kube import pod_objects, tokens
from trikubelet.kube.informer import Informer
from trikubelet.kube.pod_objects import ApiPodObjects
from trikubelet.model import k8s
from trikubelet.model.api import (
    CLUSTER_TRUST_BUNDLES,
    CONFIG_MAPS,
    POD_CERTIFICATE_REQUESTS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    PatchKind,
    Selection,
)
from trikubelet.model.decoding import decode_object
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Link, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from trio.testing import MockClock

    from trikubelet.model.api import Item

NODE = k8s.Node(metadata=k8s.ObjectMeta(name="n", uid="node-uid"))
ONE, OTHER = pod("a", meta={"uid": "one"}), pod("a", meta={"uid": "other"})


class Bench:
    """A cluster, and one node's needs of it: ``link`` is for watches, ``requests_link`` for what is asked once."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock().now_ns)
        self.link = Link()
        self.woken: list[set[str]] = []
        self.outage = Outage("API server")
        api = MemoryApi(self.server, self.link)
        self.requests_link = Link()
        requests = MemoryApi(self.server, self.requests_link)
        self.objects = ApiPodObjects(api, requests, self._wake, self.outage, random.Random(1), Said(), lambda: NODE)

    def _wake(self, uids: Collection[str]) -> None:
        if uids:
            self.woken.append(set(uids))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiPodObjects]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.objects.run)
            yield self.objects
            nursery.cancel_scope.cancel()

    def config_map(self, name: str, *, immutable: bool = False, **data: str) -> None:
        body = {"metadata": {"name": name}, "data": data, "immutable": immutable}
        self.server.create(CONFIG_MAPS, body, "default")

    def change(self, name: str, **data: str) -> None:
        self.server.patch(CONFIG_MAPS, name, {"data": data}, "default", kind=PatchKind.MERGE)

    def bound_pod(self) -> k8s.Pod:
        self.server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        return decode_object(self.server.create(PODS, body, "default").raw, k8s.Pod)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_an_object_is_held_once_for_all_pods_and_forgotten_with_the_last(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.config_map("o", a="1")
    async with bench.running() as objects:
        held = await objects.config_map(ONE, "o")
        assert held is not None
        assert {"a": "1"} == held.data
        assert held is await objects.config_map(OTHER, "o")
        assert 1 == len(objects.config_maps)

        objects.release("one")
        assert 1 == len(objects.config_maps)
        objects.release("other")
        objects.release("other")
        assert 0 == len(objects.config_maps)


async def test_nothing_of_a_forgotten_object_hears_of_a_server_that_is_back(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Informer[object]] = []

    def hurry(informer: Informer[object]) -> None:
        told.append(informer)

    monkeypatch.setattr(Informer, "hurry", hurry)
    async with bench.running() as objects:
        for name in ("o", "p", "q"):
            await objects.config_map(ONE, name)
        await objects.config_map(OTHER, "stays")
        objects.release("one")
        await trio.sleep(1)
        told.clear()
        bench.outage.failed("asking", OSError("no"))
        bench.outage.worked()
        # What follows the services is told too.
        assert 1 == sum("configmaps" in repr(informer) for informer in told)


async def test_a_change_wakes_the_pods_that_need_the_object_and_no_others(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.config_map("o", a="1")
    bench.config_map("p", a="1")
    async with bench.running() as objects:
        await objects.config_map(ONE, "o")
        await objects.config_map(OTHER, "p")
        assert [] == bench.woken  # what they waited for needs no waking

        bench.change("o", a="2")
        await trio.sleep(1)
        assert [{"one"}] == bench.woken
        held = await objects.config_map(ONE, "o")
        assert held is not None
        assert {"a": "2"} == held.data


async def test_an_object_that_is_not_there_is_known_not_to_be_and_its_coming_wakes(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.running() as objects:
        assert await objects.secret(ONE, "o") is None
        bench.server.create(SECRETS, {"metadata": {"name": "o"}}, "default")
        await trio.sleep(1)
        assert [{"one"}] == bench.woken
        assert await objects.secret(ONE, "o") is not None


async def test_a_server_that_does_not_answer_keeps_a_pod_waiting_only_so_long_and_wakes_it_later(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.config_map("o")
    bench.link.down()
    async with bench.running() as objects:
        with trio.fail_after(11), pytest.raises(ObjectUnavailable, match="failed to sync configmap cache: timed out"):
            await objects.config_map(ONE, "o")
        bench.link.up()
        await trio.sleep(60)
        assert [{"one"}] == bench.woken


async def test_an_immutable_object_is_kept_and_no_longer_watched(autojump_clock: MockClock, bench: Bench) -> None:
    bench.config_map("o", immutable=True, a="1")
    async with bench.running() as objects:
        await objects.config_map(ONE, "o")
        bench.change("o", a="2")  # no real server lets that happen
        await trio.sleep(1000)
        held = await objects.config_map(OTHER, "o")

    assert held is not None
    assert ({"a": "1"}, []) == (held.data, bench.woken)


async def test_a_token_is_kept_for_most_of_its_life_and_then_had_again(autojump_clock: MockClock, bench: Bench) -> None:
    it = bench.bound_pod()
    first = await bench.objects.token(it, "", 3600)
    await trio.sleep(0.8 * 3600 - tokens.JITTER_SECONDS_MAX - 1)
    assert first == await bench.objects.token(it, "", 3600)
    await trio.sleep(tokens.JITTER_SECONDS_MAX + 1)
    assert first != await bench.objects.token(it, "", 3600)


async def test_no_token_is_kept_for_more_than_a_day(autojump_clock: MockClock, bench: Bench) -> None:
    it = bench.bound_pod()
    first = await bench.objects.token(it, "", 10_000_000)
    await trio.sleep(24 * 3600)
    assert first != await bench.objects.token(it, "", 10_000_000)


async def test_an_account_is_told_as_it_is_now(autojump_clock: MockClock, bench: Bench) -> None:
    it = bench.bound_pod()
    before = await bench.objects.service_account(it)
    change = {"metadata": {"annotations": {"a": "b"}}}
    bench.server.patch(SERVICE_ACCOUNTS, "default", change, "default", kind=PatchKind.MERGE)
    after = await bench.objects.service_account(it)

    assert ("default", {}, {"a": "b"}) == (before.name, before.annotations, after.annotations)
    assert bench.server.get(SERVICE_ACCOUNTS, "default", "default").uid == before.uid == after.uid
    bench.requests_link.down()
    with pytest.raises(ObjectUnavailable, match=r"^failed to fetch service account default/default: "):
        await bench.objects.service_account(it)


async def test_each_audience_has_its_token_and_a_pod_that_is_released_leaves_none(
    autojump_clock: MockClock, bench: Bench
) -> None:
    it = bench.bound_pod()
    plain, vault = await bench.objects.token(it, "", 3600), await bench.objects.token(it, "vault", 3600)

    assert ("default-for-", "default-for-vault") == (plain.text[-12:], vault.text[-17:])
    bench.objects.release(it.metadata.uid)
    assert plain != await bench.objects.token(it, "", 3600)


async def test_a_token_that_cannot_be_renewed_serves_until_its_end(autojump_clock: MockClock, bench: Bench) -> None:
    it = bench.bound_pod()
    first = await bench.objects.token(it, "", 3600)
    bench.requests_link.down()
    await trio.sleep(3000)
    assert first == await bench.objects.token(it, "", 3600)
    await trio.sleep(601)
    with pytest.raises(ObjectUnavailable, match="failed to fetch token: "):
        await bench.objects.token(it, "", 3600)


async def test_a_certificate_is_asked_for_where_no_watch_is_in_the_way(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def new_key(_: str) -> tuple[bytes, bytes]:
        await trio.lowlevel.checkpoint()
        return b"key", b"request"

    monkeypatch.setattr(pod_objects, "new_key_in_thread", lambda: new_key)
    bench = Bench()
    it, source = bench.bound_pod(), k8s.PodCertificateProjection(key_type="ED25519", signer_name="example.com/s")
    bench.link.down()
    async with bench.running() as objects:
        with pytest.raises(ObjectUnavailable, match="is not issued yet"):
            await objects.pod_certificate(it, source)

    assert 1 == len(list(bench.server.list(POD_CERTIFICATE_REQUESTS, Selection()).items))


async def test_a_token_is_bound_to_this_very_pod(autojump_clock: MockClock, bench: Bench) -> None:
    it = bench.bound_pod()
    bench.server.delete(PODS, "p", "default", 0)
    with pytest.raises(ObjectUnavailable, match='pods "p" not found'):
        await bench.objects.token(it, "", 3600)


@pytest.mark.parametrize(
    ("seconds", "is_kept"), [(10**400, True), (0, False), (-(10**400), False)], ids=["endless", "none", "less"]
)
async def test_excessive_token_lifetime_is_capped(
    seconds: int, is_kept: bool, autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = bench.server.create

    def granting(*args: Any, **named: Any) -> Item:
        item = create(*args, **named)
        return replace(item, raw=item.raw.replace(b'"expirationSeconds":3600', b'"expirationSeconds":%d' % seconds))

    it = bench.bound_pod()
    monkeypatch.setattr(bench.server, "create", granting)
    first = await bench.objects.token(it, "", 3600)

    assert is_kept == (first == await bench.objects.token(it, "", 3600))


async def test_only_so_many_tokens_are_asked_for_at_once(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, create = bench.bound_pod(), MemoryApi.create
    under_way = [0]

    async def slowly(*words: Any, **named: Any) -> Item:
        under_way.append(under_way[-1] + 1)
        await trio.sleep(1)
        under_way.append(under_way[-1] - 1)
        return await create(*words, **named)

    monkeypatch.setattr(MemoryApi, "create", slowly)
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(bench.objects.token, it, f"audience-{n}", 3600)

    assert tokens.REQUESTS_MAX == max(under_way)


async def test_trust_anchors_are_watched_while_a_pod_needs_them_and_their_change_wakes_it(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bundle = {"metadata": {"name": "b"}, "spec": {"trustBundle": "first"}}
    bench.server.create(CLUSTER_TRUST_BUNDLES, bundle)
    async with bench.running() as objects:
        assert ["first"] == [one.spec.trust_bundle for one in await objects.trust_bundles(ONE)]
        assert [] == bench.woken, "who waits is not woken"
        bench.server.patch(CLUSTER_TRUST_BUNDLES, "b", {"spec": {"trustBundle": "second"}}, kind=PatchKind.MERGE)
        await trio.sleep(1)
        assert [{"one"}] == bench.woken
        objects.release("one")
        bench.server.delete(CLUSTER_TRUST_BUNDLES, "b")
        await trio.sleep(1)
        assert [{"one"}] == bench.woken
        assert [] == list(await objects.trust_bundles(OTHER)), "it is asked for again"


async def test_a_cluster_that_does_not_tell_of_trust_anchors_is_named_as_the_reason(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.link.down()
    async with bench.running() as objects:
        told = "does this cluster serve clustertrustbundles.certificates.k8s.io in v1 or v1beta1"
        with pytest.raises(ObjectUnavailable, match=told):
            await objects.trust_bundles(ONE)
        bench.link.up()
        await trio.sleep(100)
        assert [{"one"}] == bench.woken
