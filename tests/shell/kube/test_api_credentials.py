"""What the API client shows: certificates and tokens that are renewed under it, plugins, impersonation, proxies."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import ssl
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from shell.kube.apikit import (
    FixedClock,
    access_to,
    asking,
    client_pem,
    serving,
    serving_certificate,
)
from shell.portkit import port_of_nobody
from shell.processkit import lives
from shell.threadkit import no_threads
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.httpd.messages import Request, Response
from trikubelet.httpd.messages import json as told
from trikubelet.kit import program
from trikubelet.kit.log_rate_limit import MINUTE
from trikubelet.kit.process_start import STARTS, StartedProcess
from trikubelet.kube import credentials as credentials_module
from trikubelet.kube import exec_plugin
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials, Headers
from trikubelet.kube.file_content import FILE_BYTES_MAX, KEPT_SECONDS_MAX, LOOK_SECONDS, FileContent
from trikubelet.kube.unauthorized_log import UnauthorizedLog
from trikubelet.model.api import NODES
from trikubelet.model.api_errors import ApiUnreachable, NothingToShow, Refused, Unauthorized
from trikubelet.model.certificates import Certificate
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import (
    ClusterAccess,
    ExecPlugin,
    File,
    Impersonation,
    KeyPair,
    Origin,
    OwnPair,
    Password,
    Server,
    Token,
    TokenFile,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock
    from trustme import CA

    from trikubelet.model.kubeconfig import Proof

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

V1 = "client.authentication.k8s.io/v1"


async def anything(_: Request) -> Response:
    return told({"metadata": {"name": "w"}})


@pytest.fixture
def certificates(authority: CA) -> ssl.SSLContext:
    return serving_certificate(authority, "127.0.0.1", "api.test")


async def shown(access: ClusterAccess) -> dict[str, str]:
    """The headers of a request that say who asks; several of one name are joined."""
    headers: dict[str, str] = {}
    for name, value in await Credentials(access, FixedClock(), {}).headers():
        key = name.decode()
        headers[key] = f"{headers[key]}, {value.decode()}" if key in headers else value.decode()
    return headers


@pytest.mark.parametrize(
    ("access", "wanted"),
    [
        (access_to("https://x"), {}),
        (access_to("https://x", proof=Token("t")), {"authorization": "Bearer t"}),
        (access_to("https://x", proof=Password("u", "p")), {"authorization": "Basic dTpw"}),
        (
            access_to(
                "https://x", impersonation=Impersonation("j", "7", ("a", "b"), (("acme.com/scope", ("x", "y")),))
            ),
            {
                "impersonate-user": "j",
                "impersonate-uid": "7",
                "impersonate-group": "a, b",
                "impersonate-extra-acme.com%2Fscope": "x, y",
            },
        ),
    ],
)
async def test_a_request_shows_what_the_kubeconfig_says(access: ClusterAccess, wanted: dict[str, str]) -> None:
    assert wanted == await shown(access)


# ---- certificates --------------------------------------------------------------------------------------------------


async def test_a_certificate_given_as_data_is_shown(authority: CA, certificates: ssl.SSLContext) -> None:
    pem = client_pem(authority, "system:node:a")
    async with (
        serving(certificates, anything) as server,
        asking(access_to(server.url, authority.cert_pem.bytes(), key_pair=KeyPair(pem, pem))) as client,
    ):
        await client.get(NODES, "w")

    assert ["system:node:a"] == server.callers


async def test_a_renewed_certificate_is_shown_by_the_next_request_on_a_new_connection(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path, mock_clock: MockClock
) -> None:
    file = tmp_path / "current.pem"
    file.write_bytes(client_pem(authority, "first"))
    pair = KeyPair(File(str(file)), File(str(file)))
    async with (
        serving(certificates, anything) as server,
        asking(access_to(server.url, authority.cert_pem.bytes(), key_pair=pair)) as client,
    ):
        await client.get(NODES, "w")
        (tmp_path / "next.pem").write_bytes(client_pem(authority, "second"))
        (tmp_path / "next.pem").replace(file)
        await client.get(NODES, "w")  # not looked at again within a second
        assert ["first"] == server.callers
        mock_clock.jump(LOOK_SECONDS)
        await client.get(NODES, "w")
        await client.get(NODES, "w")

    assert ["first", "second"] == server.callers


async def test_all_clients_give_up_their_connections_when_one_sees_a_new_certificate(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path
) -> None:
    file = tmp_path / "current.pem"
    file.write_bytes(client_pem(authority, "first"))
    pair = KeyPair(File(str(file)), File(str(file)))
    async with serving(certificates, anything) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), key_pair=pair)
        credentials = Credentials(access, FixedClock(), {})
        one, other = (ApiClient(credentials, "t") for _ in range(2))
        await one.get(NODES, "w")
        await other.get(NODES, "w")
        file.write_bytes(client_pem(authority, "second"))
        credentials.refresh()  # at once, though the file was looked at just now
        await other.get(NODES, "w")
        await one.get(NODES, "w")
        one.reset()
        other.reset()

    assert ["first", "first", "second", "second"] == server.callers


@pytest.mark.parametrize("as_data", [True, False], ids=["data", "files"])
async def test_the_certificate_a_node_renews_itself_is_shown_instead_of_the_kubeconfigs(
    as_data: bool, authority: CA, certificates: ssl.SSLContext, tmp_path: Path
) -> None:
    own, given, pem = tmp_path / "own.pem", tmp_path / "given.pem", client_pem(authority, "given")
    given.write_bytes(pem)
    pair = KeyPair(pem, pem) if as_data else KeyPair(File(str(given)), File(str(given)))
    async with serving(certificates, anything) as server:
        renews = {"key_pair": pair, "own": OwnPair(str(own), "mine")}
        credentials = Credentials(access_to(server.url, authority.cert_pem.bytes(), **renews), FixedClock(), {})
        client = ApiClient(credentials, "t")
        await client.get(NODES, "w")  # it asks for the first of its own with the one that is given
        for text in (b"torn", client_pem(authority, "another's"), client_pem(authority, "mine")):
            own.write_bytes(text)
            credentials.refresh()
            await client.get(NODES, "w")
        client.reset()
        again = ApiClient(Credentials(credentials.access, FixedClock(), {}), "t")  # as at the next start
        await again.get(NODES, "w")
        again.reset()

    assert ["given", "mine", "mine"] == list(dict.fromkeys(server.callers[:-1])) + server.callers[-1:]


async def test_files_of_a_kubeconfig_that_are_gone_are_missed_only_without_a_certificate_of_the_nodes_own(
    authority: CA, tmp_path: Path
) -> None:
    gone, own = File(str(tmp_path / "gone")), tmp_path / "own.pem"
    access = access_to("https://x", key_pair=KeyPair(gone, gone), own=OwnPair(str(own), "mine"))
    with pytest.raises(StartFailed, match="No such file"):
        Credentials(access, FixedClock(), {})

    own.write_bytes(client_pem(authority, "mine"))
    credentials = Credentials(access, FixedClock(), {})
    assert "mine" == (credentials.certificate.common_name if credentials.certificate else "")


@pytest.mark.parametrize(
    "proof",
    [
        Token("of the bootstrap"),
        Password("u", "p"),
        TokenFile("/nowhere/token"),
        ExecPlugin("client.authentication.k8s.io/v1", "/nowhere/plugin"),
    ],
    ids=lambda proof: type(proof).__name__,
)
async def test_a_node_that_shows_its_own_certificate_shows_and_needs_no_other_proof(
    proof: Proof, authority: CA, tmp_path: Path
) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(client_pem(authority, "mine"))
    access = access_to("https://x", proof=proof, impersonation=Impersonation("j"), own=OwnPair(str(own), "mine"))

    assert {} == await shown(access)


@pytest.mark.parametrize(
    ("expected", "shown"), [(True, "lasting"), (False, "ended"), (True, "a token"), (False, "nothing")]
)
def test_whether_what_is_shown_still_holds(expected: bool, shown: str, authority: CA) -> None:
    match shown:
        case "a token":
            access = access_to("https://x", proof=Token("t"))
        case "nothing":
            access = access_to("https://x")
        case _:
            dates = {"not_after": datetime(2026, 1, 1, tzinfo=UTC)} if shown == "ended" else {}
            pem = issued_pem(authority, **dates)
            access = access_to("https://x", key_pair=KeyPair(pem, pem))

    assert expected is Credentials(access, FixedClock(), {}).hold()


@pytest.mark.parametrize(
    ("expected", "name", "since", "has_own"),
    [
        (True, "system:node:w", 0, True),
        (False, "system:node:before", 0, True),
        (False, "system:node:w", -1, True),
        (True, "system:node:w", -1, False),  # the kubeconfig names the file that is renewed
    ],
)
def test_a_certificate_of_the_nodes_own_that_is_not_shown_is_not_used(
    expected: bool, name: str, since: int, has_own: bool, authority: CA, tmp_path: Path
) -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    pem = issued_pem(authority, not_before=begin, not_after=begin + timedelta(days=300))
    own = OwnPair(str(tmp_path / "own.pem"), "system:node:w") if has_own else None
    access = access_to("https://x", key_pair=KeyPair(pem, pem), own=own)
    own_begin = int((begin + timedelta(days=since)).timestamp()) * SECOND_NS
    held = Certificate(name, ("system:nodes",), own_begin, own_begin + 300 * 86400 * SECOND_NS)

    assert expected is Credentials(access, FixedClock(), {}).uses(held)


async def test_a_certificate_of_the_nodes_own_that_is_not_known_can_be_removed(
    authority: CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, pem = tmp_path / "own.pem", issued_pem(authority)
    own.write_bytes(pem)
    access = access_to("https://x", key_pair=KeyPair(pem, pem), origin=ORIGIN, own=OwnPair(str(own), "system:node:w"))
    credentials = Credentials(access, FixedClock(), {})
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    (told,) = caplog.messages
    assert f"of system:node:w ({own}), valid until" in told
    assert told.endswith(f"Remove {own}: then what /etc/k.conf names is shown")


@pytest.mark.parametrize("problem", ["half of it", "nothing", "rubbish", "gone"])
async def test_while_a_certificate_cannot_be_used_the_old_one_is(
    problem: str,
    authority: CA,
    certificates: ssl.SSLContext,
    tmp_path: Path,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    first, second = (authority.issue_cert(common_name=name) for name in ("first", "second"))

    def put(issued: Any) -> None:
        certificate.write_bytes(issued.cert_chain_pems[0].bytes())
        key.write_bytes(issued.private_key_pem.bytes())

    put(first)
    pair = KeyPair(File(str(certificate)), File(str(key)))
    async with (
        serving(certificates, anything) as server,
        asking(access_to(server.url, authority.cert_pem.bytes(), key_pair=pair)) as client,
    ):
        await client.get(NODES, "w")
        match problem:
            case "half of it":
                certificate.write_bytes(second.cert_chain_pems[0].bytes())
            case "gone":
                certificate.unlink()
            case _:
                certificate.write_text("" if problem == "nothing" else "-----BEGIN RUBBISH")
        for _ in range(3):
            mock_clock.jump(LOOK_SECONDS)
            client.reset()
            await client.get(NODES, "w")
        assert {"first"} == set(server.callers)
        put(second)
        mock_clock.jump(LOOK_SECONDS)
        await client.get(NODES, "w")

    assert "second" == server.callers[-1]
    assert 1 == caplog.text.count("Cannot reload the client credentials")


async def test_earlier_credentials_stay_in_use_while_a_disk_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def hang(*_: object) -> bytes:
        asked.append(1)
        is_back.wait()
        return b"two"

    asked: list[int] = []
    shown: list[Headers] = []
    is_back = threading.Event()
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})
    monkeypatch.setattr(credentials_module, "LOOKING_SECONDS_MAX", 0.01)
    try:
        with monkeypatch.context() as patch, trio.fail_after(60):
            patch.setattr(FileContent, "look", hang)
            while len(shown) < 5 or not asked:  # a thread may begin late
                credentials.refresh()
                shown.append(await credentials.headers())
    finally:
        is_back.set()

    assert [1] == asked
    assert all(headers == [(b"authorization", b"Bearer one")] for headers in shown)
    assert 1 == caplog.text.count("the file system its files are on does not answer")


class SlowDisk:
    """Owns whether a disk answers, and how many looks it was asked for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.answers = threading.Event()
        self._asked = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        look = FileContent.look

        def slow(content: FileContent, now: float) -> bytes:
            self.looks += 1
            self._token.run_sync_soon(self._asked.set)
            self.answers.wait(60)
            return look(content, now)

        patch.setattr(FileContent, "look", slow)

    async def is_asked(self) -> None:
        with trio.fail_after(60):
            await self._asked.wait()


