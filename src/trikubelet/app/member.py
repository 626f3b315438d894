"""A member of a cluster, from its files to its tasks: ``compose`` starts it if an API server is configured.

    find_access ─► (bootstrap) ─► credentials ─► one client per purpose ─► join_cluster ─► run_member
                                       ▲                                         │
                                       └── new certificate ◄── rotation ◄────────┘

Loaded only then: a standalone agent needs no HTTP client and no certificates.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.access import Bootstrap, client_certificate, connect, remedy_for, user_agent, way_back
from trikubelet.app.cluster import ApiClients, Membership, join_cluster, run_member
from trikubelet.app.translate import identity_of
from trikubelet.core.serving_names import serving_subject
from trikubelet.kit.open_files import open_files_max
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube import claims, pod_certificates, tokens
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.figures import ApiFigures
from trikubelet.kube.unauthorized_log import UnauthorizedLog
from trikubelet.model.certificates import CLIENT_SIGNER, SERVING_SIGNER, Subject, node_subject
from trikubelet.node.certificate_rotation import CertificateRotation
from trikubelet.node.publisher import Pace
from trikubelet.node.server_version import ServerVersion
from trikubelet.status.event_writer import EventRate
from trikubelet.status.figures import PublishFigures

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.app.access import Found
    from trikubelet.app.cluster import Member
    from trikubelet.app.node import Node
    from trikubelet.app.settings import Settings
    from trikubelet.core.node_status import NodeReport
    from trikubelet.kit.spans import Spans
    from trikubelet.model.node_reading import NodeReading
    from trikubelet.node.figures import RotationFigures
    from trikubelet.ports import Api, Clock

SERVER: Final = "kubelet-server"
"""The serving certificate's files have this name, like upstream's."""
STATUS_CONNECTIONS_MAX: Final = 16
HEARTBEAT_CONNECTIONS_MAX: Final = 2
OBJECT_CONNECTIONS_MAX: Final = 1024
"""Each ConfigMap and Secret that pods refer to is a watch with a connection of its own."""
OBJECT_FILES_SHARE: Final = 4
"""Share of the process's open files that watches may take, as a divisor, so that a node whose pods name more objects
still renews its lease."""
VOLUME_CONNECTIONS_MAX: Final = tokens.REQUESTS_MAX + pod_certificates.REQUESTS_MAX + claims.REQUESTS_MAX
"""Single requests, which must not wait for watches, which never end."""
CERTIFICATE_THREADS_MAX: Final = 3
"""One for each certificate, one for the kubeconfig: none of them waits for the disk access of another."""
REVIEW_CONNECTIONS_MAX: Final = 8
"""Limits the load of this node on the API server, however many clients with unknown tokens there are."""


class MemberTask:
    """Owns the certificate files of one node's membership, and their rotations."""

    def __init__(
        self,
        settings: Settings,
        node: Node,
        reading: NodeReading,
        report: Callable[[], Awaitable[NodeReport]],
        found: Found,
        clock: Clock,
        spans: Spans | None = None,
        server_version: ServerVersion | None = None,
    ) -> None:
        """``server_version``: is kept by this task; None where nothing reads it."""
        self._spans = spans
        self._server_version = server_version or ServerVersion(node.chance)
        self._server_version.changed.add(self._publish)
        self._settings = settings
        self._node = node
        self._clock = clock
        self._report = report
        self._membership = _membership(settings, reading, self._report_to_cluster)
        self._store = client_certificate(settings, clock)
        self._threads = ThreadPool("certificates", CERTIFICATE_THREADS_MAX)
        self._member: Member | None = None
        self._clients: ApiClients | None = None
        self._rotations: list[CertificateRotation] = []
        self._found = found
        self._dial = partial(connect, clock=clock, unauthorized_log=UnauthorizedLog())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the membership until cancelled. Started at once: nothing on this node waits for its cluster."""
        task_status.started()
        if self._found.is_first:
            first, chance = self._found.access, self._node.chance
            bootstrap = Bootstrap(self._settings, first, self._dial, self._clock, chance, self._threads)
            credentials = await bootstrap.run(self._store, self._store.current_path)
        else:
            remedy = remedy_for(self._settings, self._found.access, self._store)
            look = partial(Credentials, self._found.access, self._clock, os.environ, remedy=remedy)
            credentials = await ThreadPool("credentials at the start", 1).run(look)
        clients = self._clients = open_api_clients(credentials, self._spans)
        member = self._member = join_cluster(self._node, clients, self._membership, self._clock)
        async with trio.open_nursery() as nursery:
            if self._settings.configuration.rotate_certificates:
                self._rotations.append(self._client_rotation(clients, credentials))
            if self._settings.configuration.server_tls_bootstrap:
                self._rotations.append(self._server_rotation(clients))
            for rotation in self._rotations:
                await nursery.start(rotation.run)
            await nursery.start(self._server_version.run, clients.server_version)
            nursery.start_soon(self._node.shared_cgroup.report)
            await run_member(member)

    def addresses_changed(self, _: Sequence[str]) -> None:
        """Publish the node's status now. Never blocks."""
        self._publish()

    def _publish(self) -> None:
        if self._member is not None:
            self._member.publisher.wake()

    def publishing(self) -> PublishFigures | None:
        """Return the progress of publishing this node's pod statuses and events; None until it has joined the
        cluster."""
        return (
            None
            if self._member is None
            else PublishFigures(
                self._member.writer.figures(), self._member.events.figures(), self._member.publisher.startup
            )
        )

    def asked(self) -> ApiFigures | None:
        """Return metrics of the requests to the API server; None until there is a client."""
        return None if self._clients is None else self._clients.figures

    def rotations(self) -> Sequence[RotationFigures]:
        """Return the state of the certificates that this node rotates."""
        return [rotation.figures for rotation in self._rotations]

    def reviews(self) -> Api | None:
        """Return the API server, for reviews of clients of this node's API; None until there is a client."""
        return None if self._clients is None else self._clients.reviews

    async def _report_to_cluster(self) -> NodeReport:
        """Return the node's report. The first one waits for the API server's version."""
        await self._server_version.first()
        return await self._report()

    def _client_rotation(self, clients: ApiClients, credentials: Credentials) -> CertificateRotation:
        settings, store, clock, chance = self._settings, self._store, self._clock, self._node.chance
        subject = node_subject(settings.node_name)
        return CertificateRotation(
            api=clients.certificates,
            store=store,
            subject=lambda: subject,
            signer=CLIENT_SIGNER,
            clock=clock,
            changed=credentials.refresh,
            chance=chance,
            threads=self._threads,
            is_known=credentials.hold,
            is_used=credentials.uses,
            afresh=way_back(settings, credentials.access, store, self._dial, clock, chance, self._threads),
        )

    def _server_rotation(self, clients: ApiClients) -> CertificateRotation:
        store = server_certificate(self._settings, self._clock)

        def subject() -> Subject | None:
            return serving_subject(self._settings.node_name, self._member.publisher.node if self._member else None)

        return CertificateRotation(
            api=clients.certificates,
            store=store,
            subject=subject,
            signer=SERVING_SIGNER,
            clock=self._clock,
            changed=lambda: None,
            chance=self._node.chance,
            threads=self._threads,
        )


