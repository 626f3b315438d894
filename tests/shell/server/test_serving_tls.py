"""TLS before the node's API: certificates that change, whom it believes, what it speaks, clients that do not."""

from __future__ import annotations

import gc
import logging
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest
import trio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from trio.testing import MockClock, memory_stream_pair

from shell.localkit import pod
from shell.nodeapikit import Bench, rules
from trikubelet.httpd.messages import Upgrade
from trikubelet.httpd.server import HttpLimits, serve_http
from trikubelet.httpd.tls import NoHandshake, TlsListener, let_go, shake_hands
from trikubelet.httpd.tls_records import RECORD_BYTES_MAX, AllRecords
from trikubelet.kit.wide_socket import STEP_BYTES
from trikubelet.server.serving_tls import ServingTls, TlsFiles, TlsRules, TlsUnusable

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.httpd.messages import Accept, Request
    from trikubelet.kit.wide_socket import WideSocket

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

OPEN = rules("AlwaysAllow")
LOOK = 1.5
"""Longer than a file is believed without another look."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def shown(bench: Bench) -> bytes:
    """The certificate a new connection is shown."""
    stream = await connected(bench)
    certificate = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    assert isinstance(certificate, bytes)
    return certificate


async def connected(bench: Bench, context: ssl.SSLContext | None = None) -> trio.SSLStream[trio.SocketStream]:
    """A client's end of a connection after the handshake."""
    plain = await trio.open_tcp_stream("127.0.0.1", bench.port)
    stream = trio.SSLStream(plain, context or bench.trust(), server_hostname="127.0.0.1", https_compatible=True)
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def test_a_certificate_that_was_renewed_is_shown_by_the_next_connection(
    bench: Bench, mock_clock: MockClock
) -> None:
    async with bench.serving(OPEN), bench.client(user="ann") as client:
        first = await shown(bench)
        assert HTTPStatus.OK == (await client.get("/pods")).status_code
        bench.renew()
        mock_clock.jump(LOOK)
        second = await shown(bench)

        assert first != second
        # The authority is the same, so a connection from before goes on.
        assert HTTPStatus.OK == (await client.get("/pods")).status_code
        assert 1 == len(client._transport._pool.connections)


async def test_connection_verified_by_a_replaced_authority_is_closed(bench: Bench, mock_clock: MockClock) -> None:
    other = trustme.CA()
    async with bench.serving(OPEN):
        old = await connected(bench, bench.trust(bench.authority.issue_cert("c.test", common_name="ann")))
        await old.send_all(REQUEST)
        assert (await old.receive_some()).startswith(b"HTTP/1.1 200 ")
        bench.authority_path.write_bytes(other.cert_pem.bytes())
        mock_clock.jump(LOOK)
        await old.send_all(REQUEST)
        assert b"" == await ending(old)
        await trio.aclose_forcefully(old)
        async with bench.client(user="bob", of=other) as client:
            assert HTTPStatus.OK == (await client.get("/pods")).status_code
        async with bench.client(user="ann") as client:
            with pytest.raises(httpx.TransportError):
                await client.get("/pods")


REQUEST = b"GET /pods HTTP/1.1\r\nhost: n\r\n\r\n"


async def ending(stream: trio.abc.ReceiveStream) -> bytes:
    """Return the bytes before the end."""
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""


async def test_files_that_cannot_be_used_leave_what_was_before_and_are_named_once(
    bench: Bench, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.serving(OPEN):
        first = await shown(bench)
        for damage in (b"torn", b""):
            bench.pair_path.write_bytes(damage)
            mock_clock.jump(LOOK)
            assert [first] * 2 == [await shown(bench) for _ in range(2)]
        bench.pair_path.unlink()
        mock_clock.jump(LOOK)
        assert first == await shown(bench)
        bench.renew()
        mock_clock.jump(LOOK)
        assert first != await shown(bench)

    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) in (2, 3), said  # an empty file may be the same problem as a torn one
    assert all("keeping the previous ones" in one for one in said)
    assert f"{bench.pair_path}: No such file or directory" in said[-1]


async def test_clients_are_served_once_there_is_a_certificate(bench: Bench, mock_clock: MockClock) -> None:
    pair = bench.pair_path.read_bytes()
    bench.pair_path.unlink()
    async with bench.serving(OPEN):
        with pytest.raises((trio.BrokenResourceError, OSError)):
            await connected(bench)
        bench.pair_path.write_bytes(pair)
        mock_clock.jump(LOOK)
        await shown(bench)