async def test_late_result_of_a_slow_disk_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "LOOKING_SECONDS_MAX", 0.01)
    monkeypatch.setattr(credentials_module, "LOOK_SECONDS", 3600)  # no other look
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})
    file.write_text("another")
    disk = SlowDisk(monkeypatch)
    assert [(b"authorization", b"Bearer one")] == await credentials.headers()
    await disk.is_asked()
    disk.answers.set()
    with trio.fail_after(60):
        while [(b"authorization", b"Bearer another")] != await credentials.headers():  # noqa: ASYNC110 - of a thread
            await trio.sleep(0.01)


async def test_request_during_a_check_waits_for_it_and_for_the_next_due_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(credentials_module, "LOOKING_SECONDS_MAX", 30)
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file)), origin=ORIGIN), FixedClock(), {})
    showing = await credentials.headers()
    credentials.refresh()
    disk = SlowDisk(monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(credentials.headers)
        await disk.is_asked()
        credentials.refused(showing, Unauthorized("no"))
        nursery.start_soon(credentials.headers)
        await trio.testing.wait_all_tasks_blocked()
        disk.answers.set()

    assert 2 == disk.looks
    assert "does not answer" not in caplog.text


async def test_unexpected_error_of_a_check_is_logged_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("a bug")

    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})
    monkeypatch.setattr(FileContent, "look", fail)

    assert [(b"authorization", b"Bearer one")] == await credentials.headers()
    assert "RuntimeError: a bug" in caplog.text


