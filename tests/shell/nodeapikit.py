"""The node's API on a real port with real TLS, in front of a view made by hand and an API server in memory."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import trio
import trustme

from core.statskit import DISK, snapshot, usage
from shell.localkit import FakeView
from trikubelet.app.node_api import LIMITS
from trikubelet.host.clock import SystemClock
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.server import HttpLimits, serve_http
from trikubelet.httpd.tls import TlsListener
from trikubelet.kit.outage import Outage
from trikubelet.model.kubelet_configuration import (
    AnonymousAuthentication,
    Authentication,
    Authorization,
    KubeletConfiguration,
    WebhookAuthentication,
)
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.server.authentication import Authenticator
from trikubelet.server.authorization import Authorizer
from trikubelet.server.checkpoints import Checkpoints
from trikubelet.server.node_api import Gate, NodeApi
from trikubelet.server.node_pages import About, pages
from trikubelet.server.reviews import Reviews
from trikubelet.server.serving_tls import ServingTls, TlsFiles, TlsRules
from trikubelet.server.streams import Streams
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from trikubelet.kit.spans import Spans
    from trikubelet.model.stats_snapshot import StatsSnapshot
    from trikubelet.model.usage import Depth
    from trikubelet.ports import Api, Clock, Runtime

SYSTEM_CLOCK = SystemClock()


class FakeStats:
    """A node with one pod of one container, or one that cannot be read."""

    def __init__(self) -> None:
        self.asked: list[Depth] = []
        self.failure: OSError | None = None

    async def shown(self, depth: Depth, spell: Callable[[StatsSnapshot], Any]) -> Any:
        self.asked.append(depth)
        if self.failure is not None:
            raise self.failure
        return spell(snapshot(of_pod=usage(3), of_container=usage(2)))

    async def claimed(self) -> list[tuple[str, VolumeUsed]]:
        return [("default", VolumeUsed("data", DISK, claim="claim", is_abnormal=True))]


@dataclass
class Bench:
    """Everything behind and before one API. ``tokens`` and ``rights`` are the cluster's, in ``cluster``."""

    directory: Path
    view: FakeView = field(default_factory=FakeView)
    authority: trustme.CA = field(default_factory=trustme.CA)
    cluster: ApiServer = field(default_factory=lambda: ApiServer(SYSTEM_CLOCK.now_ns))
    stats: FakeStats = field(default_factory=FakeStats)
    checks: dict[str, Any] = field(default_factory=dict)
    rules: TlsRules = field(default_factory=TlsRules)
    clock: Clock = SYSTEM_CLOCK
    limits: HttpLimits = LIMITS
    runtime: Runtime = field(default_factory=lambda: MemoryRuntime(World()))
    port: int = 0
    paths: list[str] = field(default_factory=list)
    spans: Spans | None = None

    def __post_init__(self) -> None:
        self.api = MemoryApi(self.cluster)
        self.joined: Api | None = self.api
        self.streams: Streams | None = None
        self.renew()
        self.authority_path.write_bytes(self.authority.cert_pem.bytes())

    @property
    def pair_path(self) -> Path:
        return self.directory / "pair.pem"

    @property
    def authority_path(self) -> Path:
        return self.directory / "ca.crt"

    def renew(self) -> None:
        """Give the node another serving certificate."""
        made = self.authority.issue_cert("127.0.0.1")
        self.pair_path.write_bytes(made.private_key_and_cert_chain_pem.bytes())

    def allow(self, user: str, *subresources: str, verb: str = "get") -> None:
        """Give a user rights to the node."""
        self.cluster.rights |= {(user, verb, f"nodes/{one}") for one in subresources}

    def token(self, user: str, text: str = "") -> str:
        """A token of a user."""
        self.cluster.tokens[text or f"token-of-{user}"] = {"username": user, "groups": ["g"]}
        return text or f"token-of-{user}"

    def node_api(self, configuration: KubeletConfiguration) -> NodeApi:
        self.streams = streams = Streams(self.view, self.runtime, configuration.streaming_connection_idle_timeout)
        about = About(lambda: "v1.2.3", self.clock.now_ns() - 3723 * 10**9, {"b": "2", "a": "1"}, lambda: self.paths)
        checkpoints = Checkpoints(self.view, self.runtime, self.directory, self.clock)
        into = pages(about, configuration, self.clock, checkpoints, self.directory)
        made = NodeApi(self.view, self.stats, streams, self.checks, {}, configuration, self.clock, into, self.spans)
        self.paths = [route.path for route in made.routes]
        return made

    def gate(self, configuration: KubeletConfiguration) -> Gate:
        """The API behind its questions, for who does without TLS."""
        reviews = Reviews("n1", lambda: self.joined, Outage("API server"))
        return Gate(
            self.node_api(configuration),
            Authenticator(configuration.authentication, reviews, self.clock),
            Authorizer(configuration.authorization, reviews),
        )

    @asynccontextmanager
    async def serving(self, configuration: KubeletConfiguration | None = None) -> AsyncIterator[ServingTls]:
        """Serve for the length of the block."""
        gate = self.gate(configuration or KubeletConfiguration())
        files = TlsFiles(str(self.pair_path), str(self.pair_path), str(self.authority_path))
        tls = ServingTls(files, self.rules)
        (ears,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = ears.socket.getsockname()[1]
        listeners = [TlsListener(ears, tls.context)]
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, gate.answer, listeners, limits=self.limits, goes_on=tls.goes_on)
            limit = ConnectionLimit("the node's API", self.limits.connections_max, needs_proof=True)
            await nursery.start(partial(serve, connection_limit=limit))
            yield tls
            nursery.cancel_scope.cancel()

    def trust(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """A client's TLS: it believes the node's authority, and shows a certificate if it has one."""
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        if certificate is not None:
            certificate.configure_cert(context)
        return context

    def client(
        self, *, user: str = "", groups: str = "", token: str = "", of: trustme.CA | None = None
    ) -> httpx.AsyncClient:
        """Somebody who asks: with a certificate of this cluster's authority (or another one's), or a token."""
        authority = of or self.authority
        shown = (
            authority.issue_cert("client.test", common_name=user, organization_name=groups or None) if user else None
        )
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}", verify=self.trust(shown), headers=headers, trust_env=False
        )


def rules(mode: str = "Webhook", *, webhook: bool = True, anonymous: bool = False, **more: Any) -> KubeletConfiguration:
    """A configuration of who may ask."""
    return KubeletConfiguration(
        authentication=Authentication(
            webhook=WebhookAuthentication(enabled=webhook), anonymous=AnonymousAuthentication(enabled=anonymous)
        ),
        authorization=Authorization(mode=mode),
        **more,
    )
