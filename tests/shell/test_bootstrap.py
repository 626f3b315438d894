"""A node that has only a token makes itself a kubeconfig, wherever it is interrupted and whatever is said to it."""

from __future__ import annotations

import base64
import logging
import random
import threading
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
from trustme import CA

from shell.signingkit import LIFE_SECONDS, NO_THREADS, FullDisk, SigningCluster
from trikubelet.app import access as access_module
from trikubelet.app.access import Bootstrap, Found, find_access, remedy_for, shown_certificate, way_back
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model.api import SIGNING_REQUESTS
from trikubelet.model.api_errors import ApiFailure, Forbidden, Unauthorized
from trikubelet.model.certificates import CLIENT_SIGNER, node_subject
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import File, Token
from trikubelet.node.certificate_rotation import CertificateRotation
from trikubelet.testing.memory_api import Fail, MemoryApi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.model.kubeconfig import ClusterAccess, Server
    from trikubelet.ports import Api

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

FIRST = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://192.0.2.1:6443"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


class Joining:
    """Owns a node that is to join: its files, what it is answered, and which tokens it came with."""

    def __init__(self, directory: Path) -> None:
        self.cluster = SigningCluster(directory / "pki")
        self.first = directory / "bootstrap"
        self.target = directory / "kubeconfig"
        self.tokens: list[str] = []
        self.hung_up = 0
        self.threads = NO_THREADS
        self.hand_out("one")
        flags = [
            "--container-runtime-endpoint=fake:",
            "--hostname-override=w1",
            f"--root-dir={directory}",
            f"--cert-dir={directory / 'pki'}",
            f"--kubeconfig={self.target}",
            f"--bootstrap-kubeconfig={self.first}",
        ]
        self.settings = load_settings(parse_agent_flags(flags), Surroundings(0, {}, "w1"))

    def hand_out(self, token: str) -> None:
        """Another bootstrap token takes the place of the one that is there."""
        self.first.write_text(FIRST.format(token=token))

    def connect(self, access: ClusterAccess) -> tuple[Api, Callable[[], None]]:
        assert isinstance(access.proof, Token)
        if access.proof.text == "unusable":
            raise StartFailed("the kubeconfig's certificates cannot be used: torn")
        self.tokens.append(access.proof.text)
        return self.cluster.api, self._hang_up

    def _hang_up(self) -> None:
        self.hung_up += 1

    async def run(self) -> ClusterAccess:
        """One life of the agent, until it is a node; cancel it to end it sooner."""
        store = self.cluster.store
        first, clock = load_kubeconfig(self.first), self.cluster.clock
        made = Bootstrap(self.settings, first, self.connect, clock, random.Random(1), self.threads)
        return (await made.run(store, store.current_path)).access

    async def run_signed(self) -> ClusterAccess:
        """Run the same in a cluster that signs every request, within seconds."""
        with trio.fail_after(300):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.cluster.keep_signing)
                access = await self.run()
                nursery.cancel_scope.cancel()
        return access

    async def die_after(self, seconds: float) -> None:
        with trio.move_on_after(seconds) as life:
            await self.run()
        assert life.cancelled_caught


@pytest.fixture
def joining(tmp_path: Path) -> Joining:
    return Joining(tmp_path)


def names(joining: Joining) -> list[str]:
    return [request.metadata.name for request in joining.cluster.requests()]


async def test_a_token_becomes_a_kubeconfig_with_a_certificate_of_the_node(
    autojump_clock: MockClock, joining: Joining
) -> None:
    access = await joining.run_signed()

    held = joining.cluster.store.current()
    assert held is not None
    assert ("system:node:w1", ("system:nodes",)) == (held.common_name, held.organizations)
    assert Found(access) == find_access(joining.settings, joining.cluster.clock)
    assert (["one"], 1) == (joining.tokens, joining.hung_up)


async def test_slowly_written_kubeconfig_delays_nothing_else(
    autojump_clock: MockClock, joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = trio.Event(), threading.Event()
    at_once = access_module.save_kubeconfig

    def slow(path: Path, server: Server, key_pair: Path) -> None:
        trio.from_thread.run_sync(begun.set)
        assert may_end.wait(60)
        at_once(path, server, key_pair)

    await joining.run_signed()
    joining.target.unlink()
    autojump_clock.autojump_threshold = float("inf")  # from here on it would not wait for a thread
    joining.threads = ThreadPool("certificates", 1)
    monkeypatch.setattr(access_module, "save_kubeconfig", slow)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joining.run)
            await begun.wait()
            may_end.set()
    finally:
        may_end.set()

    assert joining.target.exists()