async def test_without_a_thread_to_look_in_what_was_read_before_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})
    with monkeypatch.context() as machine:
        no_threads(machine)
        assert [(b"authorization", b"Bearer one")] == await credentials.headers()

    assert "keeping the previous ones: cannot start a thread" in caplog.text
    assert "Traceback" not in caplog.text


async def test_an_authority_in_a_file_is_renewed_too(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path, mock_clock: MockClock
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(type(authority)().cert_pem.bytes())
    async with (
        serving(certificates, anything) as server,
        asking(ClusterAccess(Server(server.url, File(str(ca))))) as client,
    ):
        with pytest.raises(ApiUnreachable):
            await client.get(NODES, "w")
        authority.cert_pem.write_to_path(str(ca))
        mock_clock.jump(LOOK_SECONDS)
        assert "w" == (await client.get(NODES, "w")).name


# ---- tokens --------------------------------------------------------------------------------------------------------


async def test_a_renewed_token_is_shown_within_a_second(tmp_path: Path, mock_clock: MockClock) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})

    assert [(b"authorization", b"Bearer one")] == await credentials.headers()
    file.write_text("another\n")
    assert [(b"authorization", b"Bearer one")] == await credentials.headers()
    mock_clock.jump(LOOK_SECONDS)
    assert [(b"authorization", b"Bearer another")] == await credentials.headers()


