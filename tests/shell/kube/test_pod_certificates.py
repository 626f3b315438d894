"""Certificates of pods: what is asked of a signer, when, and who hears of the answer."""

from __future__ import annotations

import base64
import random
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from core.podkit import pod
from shell.pods.shellkit import Said
from trikubelet.kit.outage import Outage
from trikubelet.kube import new_certificates
from trikubelet.kube.new_certificates import pod_key
from trikubelet.kube.pod_certificates import (
    AGAIN_SECONDS,
    ANSWER_SECONDS_MAX,
    JITTER_SECONDS_MAX,
    OVERDUE_SECONDS,
    PodCertificates,
    new_key_in_thread,
)
from trikubelet.model import k8s
from trikubelet.model.api import POD_CERTIFICATE_REQUESTS, SERVICE_ACCOUNTS, PatchKind, Selection
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.model.objects import PodCertificate
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Link, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from trio.testing import MockClock

POD = pod("a", meta={"uid": "u1"}, service_account_name="sa")
SOURCE = k8s.PodCertificateProjection(
    key_type="ED25519", signer_name="example.com/s", max_expiration_seconds=3600, user_annotations={"a.b/c": "d"}
)
CHAIN = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
FRESH_SECONDS = 1800
LIFE_SECONDS, ENDS = 3600, "2026-01-01T01:00:00Z"