async def test_a_key_with_a_password_is_not_asked_for_at_the_terminal(bench: Bench) -> None:
    made = bench.authority.issue_cert("127.0.0.1")
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    bench.pair_path.write_bytes(locked + made.cert_chain_pems[0].bytes())

    with pytest.raises(TlsUnusable, match=r"pair\.pem: .+"):
        ServingTls(TlsFiles(str(bench.pair_path), str(bench.pair_path)), TlsRules()).load()


async def test_certificate_and_key_may_be_two_files_and_must_belong_together(bench: Bench) -> None:
    one, other = bench.authority.issue_cert("a.test"), bench.authority.issue_cert("a.test")
    certificate, key = bench.directory / "tls.crt", bench.directory / "tls.key"
    certificate.write_bytes(one.cert_chain_pems[0].bytes())
    key.write_bytes(one.private_key_pem.bytes())
    ServingTls(TlsFiles(str(certificate), str(key)), TlsRules()).load()
    key.write_bytes(other.private_key_pem.bytes())

    with pytest.raises(TlsUnusable, match=r"/tls\.key: the certificate belongs to another key"):
        ServingTls(TlsFiles(str(certificate), str(key)), TlsRules()).load()


@pytest.mark.parametrize("which", ["tls.crt", "tls.key"])
@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"rubbish", "there is no (certificate|key) in it")]
)
async def test_of_two_files_the_one_that_cannot_be_used_is_named(
    bench: Bench, which: str, content: bytes | None, why: str
) -> None:
    made = bench.authority.issue_cert("a.test")
    certificate, key = bench.directory / "tls.crt", bench.directory / "tls.key"
    certificate.write_bytes(made.cert_chain_pems[0].bytes())
    key.write_bytes(made.private_key_pem.bytes())
    if content is None:
        (bench.directory / which).unlink()
    else:
        (bench.directory / which).write_bytes(content)

    with pytest.raises(TlsUnusable, match=rf"^[^ ]*/{which}: {why}"):
        ServingTls(TlsFiles(str(certificate), str(key)), TlsRules()).load()