async def test_a_token_is_read_again_after_a_minute_whatever_the_file_system_says(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    os.utime(file, (1, 1))
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file))), FixedClock(), {})
    await credentials.headers()
    file.write_text("two")
    os.utime(file, (1, 1))
    mock_clock.jump(KEPT_SECONDS_MAX - 1)
    assert [(b"authorization", b"Bearer one")] == await credentials.headers()
    mock_clock.jump(1)
    assert [(b"authorization", b"Bearer two")] == await credentials.headers()


async def test_a_token_the_server_does_not_know_is_read_again_at_once(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path
) -> None:
    async def answer(request: Request) -> Response:
        good = request.headers["authorization"] == "Bearer new"
        return told({"metadata": {"name": "w"}}) if good else Response(401)

    file = tmp_path / "token"
    file.write_text("old")
    async with serving(certificates, answer) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), proof=TokenFile(str(file)))
        async with asking(access) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "w")
            file.write_text("new")
            assert "w" == (await client.get(NODES, "w")).name


async def test_a_token_that_cannot_be_read_any_more_is_kept_and_one_that_never_could_is_said(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    file = tmp_path / "token"
    proof = TokenFile(str(file))
    with pytest.raises(StartFailed, match=r'kubeconfig: user.tokenFile: Invalid value: ".*token": No such file'):
        await shown(access_to("https://x", proof=proof))
    assert {"authorization": "Bearer spare"} == await shown(access_to("https://x", proof=TokenFile(str(file), "spare")))
    file.write_text(" \n")
    with pytest.raises(NothingToShow, match=r'kubeconfig: user.tokenFile: Invalid value: ".*token": the file is empty'):
        await shown(access_to("https://x", proof=proof))
    file.write_text("good")
    credentials = Credentials(access_to("https://x", proof=proof), FixedClock(), {})
    await credentials.headers()
    file.unlink()
    mock_clock.jump(LOOK_SECONDS)
    assert [(b"authorization", b"Bearer good")] == await credentials.headers()


async def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("sec\nret")
    async with serving(certificates, anything) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), proof=TokenFile(str(file)))
        async with asking(access) as client:
            with pytest.raises(Refused) as caught:
                await client.get(NODES, "w")

    assert "ret" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_a_file_too_large_to_be_a_token_is_not_read_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"x" * (FILE_BYTES_MAX + 1))

    with pytest.raises(StartFailed, match="it is larger than 1048576 bytes"):
        await shown(access_to("https://x", proof=TokenFile(str(file))))


@pytest.mark.timeout(20)
async def test_a_pipe_is_no_token_and_holds_up_no_start(tmp_path: Path) -> None:
    pipe = tmp_path / "token"
    os.mkfifo(pipe)

    with pytest.raises(StartFailed, match="not a regular file"):
        await shown(access_to("https://x", proof=TokenFile(str(pipe))))


# ---- a server that does not know us --------------------------------------------------------------------------------

ORIGIN = Origin("/etc/k.conf", "clusters[0].cluster", "users[0].user")
UNKNOWN = "The API server answers, but does not know this node (Unauthorized). It was shown "


def issued_pem(authority: CA, **dates: datetime) -> bytes:
    return authority.issue_cert(common_name="system:node:w", **dates).private_key_and_cert_chain_pem.bytes()


@pytest.mark.parametrize(
    ("proof", "expected"),
    [
        (Token("secret"), "the token of users[0].user.token in /etc/k.conf. Put another one there and start"),
        (Password("joe", "secret"), "the password of joe, of users[0].user.password in /etc/k.conf. Put another"),
        (None, "nothing: name a user with credentials in /etc/k.conf and start the agent again"),
    ],
)
async def test_what_a_server_was_shown_that_does_not_know_it_is_told_with_what_to_do(
    proof: Proof, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = Credentials(access_to("https://x", proof=proof, origin=ORIGIN), FixedClock(), {})
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    (line,) = caplog.messages
    assert line.startswith(UNKNOWN + expected)
    assert "secret" not in line


async def test_trial_of_credentials_reports_its_own_result(caplog: pytest.LogCaptureFixture) -> None:
    credentials = Credentials(access_to("https://x", proof=Token("t")), FixedClock(), {}, is_trial=True)
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    assert [] == caplog.messages


async def test_credentials_made_one_after_another_say_once_that_they_are_not_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unauthorized_log = UnauthorizedLog()
    for _ in range(3):
        credentials = Credentials(
            access_to("https://x", proof=Token("t")), FixedClock(), {}, unauthorized_log=unauthorized_log
        )
        credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    assert 1 == len(caplog.messages)


async def test_a_kubeconfig_that_is_read_again_needs_no_restart(caplog: pytest.LogCaptureFixture) -> None:
    credentials = Credentials(access_to("https://x", proof=Token("t")), FixedClock(), {}, is_read_again=True)
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    assert caplog.messages[0].endswith("Put another one there")


async def test_a_token_in_a_file_that_is_not_known_is_reported_with_the_file(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    credentials = Credentials(access_to("https://x", proof=TokenFile(str(file)), origin=ORIGIN), FixedClock(), {})
    for _ in range(2):
        credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))
        file.unlink(missing_ok=True)
        mock_clock.jump(MINUTE)

    shown = f"{UNKNOWN}the token in {file}, of users[0].user.tokenFile in /etc/k.conf"
    assert [
        f"{shown}. Put another one there",
        f"{shown}, which cannot be read any more: No such file or directory. Put another one there",
    ] == caplog.messages