class Bench:
    """A cluster with a signer, and a node."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock().now_ns)
        self.link = Link()
        self.woken: list[set[str]] = []
        self.keys = 0
        self.said = Said()
        self.registered = True
        api = MemoryApi(self.server, self.link)
        self.certificates = PodCertificates(
            api, api, self.node, self.new_key, self._wake, self.said, Outage("API server"), random.Random(1)
        )

    def node(self) -> k8s.Node | None:
        return k8s.Node(metadata=k8s.ObjectMeta(name="n", uid="node-uid")) if self.registered else None

    async def new_key(self, key_type: str) -> tuple[bytes, bytes]:
        self.keys += 1
        if key_type != "ED25519":
            raise ValueError(f"no key of type {key_type!r} can be made")
        return f"key {self.keys}\n".encode(), f"request {self.keys}".encode()

    def _wake(self, uids: Collection[str]) -> None:
        if uids:
            self.woken.append(set(uids))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PodCertificates]:
        self.server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "sa"}}, "default")
        async with trio.open_nursery() as nursery:
            await nursery.start(self.certificates.run)
            yield self.certificates
            nursery.cancel_scope.cancel()

    def asked(self) -> list[dict[str, Any]]:
        """The requests there are, oldest first."""
        page = self.server.list(POD_CERTIFICATE_REQUESTS, Selection())
        found = [msgspec.json.decode(item.raw) for item in page.items]
        return sorted(found, key=lambda one: one["spec"]["stubPKCS10Request"])

    def answer(self, condition: str = "Issued") -> None:
        """The signer answers the newest request."""
        said = {"type": condition, "status": "True", "reason": "Because", "message": "so"}
        times = {"notBefore": "2026-01-01T00:00:00Z", "beginRefreshAt": "2026-01-01T00:30:00Z", "notAfter": ENDS}
        status = {"conditions": [said], "certificateChain": CHAIN, **times}
        self.server.patch(
            POD_CERTIFICATE_REQUESTS,
            self.asked()[-1]["metadata"]["name"],
            {"status": status},
            "default",
            kind=PatchKind.MERGE,
            subresource="status",
        )

    async def answer_soon(self, condition: str = "Issued") -> None:
        await trio.sleep(1)
        self.answer(condition)

    async def got(self, source: k8s.PodCertificateProjection = SOURCE) -> PodCertificate:
        """A certificate, which the signer makes within a second."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.answer_soon)
            return await self.certificates.get(POD, source)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_signer_is_asked_for_a_pod_with_a_key_of_its_own(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.running() as certificates:
        assert PodCertificate(b"key 1\n", CHAIN.encode()) == await bench.got()
        assert PodCertificate(b"key 1\n", CHAIN.encode()) == await certificates.get(POD, SOURCE)

    (request,) = bench.asked()
    account = bench.server.get(SERVICE_ACCOUNTS, "sa", "default")
    assert {
        "signerName": "example.com/s",
        "podName": "pod",
        "podUID": "u1",
        "serviceAccountName": "sa",
        "serviceAccountUID": account.uid,
        "nodeName": "n",
        "nodeUID": "node-uid",
        "maxExpirationSeconds": 3600,
        "stubPKCS10Request": base64.b64encode(b"request 1").decode(),
        "unverifiedUserAnnotations": {"a.b/c": "d"},
    } == request["spec"]
    assert [("Pod", "u1")] == [(one["kind"], one["uid"]) for one in request["metadata"]["ownerReferences"]]
    assert [] == bench.woken, "who waits is not woken"


async def test_a_pod_waits_once_and_not_for_ever_and_is_woken_by_the_answer(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.running() as certificates:
        began = trio.current_time()
        for _ in range(2):
            with pytest.raises(ObjectUnavailable, match=r"PodCertificateRequest default/req-.* is not issued yet"):
                await certificates.get(POD, SOURCE)
        assert ANSWER_SECONDS_MAX == pytest.approx(trio.current_time() - began)
        bench.answer()
        await trio.sleep(1)
        assert [{"u1"}] == bench.woken
        await certificates.get(POD, SOURCE)

    assert 1 == len(bench.asked())


async def test_a_certificate_is_had_again_when_it_is_time_and_shown_until_then(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.running() as certificates:
        await bench.got()
        await trio.sleep(FRESH_SECONDS - 10)
        await certificates.get(POD, SOURCE)
        assert 1 == len(bench.asked())
        await trio.sleep(JITTER_SECONDS_MAX + 20)
        assert b"key 1\n" == (await certificates.get(POD, SOURCE)).key_pem
        assert 2 == len(bench.asked())
        bench.answer()
        await trio.sleep(1)
        assert [{"u1"}] == bench.woken
        assert b"key 2\n" == (await certificates.get(POD, SOURCE)).key_pem


async def test_a_server_that_is_away_is_asked_again_while_the_old_one_is_shown(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.running() as certificates:
        await bench.got()
        await trio.sleep(FRESH_SECONDS + JITTER_SECONDS_MAX)
        bench.link.down()
        assert b"key 1\n" == (await certificates.get(POD, SOURCE)).key_pem
        bench.link.up()
        assert b"key 1\n" == (await certificates.get(POD, SOURCE)).key_pem
        assert 1 == len(bench.asked())
        await trio.sleep(AGAIN_SECONDS)
        await certificates.get(POD, SOURCE)

    assert 2 == len(bench.asked())


async def test_a_node_that_is_not_there_for_a_moment_shows_the_old_one(
    autojump_clock: MockClock, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.running() as certificates:
        await bench.got()
        await trio.sleep(FRESH_SECONDS + JITTER_SECONDS_MAX)
        bench.registered = False
        for _ in range(2):
            assert b"key 1\n" == (await certificates.get(POD, SOURCE)).key_pem
        bench.registered = True
        await trio.sleep(AGAIN_SECONDS)
        await certificates.get(POD, SOURCE)

    assert 2 == len(bench.asked())
    assert 1 == caplog.text.count("keeps its certificate: no newer one: the node is not registered yet")


@pytest.mark.parametrize(("word", "condition"), [("denied", "Denied"), ("failed", "Failed")])
async def test_a_signer_that_says_no_is_not_asked_again(
    autojump_clock: MockClock, bench: Bench, word: str, condition: str
) -> None:
    told = f'PodCertificateRequest was permanently {word}: reason="Because" message="so"'
    async with bench.running() as certificates, trio.open_nursery() as nursery:
        nursery.start_soon(bench.answer_soon, condition)
        with pytest.raises(ObjectUnavailable, match=told):
            await certificates.get(POD, SOURCE)
        with pytest.raises(ObjectUnavailable, match=told):
            await certificates.get(POD, SOURCE)

    assert 1 == len(bench.asked())
    assert [("Warning", condition, told)] == bench.said.events


async def test_unanswered_refresh_is_reported_once_and_so_is_its_end(autojump_clock: MockClock, bench: Bench) -> None:
    overdue = ("Warning", "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
    ended = ("Warning", "CertificateExpired", "PodCertificate expired")
    async with bench.running() as certificates:
        await bench.got()
        for seconds, expected in (
            (FRESH_SECONDS + OVERDUE_SECONDS - 10, []),
            (JITTER_SECONDS_MAX + 10, [overdue]),
            (LIFE_SECONDS - FRESH_SECONDS - OVERDUE_SECONDS - JITTER_SECONDS_MAX, [overdue, ended]),
            (100, [overdue, ended]),
        ):
            await trio.sleep(seconds)
            assert b"key 1\n" == (await certificates.get(POD, SOURCE)).key_pem
            assert expected == bench.said.events
        bench.answer()
        await trio.sleep(1)
        assert b"key 1\n" != (await certificates.get(POD, SOURCE)).key_pem
        await trio.sleep(LIFE_SECONDS)
        await certificates.get(POD, SOURCE)

    assert 2 * [overdue, ended] == bench.said.events


async def test_deleted_request_is_created_again(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.running() as certificates:
        with pytest.raises(ObjectUnavailable):
            await certificates.get(POD, SOURCE)
        name = bench.asked()[0]["metadata"]["name"]
        bench.server.delete(POD_CERTIFICATE_REQUESTS, name, "default")
        await trio.sleep(1)
        assert [{"u1"}] == bench.woken
        assert b"key 2\n" == (await bench.got()).key_pem


async def test_each_wish_of_a_pod_has_its_certificate_and_they_go_with_it(
    autojump_clock: MockClock, bench: Bench
) -> None:
    other = k8s.PodCertificateProjection(key_type="ED25519", signer_name="example.com/other")
    async with bench.running() as certificates:
        assert [b"key 1\n", b"key 2\n"] == [(await bench.got(one)).key_pem for one in (SOURCE, other)]
        certificates.release("u1")
        assert b"key 3\n" == (await bench.got()).key_pem


async def test_what_no_request_can_be_made_of_is_reported(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.running() as certificates:
        strange = k8s.PodCertificateProjection(key_type="DSA", signer_name="example.com/s")
        with pytest.raises(ObjectUnavailable, match="no key of type 'DSA' can be made"):
            await certificates.get(POD, strange)
        bench.server.delete(SERVICE_ACCOUNTS, "sa", "default")
        with pytest.raises(ObjectUnavailable, match=r"while creating PodCertificateRequest: .*not found"):
            await certificates.get(POD, SOURCE)
        bench.registered = False
        with pytest.raises(ObjectUnavailable, match="the node is not registered yet"):
            await certificates.get(POD, SOURCE)


@pytest.mark.parametrize("key_type", ["ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072", "RSA4096"])
def test_each_type_of_key_signs_a_request_without_a_subject(key_type: str) -> None:
    from cryptography import x509  # noqa: PLC0415 - what few tests need
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key_pem, request = pod_key(key_type)

    read = x509.load_der_x509_csr(request)
    assert (True, x509.Name([])) == (read.is_signature_valid, read.subject)
    assert load_pem_private_key(key_pem, None).public_key() == read.public_key()
    assert key_pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")


async def test_keys_are_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made_by = []

    def make(key_type: str) -> tuple[bytes, bytes]:
        made_by.append(threading.get_ident())
        return pod_key(key_type)

    monkeypatch.setattr(new_certificates, "pod_key", make)
    key_pem, _ = await new_key_in_thread()("ED25519")

    assert key_pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert 1 == len(made_by)
    assert threading.get_ident() not in made_by
