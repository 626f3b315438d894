"""A whole agent on the fake runtime and its API: whether there is one, with which certificate, on which ports."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trio
import trustme
import yaml

from shell.nobody import NOBODY
from shell.nodeapikit import Bench
from shell.portkit import free_port
from trikubelet.app import compose, node_api
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trikubelet.model.certificates import Subject
    from trikubelet.ports import Clock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

AT_HOME = {"webhook": {"enabled": False}}


def settings(place: Path, *words: str, **configuration: Any) -> Settings:
    """Return the settings of an agent in a directory; ``configuration`` are fields of its file."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (place / "config.yaml").write_text(yaml.safe_dump(head | configuration))
    (place / "manifests").mkdir(exist_ok=True)
    own = [f"--root-dir={place}/root", f"--config={place}/config.yaml", f"--pod-manifest-path={place}/manifests"]
    own += ["--container-runtime-endpoint=fake:", "--healthz-port=0", "--hostname-override=n1"]
    return load_settings(parse_agent_flags([*own, *words]), Surroundings(os.geteuid(), os.environ, "n1"))


def faults(place: Path, *words: str, **configuration: Any) -> list[str]:
    with pytest.raises(StartFailed) as failed:
        settings(place, *words, **configuration)
    return str(failed.value).split("\n")


@asynccontextmanager
async def agent(of: Settings) -> AsyncIterator[compose.Agent]:
    async with trio.open_nursery() as nursery:
        with trio.fail_after(120):
            yield await nursery.start(compose.run, of, lambda: None, compose.find_access(of))
        nursery.cancel_scope.cancel()


def at_home(place: Path, authority: trustme.CA, **more: Any) -> dict[str, Any]:
    """The configuration of a node without a cluster whose API is for those of one authority."""
    (place / "ca.crt").write_bytes(authority.cert_pem.bytes())
    return {
        "address": "127.0.0.1",
        "port": free_port(),
        "authentication": AT_HOME | {"x509": {"clientCAFile": "ca.crt"}},
        "authorization": {"mode": "AlwaysAllow"},
        **more,
    }


def client_of(port: int, authority: trustme.CA, node: Path | None = None) -> httpx.AsyncClient:
    """An admin; ``node``: the certificate the node must show, or any."""
    context = ssl.create_default_context(cafile=node)
    context.check_hostname = False
    if node is None:
        context.verify_mode = ssl.CERT_NONE
    authority.issue_cert("client.test", common_name="admin").configure_cert(context)
    return httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=context, trust_env=False)


async def test_curves_that_are_asked_for_and_not_spoken_are_named(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(settings(place, **at_home(place, trustme.CA(), tlsCurvePreferences=[24, 29, 99999]))):
        pass

    expected = "tlsCurvePreferences: Python's TLS supports one curve: using 24, not 29, 99999"
    assert [expected] == [line for line in caplog.messages if line.startswith("tlsCurvePreferences")]


async def test_while_a_certificate_is_made_the_loop_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = trio.Event(), threading.Event()
    at_once = node_api.keep_self_signed

    def slow(directory: Path, subject: Subject, clock: Clock) -> tuple[Path, Path]:
        trio.from_thread.run_sync(begun.set)
        assert may_end.wait(20)
        return at_once(directory, subject, clock)

    async def let_it_end() -> None:
        await begun.wait()
        may_end.set()

    monkeypatch.setattr(node_api, "keep_self_signed", slow)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_it_end)
            async with agent(settings(place, **at_home(place, trustme.CA()))):
                pass
    finally:
        may_end.set()