@pytest.mark.parametrize(
    ("dates", "validity"),
    [
        ({"not_after": datetime(2020, 1, 2, tzinfo=UTC)}, "which was valid until 2020-01-02T00:00:00Z"),
        ({"not_after": datetime(2030, 1, 2, tzinfo=UTC)}, "valid until 2030-01-02T00:00:00Z"),
        (
            {"not_before": datetime(2029, 1, 2, tzinfo=UTC)},
            "valid only from 2029-01-02T00:00:00Z (is this machine's clock right?)",
        ),
    ],
    ids=["over", "good", "not yet"],
)
async def test_a_certificate_that_is_not_known_is_reported_with_its_dates(
    dates: dict[str, datetime], validity: str, authority: CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "node.pem"
    file.write_bytes(issued_pem(authority, **dates))
    access = access_to("https://x", key_pair=KeyPair(File(str(file)), File(str(file))), origin=ORIGIN)
    credentials = Credentials(access, FixedClock(), {})
    credentials.refused(await credentials.headers(), Unauthorized("Unauthorized"))

    place = f"{file}, of users[0].user[client-certificate] in /etc/k.conf"
    who = f"the client certificate of system:node:w ({place})"
    assert [f"{UNKNOWN}{who}, {validity}. Put another one there"] == caplog.messages


async def test_rejected_credentials_are_logged_once_for_all_clients(
    authority: CA, certificates: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(_: Request) -> Response:
        return Response(401)

    caplog.set_level(logging.INFO, "trikubelet.kube")
    async with serving(certificates, never) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), proof=Token("t"))
        credentials = Credentials(access, FixedClock(), {})
        clients = [ApiClient(credentials, "t") for _ in range(3)]
        for client in clients:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "w")
        server.answer = anything
        for client in clients:
            await client.get(NODES, "w")
            client.reset()

    assert [
        "The API server answers, but does not know this node (the server answered 401 Unauthorized).",
        "The API server knows this node again, after 0 s and 3 requests",
    ] == [line.partition(" It was shown")[0] for line in caplog.messages]


# ---- plugins -------------------------------------------------------------------------------------------------------


class Script:
    """A plugin that does what a test writes; it has ``say(status)`` and ``told``."""

    HEAD = """
import json, os, sys, time
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
def say(**status):
    print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": status}))
open(sys.argv[1], "a").write("x")
"""

    def __init__(self, directory: Path, body: str) -> None:
        self.path = directory / "plugin.py"
        self.runs_file = directory / "runs"
        self.runs_file.touch()
        self.path.write_text(self.HEAD + body)

    @property
    def runs(self) -> int:
        return len(self.runs_file.read_text())

    def plugin(self, **more: Any) -> ExecPlugin:
        return ExecPlugin(V1, sys.executable, ("-IS", str(self.path), str(self.runs_file)), **more)


async def until(what: Callable[[], bool]) -> None:
    """Wait for another process, which tells nobody."""
    with trio.fail_after(60):
        while not what():  # noqa: ASYNC110
            await trio.sleep(0.01)


