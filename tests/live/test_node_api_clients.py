"""The node's API as other people's programs ask it: curl, openssl, and a WebSocket client that begins as browsers do,
with an origin, an offer to compress, and its token as a protocol.
"""

from __future__ import annotations

import base64
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.manifests import container, pod, shell
from live.kit.watched import is_ready
from live.test_cluster_node_api import allow, trusting

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

LOG = "/containerLogs/default/talks/c"
EXEC = "/exec/default/talks/c?command=sh&command=-c&command={}&input=1&output=1&error=1"


def test_other_peoples_programs_ask_the_node(control_plane: ControlPlane, containerd2: Containerd) -> None:
    with ClusterAgent(containerd2, control_plane) as agent:
        agent.wait_ready()
        talks = pod("talks", shell("c", "echo hello; while :; do sleep 1; done"), container("web", "serve", "8080"))
        control_plane.kubectl("create", "-f-", manifests=talks)
        with agent.watch(PODS) as pods:
            pods.wait(lambda now: is_ready(now.get("talks", {})), "the pod runs", story=agent.story)
        for right in ("proxy", "metrics"):
            allow(control_plane, f"sees-{right}", right)
        (host,) = [one["address"] for one in agent.node()["status"]["addresses"] if one["type"] == "InternalIP"]
        curls(control_plane, f"https://{host}:{agent.port}")
        connects_by_openssl(control_plane, f"{host}:{agent.port}")
        control_plane.kubectl("create", "serviceaccount", "browser")
        allow(control_plane, "browser", "proxy", account=True, verb="create")
        try:
            browser = Browser(f"wss://{host}:{agent.port}", control_plane.kubectl("create", "token", "browser").strip())
            executes(browser)
            executes_in_base64(browser)
            forwards(browser)
            is_refused(browser)
        finally:
            control_plane.kubectl("delete", "serviceaccount", "browser")


# ---- curl ----