async def test_a_measurement_is_believed_for_the_time_of_the_configuration(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of the disks on virtual time show its effect."""
    believed = []

    class Kept(compose.Disks):
        def __init__(self, **parts: Any) -> None:
            super().__init__(**parts)
            believed.append(parts["believed_seconds"])

    monkeypatch.setattr(compose, "Disks", Kept)
    async with agent(settings(place, "--standalone", volumeStatsAggPeriod="7s")):
        pass

    assert [7.0] == believed


async def test_credentials_keep_a_connection_only_on_the_authenticated_port(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of the connection limit on virtual time show its effect."""
    limits = {}

    class Kept(node_api.ConnectionLimit):
        def __init__(self, what: str, connections_max: int, *, needs_proof: bool = False) -> None:
            super().__init__(what, connections_max, needs_proof=needs_proof)
            limits[what] = needs_proof

    monkeypatch.setattr(node_api, "ConnectionLimit", Kept)
    async with agent(settings(place, **at_home(place, trustme.CA(), readOnlyPort=free_port()))):
        pass

    assert {"the node's API": True, "the node's read-only API": False} == limits


@pytest.mark.slow
async def test_node_without_a_cluster_serves_the_configured_clients(place: Path) -> None:
    authority = trustme.CA()
    asked = at_home(place, authority, readOnlyPort=free_port())
    made = settings(place, **asked)
    pki = place / "root" / "pki"
    shown = []
    for _ in range(2):
        async with agent(made), client_of(made.api_port, authority) as client:
            assert "PodList" == (await client.get("/pods")).json()["kind"]
            assert asked["port"] == (await client.get("/configz")).json()["kubeletconfig"]["port"]
            assert 0 == len((await client.get("/runningpods/")).json()["items"])
            assert "kubelet_running_pods 0" in (await client.get("/metrics")).text
            async with client_of(made.api_port, authority, pki / "kubelet.crt") as strict:
                assert 200 == (await strict.get("/pods")).status_code
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{asked['readOnlyPort']}") as anybody:
                assert [200, 404] == [(await anybody.get(path)).status_code for path in ("/pods", "/configz")]
        shown.append((pki / "kubelet.crt").read_bytes())
        assert [0o644, 0o600] == [(pki / f"kubelet.{end}").stat().st_mode & 0o777 for end in ("crt", "key")]
    assert shown[0] == shown[1]


@pytest.mark.slow
async def test_member_serves_with_its_certificate_and_rejects_tokens_while_its_cluster_is_away(
    place: Path,
) -> None:
    bench = Bench(place)
    (place / "kubeconfig").write_text(NOBODY)
    files = {"tlsCertFile": "pair.pem", "tlsPrivateKeyFile": "pair.pem"}
    authentication = {"x509": {"clientCAFile": "ca.crt"}}
    made = settings(place, f"--kubeconfig={place}/kubeconfig", port=free_port(), authentication=authentication, **files)
    bench.port = made.api_port
    async with (
        agent(made),
        bench.client() as nobody,
        bench.client(token="t") as holder,
        bench.client(user="ann") as ann,
    ):
        assert [401, 401, 500] == [(await one.get("/pods")).status_code for one in (nobody, holder, ann)]
    assert not (place / "root/pki/kubelet.crt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("field", ["port", "readOnlyPort"])
async def test_a_port_that_is_taken_ends_the_start_with_one_line(place: Path, field: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        made = settings(place, **at_home(place, trustme.CA()) | {field: port})
        wanted = pytest.RaisesExc(
            StartFailed, match=rf"^cannot serve .* on 127.0.0.1 port {port}: .*\(set {field}, .*\)$"
        )
        with pytest.RaisesGroup(wanted, flatten_subgroups=True):
            async with agent(made):
                pass


@pytest.mark.parametrize(
    ("what", "content"), [("tlsCertFile", "torn"), ("clientCAFile", "torn"), ("clientCAFile", None)]
)
async def test_certificates_that_cannot_be_used_end_the_start(place: Path, what: str, content: str | None) -> None:
    asked = at_home(place, trustme.CA())
    if what == "tlsCertFile":
        asked |= {"tlsCertFile": "bad", "tlsPrivateKeyFile": "bad"}
    else:
        asked |= {"authentication": AT_HOME | {"x509": {"clientCAFile": "bad"}}}
    if content is not None:
        (place / "bad").write_text(content)
    made = settings(place, **asked)

    with pytest.RaisesGroup(
        pytest.RaisesExc(StartFailed, match="cannot serve the node's API over TLS: .+"), flatten_subgroups=True
    ):
        async with agent(made):
            pass


# ---- whether there is one ----


def test_alone_and_by_default_there_is_none_and_that_is_said(place: Path) -> None:
    made = settings(place)

    assert 0 == made.api_port
    assert any("is not served, as there is no cluster" in note for note in made.notes)


def test_in_a_cluster_there_is_one_unless_it_is_not_wanted(place: Path) -> None:
    assert 10250 == settings(place, "--kubeconfig=/k").api_port
    off = settings(place, "--kubeconfig=/k", enableServer=False)
    assert (0, False) == (off.api_port, any("not served" in note for note in off.notes))


def test_settings_that_need_an_api_server_are_rejected_without_one(place: Path) -> None:
    path = place / "config.yaml"
    assert [
        f"{path}:1: authentication.webhook.enabled: it needs an API server for tokens "
        "(set it to false, or enableServer: false)",
        "the default: authorization.mode: it needs an API server for rights "
        "(set it to AlwaysAllow, or enableServer: false)",
    ] == [
        line.replace(":3:", ":1:").replace(":4:", ":1:")
        for line in faults(place, authentication={"webhook": {"enabled": True}})
    ]
    assert 1 == len(faults(place, authentication=AT_HOME, port=1))
    assert 1 == len(faults(place, authorization={"mode": "AlwaysAllow"}))
    assert (
        "serverTLSBootstrap"
        in faults(place, authentication=AT_HOME, authorization={"mode": "AlwaysAllow"}, serverTLSBootstrap=True)[0]
    )


def test_alone_with_every_question_answered_there_is_one(place: Path) -> None:
    made = settings(place, authentication=AT_HOME, authorization={"mode": "AlwaysAllow"}, port=1234)

    assert (1234, []) == (made.api_port, [note for note in made.notes if "not served" in note])


def test_read_only_port_works_without_an_api_server(place: Path) -> None:
    made = settings(place, readOnlyPort=10255)

    assert (0, 10255) == (made.api_port, made.configuration.read_only_port)