SAYS_IT_HANGS = (
    "open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1] + '.hangs')"
)
"""What a plugin does when it is where it stays; its pid is in that file."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[StartedProcess]:
    """The programs that were started, as soon as whoever started them knows."""
    found: list[StartedProcess] = []
    at_once = STARTS.start

    async def start(*command: Any, **more: Any) -> StartedProcess:
        found.append(await at_once(*command, **more))
        return found[-1]

    monkeypatch.setattr(STARTS, "start", start)
    return found


async def jump_when(clock: MockClock, seconds: float, file: Path, begun: list[StartedProcess]) -> None:
    """Let time pass when the file is there: at once, and not before. Nor before it is known here that the program which
    makes it has started: it may be quicker than that, and only then the time begins in which it is to end."""
    while not begun or not file.exists():  # noqa: ASYNC240 - a file has no event
        await wait_all_tasks_blocked(0.01)  # for so long by a real clock
    await wait_all_tasks_blocked()
    clock.jump(seconds)


def plugged(plugin: ExecPlugin, clock: FixedClock | None = None, **server: Any) -> Credentials:
    access = ClusterAccess(Server("https://x", **server), proof=plugin)
    return Credentials(access, clock or FixedClock(), {"PATH": "/usr/bin:/bin"})


async def test_a_plugins_token_is_shown_without_the_line_break_after_it(tmp_path: Path) -> None:
    credentials = plugged(Script(tmp_path, "say(token='abc\\n')").plugin())

    assert [(b"authorization", b"Bearer abc")] == await credentials.headers()


async def test_a_plugin_runs_once_until_what_it_made_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "PAUSE_SECONDS", 0)
    clock = FixedClock()
    ends = rfc3339(clock.ns + 60 * 10**9)
    script = Script(tmp_path, f"say(token=sys.argv[1][-4:], expirationTimestamp='{ends}')")
    credentials = plugged(script.plugin(), clock)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(credentials.headers)
    assert [(b"authorization", b"Bearer runs")] == await credentials.headers()
    assert 1 == script.runs
    clock.ns += 60 * 10**9
    await credentials.headers()
    assert 2 == script.runs


async def test_a_token_without_an_end_is_good_until_the_server_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PAUSE_SECONDS", 0)
    script = Script(tmp_path, "say(token=os.urandom(4).hex())")
    credentials = plugged(script.plugin())
    first = await credentials.headers()
    assert first == await credentials.headers()
    assert 1 == script.runs
    credentials.refused(first, Unauthorized("no"))
    second = await credentials.headers()
    assert 2 == script.runs
    for _ in range(3):
        credentials.refused(first, Unauthorized("no"))  # answers that come late
        assert second == await credentials.headers()
    assert 2 == script.runs


@pytest.mark.parametrize("ends", ["", ", expirationTimestamp='2001-01-01T00:00:00Z'"], ids=["refused", "over already"])
async def test_plugin_with_useless_output_is_not_run_for_each_request(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PAUSE_SECONDS", 3600)
    script = Script(tmp_path, f"say(token='t'{ends})")
    credentials = plugged(script.plugin())
    credentials.refused(await credentials.headers(), Unauthorized("no"))
    for _ in range(5):
        with pytest.raises(NothingToShow, match="does not believe what the credential plugin"):
            await credentials.headers()

    assert 1 == script.runs


async def test_a_plugin_is_told_its_environment_and_the_cluster_when_it_wants_to_know(
    authority: CA, tmp_path: Path
) -> None:
    script = Script(tmp_path, "say(token=json.dumps([told, os.environ['A'], os.environ['PATH']]))")
    ca = authority.cert_pem.bytes()

    async def tells(**more: Any) -> Any:
        plugin = script.plugin(environment=(("A", "b"),), **more)
        ((_, value),) = await plugged(plugin, ca=ca, tls_name="n", compression=False).headers()
        return json.loads(value.removeprefix(b"Bearer "))

    quiet, open_minded = await tells(), await tells(provides_cluster_info=True, cluster_config={"a": 1})
    kind = {"apiVersion": V1, "kind": "ExecCredential"}
    assert [{**kind, "spec": {"interactive": False}}, "b", "/usr/bin:/bin"] == quiet
    cluster = {
        "server": "https://x",
        "tls-server-name": "n",
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "disable-compression": True,
        "config": {"a": 1},
    }
    assert {**kind, "spec": {"interactive": False, "cluster": cluster}} == open_minded[0]


def certified(authority: CA) -> str:
    """Return the work of a plugin that makes a certificate."""
    issued = authority.issue_cert(common_name="made")
    made = {"clientCertificateData": issued.cert_chain_pems[0], "clientKeyData": issued.private_key_pem}
    return f"say({', '.join(f'{name}={text.bytes().decode()!r}' for name, text in made.items())})"


async def test_a_plugin_may_make_a_certificate_and_the_first_takes_no_other_s_place(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trikubelet.kube")
    script = Script(tmp_path, certified(authority))
    async with serving(certificates, anything) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), proof=script.plugin())
        async with asking(access) as client:
            await client.get(NODES, "w")

    assert ["made"] == server.callers
    assert [] == caplog.messages


async def test_requests_wait_for_a_plugins_first_certificate(
    authority: CA, certificates: ssl.SSLContext, tmp_path: Path
) -> None:
    script = Script(tmp_path, certified(authority))
    async with serving(certificates, anything) as server:
        access = access_to(server.url, authority.cert_pem.bytes(), proof=script.plugin())
        credentials = Credentials(access, FixedClock(), {"PATH": "/usr/bin:/bin"})
        clients = [ApiClient(credentials, "t") for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.get, NODES, "w")
        for client in clients:
            client.reset()

    assert ["made"] * 4 == server.callers
    assert 1 == script.runs


async def test_a_plugins_certificate_is_in_force_though_the_authoritys_disk_hangs(
    authority: CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "LOOKING_SECONDS_MAX", 0.01)
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.cert_pem.bytes())
    credentials = plugged(Script(tmp_path, certified(authority)).plugin(), ca=File(str(file)))
    before = credentials.tls
    disk = SlowDisk(monkeypatch)
    try:
        await credentials.headers()
    finally:
        disk.answers.set()

    assert before is not credentials.tls


async def test_a_plugins_certificate_that_cannot_be_used_is_not_left_out(tmp_path: Path) -> None:
    script = Script(tmp_path, "say(clientCertificateData='x', clientKeyData='y')")
    with pytest.raises(NothingToShow, match=r"user\.exec: Invalid value: there is no certificate in it"):
        await plugged(script.plugin()).headers()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('no login', file=sys.stderr); sys.exit(3)", "ended with 3: no login"),
        ("print('one\\n\\ntwo', file=sys.stderr); sys.exit(3)", r"ended with 3: one \| two"),
        ("sys.exit(3)", "ended with 3: nothing on stderr"),
        ("print('hello')", "does not print an ExecCredential"),
        ('sys.stdout.buffer.write(b\'{"kind": "\\xff"}\')', "does not print an ExecCredential"),
        ("print('{\"x\": ' + '[' * 9999 + ']' * 9999 + '}')", "does not print an ExecCredential"),
        ("say()", "prints neither a token nor a certificate"),
        ("say(clientKeyData='x')", "prints half of a certificate"),
        ("say(token='t', expirationTimestamp='soon')", "says when it ends"),
        ("told['apiVersion'] = 'v0'; say(token='t')", "prints a v0 ExecCredential"),
        ("say(token='x' * 3_000_000)", "does not print an ExecCredential"),
    ],
)
async def test_what_a_plugin_does_wrong_is_said(body: str, says: str, tmp_path: Path) -> None:
    credentials = plugged(Script(tmp_path, body).plugin())

    with pytest.raises(
        NothingToShow, match=rf"^the credential plugin \S*python\S* \(user\.exec in kubeconfig\) {says}"
    ):
        await credentials.headers()


async def test_unexpected_error_of_a_run_is_logged_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> bytes:
        raise RuntimeError("a bug")

    monkeypatch.setattr(exec_plugin, "run_program", fail)
    with pytest.raises(NothingToShow, match=r"cannot be run: RuntimeError\('a bug'\)$"):
        await plugged(Script(tmp_path, "say(token='t')").plugin()).headers()
    assert "Traceback" in caplog.text


async def test_failed_plugin_is_not_run_for_every_waiter(tmp_path: Path) -> None:
    script = Script(tmp_path, "sys.exit(1)")
    credentials = plugged(script.plugin())

    for _ in range(3):
        with pytest.raises(NothingToShow, match="ended with 1"):
            await credentials.headers()
    assert 1 == script.runs


async def test_a_plugin_that_is_not_installed_comes_with_the_hint() -> None:
    plugin = ExecPlugin(V1, "/nowhere/plugin", install_hint="Get it from acme.com.")

    with pytest.raises(
        StartFailed, match=r'user.exec.command: .*"/nowhere/plugin": there is .*\(Get it from acme\.com'
    ):
        plugged(plugin)


async def test_a_plugin_that_was_taken_away_comes_with_the_hint(tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    credentials = plugged(ExecPlugin(V1, str(program), install_hint="Get it from acme.com."))
    program.unlink()

    with pytest.raises(NothingToShow, match=r"cannot be started: No such file or directory\. Get it from acme\.com"):
        await credentials.headers()


@pytest.mark.slow
async def test_a_plugin_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, begun: list[StartedProcess]
) -> None:
    """On a clock that stands still until the plugin hangs."""
    monkeypatch.setattr(exec_plugin, "WAIT_SECONDS_MAX", 30)
    monkeypatch.setattr(exec_plugin, "RUN_SECONDS_MAX", 5)
    body = "child = subprocess.Popen(['sleep', '600']); print(child.pid, file=sys.stderr, flush=True)"
    script = Script(tmp_path, f"import subprocess; {body}; {SAYS_IT_HANGS}; child.wait()")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(jump_when, mock_clock, 5, hangs := tmp_path / "runs.hangs", begun)
        with pytest.raises(NothingToShow, match=r"has not ended within 5 s; its stderr: \d+") as caught:
            await plugged(script.plugin()).headers()

    assert hangs.exists()
    child = int(str(caught.value).rpartition(" ")[2])
    while lives(child):
        await wait_all_tasks_blocked(0.01)


async def test_a_plugin_takes_its_time_and_no_request_waits_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "WAIT_SECONDS_MAX", 0.05)
    go = tmp_path / "go"
    script = Script(tmp_path, f"while not os.path.exists('{go}'): time.sleep(0.01)\nsay(token='slow')")
    credentials = plugged(script.plugin())

    async def ask() -> None:
        with pytest.raises(NothingToShow, match=r"has not ended yet; after 30 s it is killed"):
            await credentials.headers()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    go.touch()
    found = None
    with trio.fail_after(60):
        while found is None:
            with suppress(NothingToShow):
                found = await credentials.headers()

    assert [(b"authorization", b"Bearer slow")] == found
    assert 1 == script.runs


@pytest.mark.slow
async def test_hanging_plugin_is_killed_despite_waiters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, begun: list[StartedProcess]
) -> None:
    """On a clock that stands still until the plugin hangs."""
    monkeypatch.setattr(exec_plugin, "WAIT_SECONDS_MAX", 0.05)
    monkeypatch.setattr(exec_plugin, "RUN_SECONDS_MAX", 5)
    script = Script(tmp_path, f"{SAYS_IT_HANGS}; time.sleep(600)")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jump_when, mock_clock, 0.1, hangs := tmp_path / "runs.hangs", begun)
        with pytest.raises(NothingToShow, match="has not ended yet"):
            await plugged(script.plugin()).headers()
    pid = int(hangs.read_text())
    assert lives(pid)
    mock_clock.jump(5)
    while lives(pid):
        await wait_all_tasks_blocked(0.01)


async def test_what_a_plugin_leaves_behind_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LEFT_OVER_SECONDS_MAX", 0.1)
    script = Script(tmp_path, "import subprocess; say(token=str(subprocess.Popen(['sleep', '600']).pid))")
    with trio.fail_after(60):
        ((_, value),) = await plugged(script.plugin()).headers()

    os.kill(int(value.removeprefix(b"Bearer ")), signal.SIGKILL)


# ---- proxies -------------------------------------------------------------------------------------------------------


class Proxy:
    """An HTTP proxy that opens tunnels, and says who asked for which."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refuses = b""
        self.before = b""

    async def attend(self, stream: trio.abc.Stream) -> None:
        http = h11.Connection(h11.SERVER)
        while not isinstance(event := http.next_event(), h11.Request):
            http.receive_data(bytes(await stream.receive_some(4096)))
        self.asked.append((event.target.decode(), {name.decode(): value.decode() for name, value in event.headers}))
        if self.refuses:
            await stream.send_all(self.refuses)
            return
        host, _, port = event.target.decode().rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as far:
            await stream.send_all(self.before + b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pour, stream, far, nursery.cancel_scope)
                nursery.start_soon(pour, far, stream, nursery.cancel_scope)