def curls(plane: ControlPlane, url: str) -> None:
    def told(path: str, user: str = "", *words: str) -> tuple[str, str]:
        """The status and the body."""
        shown = plane.user(user) if user else None
        who = ["--cert", str(shown.certificate), "--key", str(shown.key)] if shown else []
        command = ["curl", "--silent", "--show-error", "--insecure", "--write-out", "\n%{http_code}", *who, *words]
        done = subprocess.run([*command, url + path], capture_output=True, text=True, timeout=60, check=True)
        body, _, status = done.stdout.rpartition("\n")
        return status, body

    assert ("200", "ok\n") == told("/healthz", "sees-proxy")
    assert ("200", "hello\n") == told(LOG, "sees-proxy")
    assert ("200", "hel") == told(f"{LOG}?limitBytes=3&tailLines=5", "sees-proxy", "--http1.0")
    assert ("200", "hello\n") == told(LOG, "sees-proxy", "--http2", "--compressed")
    status, metrics = told("/metrics", "sees-metrics")
    assert ("200", True) == (status, "\nkubelet_running_pods 1\n" in metrics)
    assert ("401", "Unauthorized") == told("/healthz")
    assert "403" == told("/metrics", "sees-proxy")[0]
    assert "403" == told("/healthz", "sees-proxy", "--request", "POST", "--data", "x" * 2000)[0]
    assert "404" == told("/metrics/../exec/default/talks/c", "sees-metrics", "--path-as-is")[0]
    assert "431" == told("/healthz", "sees-proxy", *["--header", "x: y"] * 1100)[0]

    shown = plane.user("sees-proxy")
    following = [
        "curl",
        "--silent",
        "--insecure",
        "--no-buffer",
        "--cert",
        str(shown.certificate),
        "--key",
        str(shown.key),
    ]
    with subprocess.Popen([*following, f"{url}{LOG}?follow=true"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "hello\n" == process.stdout.readline()
        process.kill()


# ---- openssl ----


def connects_by_openssl(plane: ControlPlane, address: str) -> None:
    shown = plane.user("sees-proxy")

    def told(path: str, *words: str, known: bool = True) -> str:
        """All that is said to one request; nothing where TLS does not come about."""
        who = ["-cert", str(shown.certificate), "-key", str(shown.key)] if known else []
        command = ["openssl", "s_client", "-connect", address, "-quiet", *who, *words]
        asked = f"GET {path} HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n".encode()
        done = subprocess.run(command, input=asked, capture_output=True, timeout=60, check=False)
        return done.stdout.decode().replace("\r\n", "\n")

    again = subprocess.run(  # a line with an R has it shake hands again
        ["openssl", "s_client", "-connect", address, "-tls1_2"],
        input=b"R\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert [True, True] == [words in again.stderr for words in (b"RENEGOTIATING", b"no renegotiation")], again.stderr

    for words in ((), ("-tls1_2",), ("-tls1_3",), ("-servername", "node.example"), ("-noservername",)):
        said = told("/healthz", *words)
        assert said.startswith("HTTP/1.1 200 OK\n"), (words, said)
        assert said.endswith("\nok\n"), (words, said)
    assert told(LOG).endswith("hello\n\n0\n\n")
    assert told("/healthz", known=False).startswith("HTTP/1.1 401 Unauthorized\n")
    for words in (("-tls1_1",), ("-tls1_2", "-cipher", "NULL:eNULL:@SECLEVEL=0"), ("-tls1_2", "-cipher", "AES128-SHA")):
        assert "" == told("/healthz", *words), words


# ---- a browser ----


class Browser:
    """Connections to the node with a token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def connect(self, path: str, *protocols: str, token: str | None = None) -> ClientConnection:
        """A WebSocket. Raises InvalidStatus."""
        said = base64.urlsafe_b64encode((self.token if token is None else token).encode()).decode().rstrip("=")
        bearer = f"base64url.bearer.authorization.k8s.io.{said}"
        offered: list[str] = [bearer, *protocols] if said else [*protocols]
        context: ssl.SSLContext = trusting()
        origin = "https://dashboard.example"
        return connect(self.url + path, ssl=context, subprotocols=offered, origin=origin, open_timeout=60)  # type: ignore[arg-type]


def executes(browser: Browser) -> None:
    told: dict[int, bytes] = {}
    with browser.connect(
        EXEC.format("cat;echo%20err%20>%262;exit%204"), "v5.channel.k8s.io", "v4.channel.k8s.io"
    ) as socket:
        assert "v5.channel.k8s.io" == socket.subprotocol
        socket.send([b"\0some", b"", b"thing"])  # in three frames
        assert socket.ping("there?").wait(60)
        socket.send(b"\xff\0")
        for message in socket:
            assert isinstance(message, bytes)
            told[message[0]] = told.get(message[0], b"") + message[1:]
        assert (1000, "") == (socket.close_code, socket.close_reason)
    assert (b"something", b"err\n") == (told[1], told[2])
    assert b'"4"' in told[3]


def executes_in_base64(browser: Browser) -> None:
    """By the protocol for those who can only send text, which is not ours to translate."""
    with browser.connect(EXEC.format("read%20a;echo%20heard%20$a"), "base64.channel.k8s.io") as socket:
        assert "base64.channel.k8s.io" == socket.subprotocol
        socket.send("0" + base64.b64encode(b"word\n").decode())
        told = b""
        for message in socket:
            assert isinstance(message, str)
            if message[0] == "1":
                told += base64.b64decode(message[1:])
    assert b"heard word\n" == told


def forwards(browser: Browser) -> None:
    """By the protocol for browsers, which containerd speaks itself: each port has a channel for data and one for
    errors, which begin with its number."""
    with browser.connect("/portForward/default/talks?port=8080", "v4.channel.k8s.io") as socket:
        assert "v4.channel.k8s.io" == socket.subprotocol
        number = (8080).to_bytes(2, "little")
        assert {b"\0" + number, b"\1" + number} == {socket.recv(30) for _ in range(2)}
        socket.send(b"\0GET /healthz HTTP/1.0\r\n\r\n")
        told = b""
        while b"\r\n\r\n" not in told:
            message = socket.recv(30)
            assert isinstance(message, bytes)
            assert 0 == message[0], message
            told += message[1:]
    assert b" 200 " in told.partition(b"\r\n")[0]


def is_refused(browser: Browser) -> None:
    for status, token, protocols in (
        (401, "made-up", ("v5.channel.k8s.io",)),
        (401, "", ("v5.channel.k8s.io",)),
        (401, browser.token, ()),
        (403, browser.token, ("v9.channel.k8s.io",)),  # by containerd
    ):
        with pytest.raises(InvalidStatus) as refused:
            browser.connect(EXEC.format("true"), *protocols, token=token)
        assert status == refused.value.response.status_code, (token, protocols)