def server_certificate(settings: Settings, clock: Clock) -> CertificateFiles:
    """Return the files of the serving certificate of this node's API, if its cluster signs one."""
    return CertificateFiles(settings.cert_dir, SERVER, clock)


def open_api_clients(credentials: Credentials, spans: Spans | None = None) -> ApiClients:
    """Return a client for each purpose. Requests that are repeated every few seconds anyway are not retried by the
    client."""
    figures = ApiFigures()
    client = partial(ApiClient, credentials, user_agent(), figures=figures, spans=spans)
    lease = client(connections_max=HEARTBEAT_CONNECTIONS_MAX, tries_max=1)
    node = client(connections_max=HEARTBEAT_CONNECTIONS_MAX, tries_max=1)
    reviews = client(connections_max=REVIEW_CONNECTIONS_MAX, tries_max=1)

    def reset() -> None:
        lease.reset()
        node.reset()

    return ApiClients(
        lease=lease,
        node=node,
        watches=client(),
        statuses=client(connections_max=STATUS_CONNECTIONS_MAX, tries_max=1),
        events=client(connections_max=HEARTBEAT_CONNECTIONS_MAX),
        certificates=client(connections_max=HEARTBEAT_CONNECTIONS_MAX),
        objects=client(connections_max=min(OBJECT_CONNECTIONS_MAX, open_files_max() // OBJECT_FILES_SHARE)),
        volumes=client(connections_max=VOLUME_CONNECTIONS_MAX),
        reviews=reviews,
        reset=reset,
        server_version=reviews.server_version,
        figures=figures,
    )


def _membership(settings: Settings, reading: NodeReading, report: Callable[[], Awaitable[NodeReport]]) -> Membership:
    configuration = settings.configuration
    return Membership(
        identity=identity_of(settings, reading),
        report=report,
        pace=Pace(
            compute_seconds=configuration.node_status_update_frequency,
            report_seconds=configuration.node_status_report_frequency,
            registers=configuration.register_node,
        ),
        lease_seconds=configuration.node_lease_duration_seconds,
        event_rate=EventRate(configuration.event_burst, configuration.event_record_qps),
    )