@pytest.mark.parametrize("content", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
async def test_an_authority_that_is_none_is_refused(bench: Bench, content: bytes) -> None:
    bench.authority_path.write_bytes(content)
    files = TlsFiles(str(bench.pair_path), str(bench.pair_path), str(bench.authority_path))

    with pytest.raises(TlsUnusable, match=r"ca\.crt: .+"):
        ServingTls(files, TlsRules()).load()


# ---- what is spoken ----


@pytest.mark.parametrize(
    ("spoken", "rules_", "client_max"),
    [
        ("TLSv1.3", TlsRules(), None),
        ("TLSv1.2", TlsRules(), ssl.TLSVersion.TLSv1_2),
        ("TLSv1.2", TlsRules("VersionTLS10"), ssl.TLSVersion.TLSv1_2),
        ("TLSv1.3", TlsRules("VersionTLS13"), None),
        (None, TlsRules("VersionTLS13"), ssl.TLSVersion.TLSv1_2),
        (None, TlsRules(suites=["TLS_AES_128_GCM_SHA256"]), ssl.TLSVersion.TLSv1_2),
    ],
)
async def test_the_version_is_at_least_the_one_asked_for(
    bench: Bench, spoken: str | None, rules_: TlsRules, client_max: ssl.TLSVersion | None
) -> None:
    bench.rules = rules_
    context = bench.trust()
    if client_max is not None:
        context.maximum_version = client_max
    async with bench.serving(OPEN):
        if spoken is None:
            with pytest.raises((trio.BrokenResourceError, OSError)):
                await connected(bench, context)
            return
        stream = await connected(bench, context)
        assert spoken == stream.version()
        await trio.aclose_forcefully(stream)


async def test_of_suites_only_those_asked_for_are_spoken(bench: Bench) -> None:
    bench.rules = TlsRules(suites=["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])
    context, other = bench.trust(), bench.trust()
    context.maximum_version = other.maximum_version = ssl.TLSVersion.TLSv1_2
    other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    async with bench.serving(OPEN):
        stream = await connected(bench, context)
        assert "ECDHE-ECDSA-AES256-GCM-SHA384" == stream.cipher()[0]
        await trio.aclose_forcefully(stream)
        with pytest.raises((trio.BrokenResourceError, OSError)):
            await connected(bench, other)


@pytest.mark.parametrize("curves", [(24,), (24, 23), (99999, 24, 29)])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_of_curves_the_first_there_is_is_spoken(
    curves: tuple[int, ...], version: ssl.TLSVersion, bench: Bench
) -> None:
    bench.rules = TlsRules(curves=curves)
    async with bench.serving(OPEN):
        context = bench.trust()
        context.maximum_version = version
        await trio.aclose_forcefully(await connected(bench, context))
        for other in ("prime256v1", "X25519"):
            context.set_ecdh_curve(other)
            with pytest.raises((trio.BrokenResourceError, OSError)):
                await connected(bench, context)


async def test_unknown_curves_are_rejected(bench: Bench) -> None:
    files = TlsFiles(str(bench.pair_path), str(bench.pair_path))
    with pytest.raises(TlsUnusable, match="tlsCurvePreferences 1, 99999: OpenSSL has none of them"):
        ServingTls(files, TlsRules(curves=(1, 99999))).load()


# ---- clients that behave badly ----


@pytest.fixture
async def context(bench: Bench) -> ssl.SSLContext:
    tls = ServingTls(TlsFiles(str(bench.pair_path), str(bench.pair_path), str(bench.authority_path)), TlsRules())
    found = tls.context()
    assert found is not None
    return found


async def test_connections_read_all_records_in_one_step(context: ssl.SSLContext) -> None:
    assert AllRecords is context.sslobject_class


async def test_renegotiation_is_rejected(context: ssl.SSLContext) -> None:
    assert ssl.OP_NO_RENEGOTIATION in context.options, "each time costs us ten times what it costs the client"


async def test_a_client_that_says_nothing_is_given_up(autojump_clock: MockClock, context: ssl.SSLContext) -> None:
    near, far = memory_stream_pair()
    server = trio.SSLStream(far, context, server_side=True, https_compatible=True)

    with pytest.raises(NoHandshake, match="not within 10 s"):
        await shake_hands(server, 10.0)
    assert 10 == trio.current_time()
    await near.aclose()


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"", b"\x16\x03\x01\x00\x05hello", b"\x00\x00\x00\x00"])
async def test_what_is_no_tls_ends_that_connection_alone(
    autojump_clock: MockClock, context: ssl.SSLContext, words: bytes
) -> None:
    near, far = memory_stream_pair()
    server = trio.SSLStream(far, context, server_side=True, https_compatible=True)
    await near.send_all(words)
    await near.send_stream.aclose()

    with pytest.raises(NoHandshake):
        await shake_hands(server, 10.0)


async def test_a_trio_that_keeps_its_handshake_elsewhere_costs_memory_and_no_server(context: ssl.SSLContext) -> None:
    _, far = memory_stream_pair()
    server = trio.SSLStream(far, context, server_side=True, https_compatible=True)
    del server._handshook

    await let_go(server)

    with pytest.raises(trio.ClosedResourceError):
        await far.send_all(b"x")


class Renamed:
    """A stream of a Trio that keeps what is to be sent elsewhere; its handshake fails."""

    def __init__(self, below: trio.abc.Stream) -> None:
        self.transport_stream = below

    async def do_handshake(self) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError("no TLS")


async def test_a_trio_that_keeps_its_words_elsewhere_costs_the_alert_and_no_server() -> None:
    _, far = memory_stream_pair()

    with pytest.raises(NoHandshake, match="no TLS"):
        await shake_hands(Renamed(far), 10.0)  # type: ignore[arg-type]  # Trio lets nobody derive from its own


async def test_beyond_the_bound_silent_strangers_make_room_and_where_there_are_none_others_are_closed(
    bench: Bench, mock_clock: MockClock
) -> None:
    bench.limits = HttpLimits(connections_max=2)
    bench.allow("ann", "metrics")
    ann = bench.trust(bench.authority.issue_cert("c.test", common_name="ann"))
    asks = b"GET /metrics/probes HTTP/1.1\r\nhost: n\r\n\r\n"
    async with bench.serving(OPEN):
        silent = [await connected(bench) for _ in range(2)]
        known = []
        for stranger in silent:
            known.append(await connected(bench, ann))
            await known[-1].send_all(asks)
            assert (await known[-1].receive_some()).startswith(b"HTTP/1.1 200 ")
            with suppress(trio.BrokenResourceError):
                assert b"" == await stranger.receive_some()
        with pytest.raises((trio.BrokenResourceError, OSError)):
            await connected(bench)
        await known[0].send_all(asks)
        assert (await known[0].receive_some()).startswith(b"HTTP/1.1 200 ")
        for stream in (*silent, *known):
            await trio.aclose_forcefully(stream)


async def test_a_connection_is_read_by_the_record_until_it_is_a_stream(bench: Bench) -> None:
    reading: list[int] = []

    async def handler(_: Request) -> Upgrade:
        async def converse(accept: Accept) -> None:
            reading.append(accepted[0].step_bytes)
            await accept({"upgrade": "shout", "connection": "upgrade"})
            reading.append(accepted[0].step_bytes)

        return Upgrade(converse)

    accepted: list[WideSocket] = []

    def note(stream: trio.abc.Stream) -> bool:
        assert isinstance(stream, trio.SSLStream)
        accepted.append(stream.transport_stream)
        return True

    tls = ServingTls(TlsFiles(str(bench.pair_path), str(bench.pair_path)), TlsRules())
    tls.load()
    (port,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    bench.port = port.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, handler, [TlsListener(port, tls.context)], goes_on=note))
        client = await connected(bench)
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\nupgrade: shout\r\nconnection: upgrade\r\n\r\n")
        assert (await client.receive_some()).startswith(b"HTTP/1.1 101 ")
        await trio.aclose_forcefully(client)
        nursery.cancel_scope.cancel()

    assert [RECORD_BYTES_MAX, STEP_BYTES] == reading