async def test_restart_before_a_decision_continues_with_the_same_request(
    autojump_clock: MockClock, joining: Joining
) -> None:
    for _ in range(3):
        await joining.die_after(60)
    before = names(joining)
    await joining.run_signed()

    assert 1 == len(before)
    assert before == names(joining)


async def test_a_restart_between_certificate_and_kubeconfig_asks_for_nothing(
    autojump_clock: MockClock, joining: Joining
) -> None:
    await joining.run_signed()
    joining.target.unlink()
    assert find_access(joining.settings, joining.cluster.clock).is_first
    with trio.fail_after(1):
        await joining.run()

    assert joining.target.exists()
    assert ["one"] == joining.tokens
    assert 1 == len(names(joining))


async def test_a_certificate_of_a_node_of_another_name_is_not_taken(
    autojump_clock: MockClock, joining: Joining
) -> None:
    await joining.run_signed()
    joining.target.unlink()
    joining.settings = replace(joining.settings, node_name="w2")
    await joining.run_signed()

    held = joining.cluster.store.current()
    assert held is not None
    assert "system:node:w2" == held.common_name
    assert 2 == len(names(joining))


async def test_node_with_a_certificate_of_another_cluster_gets_the_remedy(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    access, store, settings = await joining.run_signed(), joining.cluster.store, joining.settings
    joining.target.unlink()  # as an operator does who joins the node to another cluster
    first, clock = load_kubeconfig(joining.first), joining.cluster.clock
    made = Bootstrap(settings, first, joining.connect, clock, random.Random(1), joining.threads)
    credentials = await made.run(store, store.current_path)
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    remedy = f"Remove {store.current_path} and start the agent again: it bootstraps with {joining.first} then"
    assert caplog.messages[-1].endswith(f". {remedy}")
    assert remedy == remedy_for(settings, access, store)
    assert "" == remedy_for(replace(settings, bootstrap_kubeconfig=""), access, store)
    store.current_path.unlink()
    assert find_access(settings, clock).is_first


@pytest.mark.parametrize("what", ["request", "keep", "kubeconfig"])
async def test_a_disk_that_is_full_is_waited_for(
    what: str,
    autojump_clock: MockClock,
    joining: Joining,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    full = FullDisk(600)
    if what == "kubeconfig":
        monkeypatch.setattr(access_module, "save_kubeconfig", full.before(access_module.save_kubeconfig))
    else:
        monkeypatch.setattr(joining.cluster.store, what, full.before(getattr(joining.cluster.store, what)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.cluster.keep_signing)
        with trio.fail_after(700):
            await joining.run()
        nursery.cancel_scope.cancel()

    assert joining.target.exists()
    assert 10 <= full.refused <= 20
    assert "No space left on device" in caplog.text
    assert names(joining) == sorted(set(names(joining)))


async def test_an_authority_that_is_away_for_a_moment_is_a_try_that_failed(
    autojump_clock: MockClock, joining: Joining, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connect = joining.connect

    def torn(access: ClusterAccess) -> tuple[Api, Callable[[], None]]:
        if trio.current_time() < begun + 30:
            raise StartFailed("the kubeconfig's certificates cannot be used: /etc/ca.pem: No such file")
        return connect(access)

    monkeypatch.setattr(joining, "connect", torn)
    begun = trio.current_time()
    await joining.run_signed()

    assert "Bootstrap: the kubeconfig's certificates cannot be used: /etc/ca.pem" in caplog.text
    assert joining.target.exists()


async def test_an_authority_that_goes_once_the_certificate_is_there_is_waited_for(
    autojump_clock: MockClock, joining: Joining, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = tmp_path / "ca.pem"
    joining.first.write_text(
        FIRST.format(token="one").replace("cluster: {", f'cluster: {{certificate-authority: "{authority}", ', 1)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run_signed)
        await trio.sleep(20)
        assert joining.cluster.store.current_path.exists()
        assert f'Invalid value: "{authority}": No such file' in caplog.text
        CA().cert_pem.write_to_path(str(authority))

    assert not find_access(joining.settings, joining.cluster.clock).is_first


async def test_a_denied_request_is_reported_with_the_reason_and_recreated_with_another_key(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run)
        await trio.sleep(5)
        (denied,) = names(joining)
        joining.cluster.deny(denied)
        await trio.sleep(10)
        joining.cluster.sign_all()

    assert f"Bootstrap: certificate request {denied} was denied: Policy: not in this cluster" in caplog.text
    assert 2 == len(set(names(joining)))
    assert joining.target.exists()


async def test_a_cluster_that_denies_every_request_is_asked_ever_more_rarely_and_the_log_says_what_to_do(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    seen: dict[str, float] = {}
    with trio.move_on_after(3600):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joining.run)
            while True:
                for name in set(names(joining)) - seen.keys():
                    seen[name] = trio.current_time()
                    joining.cluster.deny(name)
                await trio.sleep(0.5)

    pauses = [after - before for before, after in pairwise(seen.values())]
    assert pauses[:6] == sorted(pauses[:6])
    assert min(pauses[6:]) >= 60
    assert f"see kubectl describe csr {next(iter(seen))}, fix the reason" in caplog.text


async def test_remedy_is_logged_while_undecided_and_at_the_timeout(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run)
        await trio.sleep(1)
        (first,) = names(joining)
        assert f"kubectl certificate approve {first}" in caplog.text
        await trio.sleep(15 * 60 + 10)
        assert (
            f"neither approved nor denied within 15 minutes; look at it with: kubectl describe csr {first}"
            in caplog.text
        )
        joining.cluster.sign_all()

    assert joining.target.exists()


async def test_a_request_that_is_gone_is_made_again(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    await joining.die_after(60)
    (gone,) = names(joining)
    joining.cluster.server.delete(SIGNING_REQUESTS, gone, "", None, "")
    await joining.run_signed()
    assert [gone] == names(joining)  # of the same key, since nobody had refused it

    joining.target.unlink()
    joining.cluster.clock.jump(2 * LIFE_SECONDS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run)
        await trio.sleep(5)
        (waiting,) = set(names(joining)) - {gone}
        joining.cluster.server.delete(SIGNING_REQUESTS, waiting, "", None, "")
        await trio.sleep(10)
        joining.cluster.sign_all()
    assert "was deleted before a decision" in caplog.text
    assert joining.target.exists()


async def test_expired_issued_certificate_is_not_used(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    await joining.die_after(60)
    (old,) = names(joining)
    joining.cluster.sign_all()
    joining.cluster.clock.jump(2 * LIFE_SECONDS)
    await joining.run_signed()

    held = joining.cluster.store.current()
    assert held is not None
    assert held.valid_at(joining.cluster.clock.now_ns())
    assert "is this machine's clock right?" in caplog.text
    assert 2 == len({old, *names(joining)})


async def test_a_certificate_of_another_key_is_not_taken(
    autojump_clock: MockClock, joining: Joining, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = CertificateFiles(tmp_path / "other", "kubelet-client", joining.cluster.clock)
    foreign = joining.cluster.authority.sign(other.request(node_subject("w1"), CLIENT_SIGNER).pem)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run)
        await trio.sleep(5)
        joining.cluster.give(names(joining)[0], foreign)
        await trio.sleep(10)
        joining.cluster.sign_all()

    assert "Bootstrap: the certificate belongs to another key" in caplog.text
    held = joining.cluster.store.current()
    assert held is not None
    assert 2 == len(set(names(joining)))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Forbidden("no"), "bind its group to the role system:node-bootstrapper"),
        (
            ApiFailure("etcd is away"),
            "API server answers with errors: requesting this node's certificate: etcd is away",
        ),
    ],
)
async def test_a_server_that_says_no_is_asked_again_and_what_helps_is_reported(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture, error: Exception, expected: str
) -> None:
    joining.cluster.api.plan("create", *[Fail(error)] * 3)
    await joining.run_signed()

    assert expected in caplog.text
    assert 1 == len(names(joining))


async def test_another_token_is_taken_without_a_restart_and_one_that_cannot_be_used_is_reported(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    joining.cluster.api.plan("create", *[Fail(Unauthorized("Unauthorized"))] * 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.run_signed)
        await trio.sleep(1)
        joining.hand_out("unusable")
        await trio.sleep(2)
        joining.first.write_text("clusters: {")
        await trio.sleep(5)
        joining.hand_out("two")

    assert ["one", "one", "one", "two"] == joining.tokens
    assert joining.hung_up == len(joining.tokens)
    assert "certificates cannot be used: torn" in caplog.text
    assert f"{joining.first}" in caplog.text


def rotation(
    joining: Joining, access: ClusterAccess, changed: list[float], is_known: Callable[[], bool] = lambda: False
) -> tuple[CertificateRotation, MemoryApi]:
    """The rotation of a node that lives, and its client: that of the certificate, which a server knows to its end."""
    settings, store, clock = joining.settings, joining.cluster.store, joining.cluster.clock
    api = MemoryApi(joining.cluster.server)
    again = way_back(settings, access, store, joining.connect, clock, random.Random(1), NO_THREADS)
    subject = node_subject("w1")
    made = CertificateRotation(
        api=api,
        store=store,
        subject=lambda: subject,
        signer=CLIENT_SIGNER,
        clock=clock,
        changed=lambda: changed.append(1),
        chance=random.Random(1),
        threads=NO_THREADS,
        afresh=again,
        is_known=is_known,
    )
    return made, api


async def test_an_outage_longer_than_the_certificates_life_leads_back_to_the_bootstrap(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    access = await joining.run_signed()
    changed: list[float] = []
    made, api = rotation(joining, access, changed)
    joining.hand_out("two")
    joining.target.unlink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.cluster.keep_signing)
        api.link.down()
        joining.cluster.api.link.down()
        await nursery.start(made.run)
        await trio.sleep(3 * LIFE_SECONDS)
        api.link.up()
        api.plan("create", *[Fail(Unauthorized("Unauthorized"))] * 1000)
        joining.cluster.api.link.up()
        await trio.sleep(120)
        nursery.cancel_scope.cancel()

    held = joining.cluster.store.current()
    assert held is not None
    assert held.valid_at(joining.cluster.clock.now_ns())
    assert [1] == changed
    assert {"one", "two"} == set(joining.tokens)
    assert not find_access(joining.settings, joining.cluster.clock).is_first
    assert 1 == caplog.text.count("bootstrapping again")


async def test_without_a_way_back_an_ended_certificate_is_reported_once_and_the_server_asked_on_slowly(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    access = await joining.run_signed()
    joining.settings = replace(joining.settings, bootstrap_kubeconfig="")
    made, api = rotation(joining, access, [])
    joining.cluster.clock.jump(2 * LIFE_SECONDS)
    api.plan("create", *[Fail(Unauthorized("Unauthorized"))] * 1000)
    caplog.clear()
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        await trio.sleep(24 * 3600)
        nursery.cancel_scope.cancel()

    assert ["start the agent with --bootstrap-kubeconfig"] == [
        record.getMessage().partition("without one: ")[2].partition(",")[0] for record in caplog.records
    ]
    assert 280 <= len(api.requests) <= 300


async def test_an_ended_certificate_of_a_node_that_is_known_by_another_is_asked_for_as_any(
    autojump_clock: MockClock, joining: Joining, caplog: pytest.LogCaptureFixture
) -> None:
    access = await joining.run_signed()
    changed: list[float] = []
    made, _ = rotation(joining, access, changed, is_known=lambda: True)
    joining.cluster.clock.jump(2 * LIFE_SECONDS)
    caplog.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining.cluster.keep_signing)
        await nursery.start(made.run)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert ([1], ["one"]) == (changed, joining.tokens)
    assert not caplog.text


async def test_expiry_of_an_unused_certificate_has_no_effect(
    autojump_clock: MockClock, joining: Joining, tmp_path: Path
) -> None:
    own = await joining.run_signed()
    assert own.key_pair is not None
    elsewhere = replace(own.key_pair, certificate=File(str(tmp_path / "other.pem")))

    def back(access: ClusterAccess) -> object:
        cluster = joining.cluster
        chance = random.Random(1)
        return way_back(joining.settings, access, cluster.store, joining.connect, cluster.clock, chance, NO_THREADS)

    assert back(own) is not None
    assert back(replace(own, key_pair=elsewhere)) is None
    assert back(replace(own, key_pair=None)) is None


@pytest.mark.parametrize("as_data", [False, True], ids=["files", "data"])
async def test_of_two_certificates_the_one_the_kubeconfig_names_counts(
    autojump_clock: MockClock, joining: Joining, tmp_path: Path, as_data: bool
) -> None:
    await joining.run_signed()
    pem = joining.cluster.store.current_path.read_bytes()
    other = tmp_path / "other.pem"
    other.write_bytes(pem)

    def name_the_other() -> None:
        how = ("-data", base64.b64encode(other.read_bytes()).decode()) if as_data else ("", str(other))
        shown = f'client-certificate{how[0]}: "{how[1]}", client-key{how[0]}: "{how[1]}"'
        joining.target.write_text(FIRST.format(token="x").replace("token: x", shown))

    name_the_other()
    joining.cluster.clock.jump(2 * LIFE_SECONDS)
    joining.cluster.store.current_path.unlink()
    await joining.run_signed()
    name_the_other()
    assert find_access(joining.settings, joining.cluster.clock).is_first  # it has ended, though ours has not

    other.write_bytes(joining.cluster.store.current_path.read_bytes())
    joining.cluster.store.current_path.write_bytes(pem)
    name_the_other()
    assert not find_access(joining.settings, joining.cluster.clock).is_first  # ours has ended, and nobody shows it


async def test_a_node_that_renews_its_certificate_shows_it_once_that_of_the_kubeconfig_has_ended(
    autojump_clock: MockClock, joining: Joining
) -> None:
    await joining.run_signed()
    data = base64.b64encode(joining.cluster.store.current_path.read_bytes()).decode()
    shown = f"client-certificate-data: {data}, client-key-data: {data}"
    joining.cluster.clock.jump(LIFE_SECONDS / 2)
    joining.cluster.store.current_path.unlink()
    await joining.run_signed()
    joining.target.write_text(FIRST.format(token="x").replace("token: x", shown))
    rotates = msgspec.structs.replace(joining.settings.configuration, rotate_certificates=True)
    effective = replace(joining.settings.effective, configuration=rotates)
    joining.settings = replace(joining.settings, effective=effective)

    joining.cluster.clock.jump(LIFE_SECONDS * 3 / 4)
    clock, store = joining.cluster.clock, joining.cluster.store
    found = find_access(joining.settings, clock)
    assert not found.is_first
    assert (str(store.current_path), store.current()) == shown_certificate(found.access, store, clock)
    credentials = Credentials(found.access, clock, {})
    assert credentials.certificate == store.current()

    joining.cluster.clock.jump(LIFE_SECONDS / 4)
    assert find_access(joining.settings, clock).is_first  # both have ended


@pytest.mark.parametrize("problem", ["gone", "ended", "torn"])
async def test_kubeconfig_with_an_unusable_certificate_is_recreated(
    autojump_clock: MockClock, joining: Joining, problem: str
) -> None:
    await joining.run_signed()
    match problem:
        case "gone":
            joining.cluster.store.current_path.unlink()
        case "ended":
            joining.cluster.clock.jump(LIFE_SECONDS)
        case _:
            joining.cluster.store.current_path.resolve().write_text("torn")

    assert find_access(joining.settings, joining.cluster.clock).is_first
    await joining.run_signed()
    assert not find_access(joining.settings, joining.cluster.clock).is_first
    assert 2 == len(names(joining))


async def test_a_clock_that_is_behind_at_boot_loses_no_certificate(autojump_clock: MockClock, joining: Joining) -> None:
    access = await joining.run_signed()
    joining.cluster.clock.jump(-3 * LIFE_SECONDS)
    assert Found(access) == find_access(joining.settings, joining.cluster.clock)
    joining.target.unlink()
    with trio.fail_after(1):
        await joining.run()

    assert 1 == len(names(joining))


async def test_a_certificate_that_had_expired_by_a_clock_ahead_is_used_once_the_clock_is_set(
    autojump_clock: MockClock, joining: Joining
) -> None:
    await joining.run_signed()
    joining.cluster.clock.jump(3 * LIFE_SECONDS)
    joining.cluster.api.plan("create", *[Fail(Unauthorized("token expired"))] * 1000)
    with trio.fail_after(420):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joining.run)
            await trio.sleep(300)
            assert find_access(joining.settings, joining.cluster.clock).is_first
            joining.cluster.clock.jump(-3 * LIFE_SECONDS)

    assert not find_access(joining.settings, joining.cluster.clock).is_first
    assert 1 == len(names(joining))


async def test_foreign_kubeconfig_is_not_overwritten_while_its_certificate_is_missing(
    autojump_clock: MockClock, joining: Joining, tmp_path: Path
) -> None:
    away = tmp_path / "operators.pem"
    shown = f'client-certificate: "{away}", client-key: "{away}"'
    joining.target.write_text(FIRST.format(token="x").replace("token: x", shown))
    with pytest.raises(StartFailed, match=r'client-certificate\]: Invalid value: ".*operators.pem": No such file'):
        find_access(joining.settings, joining.cluster.clock)

    await joining.run_signed()  # only to have a certificate
    away.write_bytes(joining.cluster.store.current_path.read_bytes())
    joining.target.write_text(FIRST.format(token="x").replace("token: x", shown))
    assert not find_access(joining.settings, joining.cluster.clock).is_first