async def pour(source: trio.abc.Stream, sink: trio.abc.Stream, both: trio.CancelScope) -> None:
    try:
        async for chunk in source:
            await sink.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()


async def test_a_proxy_is_asked_for_a_tunnel_and_the_servers_name_holds_behind_it(
    authority: CA, certificates: ssl.SSLContext
) -> None:
    proxy = Proxy()
    async with serving(certificates, anything) as server, serving(None, anything) as front:
        front.attend = proxy.attend
        way = front.url.replace("http://", "http://us%65r:p%40ss@")
        ca = authority.cert_pem.bytes()
        async with asking(ClusterAccess(Server(server.url, ca, tls_name="api.test", proxy=way))) as client:
            assert "w" == (await client.get(NODES, "w")).name
            await client.get(NODES, "w")
        async with asking(ClusterAccess(Server(server.url, ca, tls_name="other.test", proxy=way))) as client:
            for _ in range(20):  # a tunnel in which TLS fails does not take a place for good
                with pytest.raises(ApiUnreachable, match="not to be trusted"):
                    await client.get(NODES, "w")

    target = server.url.removeprefix("https://")
    assert {target} == {asked for asked, _ in proxy.asked}
    assert 21 == len(proxy.asked)
    assert f"Basic {base64.b64encode(b'user:p@ss').decode()}" == proxy.asked[0][1]["proxy-authorization"]


