"""Builds the node's API: certificates, ports, authentication and authorization, and routes.

    tlsCertFile, tlsPrivateKeyFile ─┐
    serverTLSBootstrap ─────────────┼─► ServingTls ─► TlsListener(port) ──► Gate ──┐
    neither: made by ourselves ─────┘                                              ├─► NodeApi
                                        TcpListener(readOnlyPort), if set ────────┘

Loaded only where something is served, because it imports certificates and TLS. The agent does not start without its
ports, because a node whose API is answered by another process is worse than none.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.flag_page import flag_values
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.server import HttpLimits, serve_http
from trikubelet.httpd.tls import TlsListener
from trikubelet.kit.outage import Outage
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.certificate_files import keep_self_signed
from trikubelet.model.certificates import node_subject
from trikubelet.model.errors import StartFailed
from trikubelet.server.authentication import Authenticator
from trikubelet.server.authorization import Authorizer
from trikubelet.server.checkpoints import Checkpoints
from trikubelet.server.node_api import Gate, NodeApi
from trikubelet.server.node_pages import About, pages
from trikubelet.server.reviews import Reviews
from trikubelet.server.serving_tls import ServingTls, TlsFiles, TlsRules, TlsUnusable
from trikubelet.server.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.app.compose import Agent
    from trikubelet.app.member import MemberTask
    from trikubelet.app.services import Services
    from trikubelet.app.settings import Settings
    from trikubelet.kit.spans import Spans
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

LIMITS: Final = HttpLimits(
    connections_max=1024, header_bytes_max=1024 * 1024, body_bytes_max=64 * 1024, idle_seconds_max=90.0
)
"""Headers and idle time are upstream's. A followed log holds a connection, and so does a stream; of bodies only a
number is read."""
_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - the configuration's value for any address, see _listen


async def start_node_api(
    services: Services, settings: Settings, agent: Agent, clock: Clock, spans: Spans | None
) -> None:
    """Serve on every configured port. ``spans``: makes a span of each answer, if given. Raises StartFailed."""
    configuration = settings.configuration
    remarks = {"pleg": agent.node.pleg.remark}
    streams = Streams(agent.view, agent.runtime, configuration.streaming_connection_idle_timeout)
    checkpoints = Checkpoints(agent.view, agent.runtime, settings.root_dir, clock)
    into = pages(
        About(agent.version, clock.now_ns(), flag_values(settings), lambda: (route.path for route in api.routes)),
        configuration,
        clock,
        checkpoints if settings.gate("ContainerCheckpoint") else None,
    )
    api = NodeApi(agent.view, agent.stats, streams, agent.checks, remarks, configuration, clock, into, spans)
    if settings.api_port:
        gate = _gate(api, settings, clock, agent.member)
        tls = await _tls(settings, agent.addresses.get(), clock)
        ports = await _listen(configuration.address, settings.api_port, "the node's API", "port")
        listeners = [TlsListener(port, tls.context) for port in ports]
        answer = api.figures.counted("readwrite", gate.answer)
        connection_limit = api.figures.connection_limits["readwrite"] = ConnectionLimit(
            "the node's API", LIMITS.connections_max, needs_proof=True
        )
        serve = partial(
            serve_http, answer, listeners, limits=LIMITS, goes_on=tls.goes_on, connection_limit=connection_limit
        )
        await services.start("node's API", serve)
        log.info("The node's API is served on %s port %d", configuration.address, settings.api_port)
    if configuration.read_only_port:
        place = configuration.address, configuration.read_only_port
        ports = await _listen(*place, "the node's read-only API", "readOnlyPort")
        answer = api.figures.counted("readonly", api.answer_anybody)
        connection_limit = api.figures.connection_limits["readonly"] = ConnectionLimit(
            "the node's read-only API", LIMITS.connections_max
        )
        await services.start(
            "node's read-only API", partial(serve_http, answer, ports, limits=LIMITS, connection_limit=connection_limit)
        )
        log.info("The node's read-only API is served on %s port %d, without authentication", *place)


def _gate(api: NodeApi, settings: Settings, clock: Clock, member: MemberTask | None) -> Gate:
    """Return the API behind authentication and authorization."""
    rules = settings.configuration
    reviews = Reviews(settings.node_name, member.reviews if member else lambda: None, Outage("API server"))
    return Gate(
        api,
        Authenticator(rules.authentication, reviews, clock),
        Authorizer(rules.authorization, reviews),
    )


async def _tls(settings: Settings, addresses: Sequence[str], clock: Clock) -> ServingTls:
    """Return the serving certificate and client CA, loaded once to check them. Raises StartFailed."""
    configuration = settings.configuration
    authority = configuration.authentication.x509.client_ca_file
    rules = TlsRules(
        configuration.tls_min_version, configuration.tls_cipher_suites, configuration.tls_curve_preferences
    )
    certificate, key = await _pair(settings, addresses, clock)
    tls = ServingTls(TlsFiles(str(certificate), str(key), authority), rules)
    try:
        spoken = rules.curve
        if idle := ", ".join(str(one) for one in rules.curves if one != spoken):
            log.warning("tlsCurvePreferences: Python's TLS supports one curve: using %s, not %s", spoken, idle)
        if not configuration.server_tls_bootstrap:  # otherwise it is signed later
            tls.load()
    except TlsUnusable as error:
        raise StartFailed(f"cannot serve the node's API over TLS: {error}") from error
    return tls


async def _pair(settings: Settings, addresses: Sequence[str], clock: Clock) -> tuple[Path, Path]:
    """Return the paths of certificate and key, which the cluster may still have to sign. Raises StartFailed."""
    configuration = settings.configuration
    if configuration.server_tls_bootstrap:
        from trikubelet.app.member import server_certificate  # noqa: PLC0415 - a member has it loaded

        path = server_certificate(settings, clock).current_path
        return path, path
    if configuration.tls_cert_file:
        return Path(configuration.tls_cert_file), Path(configuration.tls_private_key_file)
    name = settings.node_name
    keep = partial(keep_self_signed, settings.cert_dir, node_subject(name, [name], addresses), clock)
    try:
        return await ThreadPool("the node's certificate", 1).run(keep)
    except OSError as error:
        raise StartFailed(f"cannot make a certificate in {settings.cert_dir}: {error.strerror}") from error


async def _listen(address: str, port: int, what: str, field: str) -> list[trio.SocketListener]:
    """Return the sockets of one port; any address means any of both families, as in Go. Raises StartFailed."""
    try:
        return await trio.open_tcp_listeners(port, host=None if address in _ANY_ADDRESS else address)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartFailed(
            f"cannot serve {what} on {address} port {port}: {why} (set {field}, or end the process that listens there)"
        ) from error