async def test_a_megabyte_of_headers_is_read_and_no_more(bench: Bench, mock_clock: MockClock) -> None:
    async with bench.serving(OPEN), bench.client() as client:
        assert 401 == (await client.get("/pods", headers={"x": "y" * 1_000_000})).status_code
        assert 431 == (await client.get("/pods", headers={"x": "y" * 1_100_000})).status_code


async def test_a_client_that_goes_while_it_follows_a_log_gives_its_place_back(bench: Bench) -> None:
    (bench.directory / "0.log").write_text("2026-11-21T11:58:00Z stdout F one\n")
    bench.view.shown, bench.view.over = [pod()], False
    bench.view.logs = {("default", "web-n1", "app", False): str(bench.directory / "0.log")}
    bench.limits = HttpLimits(connections_max=1)
    async with bench.serving(OPEN):
        ann = bench.trust(bench.authority.issue_cert("c.test", common_name="ann"))
        follower = await connected(bench, ann)
        await follower.send_all(b"GET /containerLogs/default/web-n1/app?follow=true HTTP/1.1\r\nhost: n\r\n\r\n")
        got = bytearray()
        while b"one\n" not in got:
            got += await follower.receive_some()
        with pytest.raises((trio.BrokenResourceError, OSError)):
            await connected(bench)
        await trio.aclose_forcefully(follower)
        with trio.fail_after(60):
            await until_served(bench)


def held() -> int:
    """Return the number of the server's streams."""
    return sum(type(one) is trio.SSLStream and one.server_side for one in gc.get_objects())


async def test_a_connection_that_has_ended_is_freed_though_the_collector_never_looks(bench: Bench) -> None:
    async with bench.serving(OPEN):
        gc.collect()
        gc.disable()  # as for what ``kit.heap`` has set aside
        try:
            for said in (REQUEST, b"\x01\r\n\r\n", b"GET /po", b"HEAD x HTTP/1.1\r\nhost: n\r\n\r\n"):
                for _ in range(3):
                    stream = await connected(bench)
                    await stream.send_all(said)
                    await stream.transport_stream.send_eof()
                    with suppress(trio.BrokenResourceError):
                        async for _ in stream:
                            pass
                    await trio.aclose_forcefully(stream)
                async with await trio.open_tcp_stream("127.0.0.1", bench.port) as plain:
                    await plain.send_all(said)
                    await ending(plain)
            with trio.fail_after(60):
                while held() > 1:  # whoever accepts has the last one at hand
                    await trio.lowlevel.checkpoint()
        finally:
            gc.enable()