async def test_a_proxy_may_give_an_interim_answer_first(authority: CA, certificates: ssl.SSLContext) -> None:
    proxy = Proxy()
    proxy.before = b"HTTP/1.1 100 Continue\r\n\r\n"
    async with serving(certificates, anything) as server, serving(None, anything) as front:
        front.attend = proxy.attend
        async with asking(ClusterAccess(Server(server.url, authority.cert_pem.bytes(), proxy=front.url))) as client:
            assert "w" == (await client.get(NODES, "w")).name


async def test_a_proxy_without_a_host_is_said() -> None:
    async with asking(ClusterAccess(Server("https://10.0.0.1:6443", proxy="http://"))) as client:
        with pytest.raises(ApiUnreachable, match="the proxy's URL names no host"):
            await client.get(NODES, "w")


async def test_a_proxy_may_want_tls_of_its_own(
    authority: CA, certificates: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(answer: str) -> str:
        async with asking(ClusterAccess(Server(server.url, authority.cert_pem.bytes(), proxy=front.url))) as client:
            return (await client.get(NODES, answer)).name

    proxy = Proxy()
    async with serving(certificates, anything) as server, serving(certificates, anything) as front:
        front.attend = proxy.attend
        with pytest.raises(ApiUnreachable, match=r"the proxy 127\.0\.0\.1 fails: the certificate is not to be trusted"):
            await ask("w")  # this machine does not know its authority
        trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
        assert "w" == await ask("w")

    assert [server.url.removeprefix("https://")] == [asked for asked, _ in proxy.asked]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refuses to connect to .*: 407 Proxy Authentication"),
        (b"SSH-2.0 hello\r\n\r\n", "the proxy's answer is not HTTP"),
        (b"HTTP/1.1", "the proxy closed the connection|the proxy's answer is not HTTP"),
        (6 * b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 407 No\r\n\r\n", "more than 5 answers before the answer"),
    ],
)
async def test_what_a_proxy_does_wrong_is_said(answer: bytes, says: str, authority: CA) -> None:
    proxy = Proxy()
    proxy.refuses = answer
    async with serving(None, anything) as front:
        front.attend = proxy.attend
        async with asking(ClusterAccess(Server("https://10.0.0.1:6443", proxy=front.url))) as client:
            with pytest.raises(ApiUnreachable, match=says):
                await client.get(NODES, "w")


async def test_a_proxy_that_is_not_there_is_named(mock_clock: MockClock) -> None:
    """On a clock that stands still: a process that is kept waiting for 10 s finds its time to connect over."""
    with port_of_nobody() as port:
        server = Server("https://10.0.0.1:6443", proxy=f"http://127.0.0.1:{port}")
        async with asking(ClusterAccess(server)) as client:
            with pytest.raises(ApiUnreachable, match=r"the proxy 127\.0\.0\.1 fails: .*Connection refused"):
                await client.get(NODES, "w")