async def until_served(bench: Bench) -> None:
    """Try until there is room."""
    while True:
        try:
            stream = await connected(bench)
        except (trio.BrokenResourceError, OSError):
            await trio.lowlevel.checkpoint()
        else:
            await trio.aclose_forcefully(stream)
            return


# ---- what clients show ----

NOW = datetime.now(UTC)
"""Real: OpenSSL looks at the machine's own clock."""


def certificate(bench: Bench, kind: str) -> bytes:
    """A client's certificate with its key, good but for what ``kind`` says."""
    authority = trustme.CA() if kind == "foreign" else bench.authority
    signer = load_pem_private_key(authority.private_key_pem.bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    issuer = name if kind == "its own" else x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=NOW + timedelta(days=1 if kind == "early" else -2),
        not_valid_after=NOW + timedelta(days=-1 if kind == "expired" else 2),
    )
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if kind == "a server's" else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    made = builder.sign(key if kind == "its own" else signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    return made + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_does_not_hold_ends_tls_and_none_is_asked_for_another_proof(
    bench: Bench, version: ssl.TLSVersion
) -> None:
    bench.view.shown = [pod()]

    async def told(kind: str) -> bytes:
        context = bench.trust()
        context.maximum_version = version
        if kind:
            (bench.directory / "shown.pem").write_bytes(certificate(bench, kind))
            context.load_cert_chain(bench.directory / "shown.pem")
        try:
            stream = await connected(bench, context)  # in TLS 1.3 it ends before the client is judged
            await stream.send_all(REQUEST)
            answer = await ending(stream)
            await trio.aclose_forcefully(stream)
        except (trio.BrokenResourceError, OSError):
            return b""
        return answer.partition(b"\r\n")[0]

    async with bench.serving(OPEN):
        for kind in ("foreign", "expired", "early", "a server's", "its own"):
            assert (kind, b"") == (kind, await told(kind))
        assert [b"HTTP/1.1 200 OK", b"HTTP/1.1 401 Unauthorized"] == [await told("good"), await told("")]


def hello(version: int, suites: bytes) -> bytes:
    """The first words of a client that speaks no TLS newer than ``version`` (RFC 5246, 7.4.1.2)."""
    said = version.to_bytes(2, "big") + bytes(32) + b"\0" + len(suites).to_bytes(2, "big") + suites + b"\1\0"
    message = b"\1" + len(said).to_bytes(3, "big") + said
    return b"\x16\3\1" + len(message).to_bytes(2, "big") + message


HANDSHAKE_FAILURE, PROTOCOL_VERSION = 40, 70
ECDSA_AES_CBC_SHA, NULL_SHA, ANONYMOUS_AES, RC4 = b"\xc0\x09", b"\x00\x02", b"\xc0\x18", b"\xc0\x07"


@pytest.mark.parametrize(
    ("alert", "said"),
    [
        (HANDSHAKE_FAILURE, hello(0x0300, ECDSA_AES_CBC_SHA)),
        (PROTOCOL_VERSION, hello(0x0301, ECDSA_AES_CBC_SHA)),
        (PROTOCOL_VERSION, hello(0x0302, ECDSA_AES_CBC_SHA)),
        (HANDSHAKE_FAILURE, hello(0x0303, NULL_SHA)),
        (HANDSHAKE_FAILURE, hello(0x0303, ANONYMOUS_AES)),
        (HANDSHAKE_FAILURE, hello(0x0303, RC4)),
    ],
)
async def test_what_is_too_old_or_too_weak_is_refused_by_the_server_itself(
    bench: Bench, alert: int, said: bytes
) -> None:
    async with bench.serving(OPEN), await trio.open_tcp_stream("127.0.0.1", bench.port) as stream:
        await stream.send_all(said)
        answer = bytes(await stream.receive_some())

        assert (0x15, 2, alert) == (answer[0], answer[5], answer[6])


@pytest.mark.parametrize("name", ["127.0.0.1", "node.example", "x" * 63 + ".example", None])
async def test_whatever_name_a_client_asks_for_it_is_shown_the_nodes_certificate(
    bench: Bench, name: str | None
) -> None:
    context = bench.trust()
    context.check_hostname = False
    async with bench.serving(OPEN):
        plain = await trio.open_tcp_stream("127.0.0.1", bench.port)
        async with trio.SSLStream(plain, context, server_hostname=name, https_compatible=True) as stream:
            await stream.do_handshake()
            assert await shown(bench) == stream.getpeercert(binary_form=True)
