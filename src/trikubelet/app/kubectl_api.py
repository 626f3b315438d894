"""Builds the API for kubectl on a node without a cluster: its certificate, its token, its port on the loopback.

    ROOT/kubectl/kubelet.crt, kubelet.key ─► ServingTls ─► TlsListener(127.0.0.1:PORT) ─► KubectlApi
    ROOT/kubectl/token ──────────────────────────────────────────────────────────────────────┘
    certificate, token, port ─► a kubeconfig, which the agent returns on its local socket

Certificate and token are made at the first start and stay, so that a kubeconfig outlives the agent. For another token,
remove the file and restart the agent. Loaded only where configured, because it imports certificates and TLS.
"""

from __future__ import annotations

import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.kubectl_resources import resources
from trikubelet.app.settings import KUBECTL_ADDRESS
from trikubelet.core.kubeconfig import write_kubeconfig
from trikubelet.httpd.server import HttpLimits, serve_http
from trikubelet.httpd.tls import TlsListener
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.certificate_files import keep_self_signed
from trikubelet.kube.file_content import FILE_BYTES_MAX
from trikubelet.model.certificates import node_subject
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import Server, Token
from trikubelet.server.kubectl.api import KubectlApi
from trikubelet.server.serving_tls import ServingTls, TlsFiles, TlsRules, TlsUnusable

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.app.compose import Agent
    from trikubelet.app.services import Services
    from trikubelet.app.settings import Settings
    from trikubelet.app.sources import Sources
    from trikubelet.ports import Clock
    from trikubelet.server.streams import Streams

log = logging.getLogger(__name__)

LIMITS: Final = HttpLimits(
    connections_max=64, header_bytes_max=256 * 1024, body_bytes_max=1024 * 1024, idle_seconds_max=90.0
)
"""A watch, a followed log and a stream hold a connection each; a body is an object that a client tries to write, which
is read so that the refusal can be sent."""
_TOKEN_BYTES: Final = 32


async def start_kubectl_api(
    services: Services, settings: Settings, agent: Agent, streams: Streams, clock: Clock
) -> None:
    """Serve it, and have the agent return its kubeconfig. Raises StartFailed."""
    directory = settings.kubectl_dir
    try:
        certificate, key, pem, token = await ThreadPool("kubectl", 1).run(partial(_kept, directory, clock))
        tls = ServingTls(TlsFiles(str(certificate), str(key)), TlsRules())
        tls.load()
    except OSError as error:
        raise StartFailed(
            f"cannot store a certificate or token for kubectl in {directory}: {error.strerror}"
        ) from error
    except TlsUnusable as error:
        raise StartFailed(f"cannot serve kubectl over TLS: {error} (remove the files)") from error
    port = settings.kubectl_port
    try:
        ports = await trio.open_tcp_listeners(port, host=KUBECTL_ADDRESS)
    except OSError as error:
        why = f"{error.strerror or error} (choose another --kubectl-port, or end the process that listens there)"
        raise StartFailed(f"cannot serve kubectl on {KUBECTL_ADDRESS} port {port}: {why}") from error
    known = resources(agent.view, agent.notes)
    how = partial(how_to_change, settings.manifest_path or settings.manifest_url, agent.sources)
    api = KubectlApi(known, agent.view, streams, clock, token, agent.version(), how)
    listeners = [TlsListener(one, tls.context) for one in ports]
    serve = partial(serve_http, api.answer, listeners, limits=LIMITS, goes_on=tls.goes_on)
    await services.start("API for kubectl", serve)
    server = Server(f"https://{KUBECTL_ADDRESS}:{port}", ca=pem)
    agent.notes.kubectl_may_ask(write_kubeconfig(server, Token(token)))
    log.info(
        "kubectl can connect to %s port %d with the kubeconfig that `trikubelet kubeconfig` prints",
        KUBECTL_ADDRESS,
        port,
    )


def _kept(directory: Path, clock: Clock) -> tuple[Path, Path, bytes, str]:
    """Return the paths of certificate and key, the certificate itself, and the token; new ones are made if they do not
    exist. Raises OSError, and StartFailed for a token that cannot be a header."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key = keep_self_signed(directory, node_subject("kubectl", ["localhost"], [KUBECTL_ADDRESS]), clock)
    path = directory / "token"
    try:
        token = read_plain(path, FILE_BYTES_MAX).decode("ascii").strip()
    except FileNotFoundError:
        token = ""
    except UnicodeDecodeError as error:
        raise StartFailed(f"the token for kubectl in {path} is not ASCII (remove the file)") from error
    if not token:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        write_privately(path, token.encode())
    return certificate, key, read_plain(certificate, FILE_BYTES_MAX), token


def how_to_change(place: str, sources: Sources, resource: str, namespace: str, name: str) -> str:
    """Return the answer to a write: the source of the pod of that name, or the directory, file or URL (``place``) of
    all of them; for the node, which ``kubectl cordon`` writes, that it has no effect."""
    if resource == "nodes":
        return (
            "this API is read-only: without a cluster there is no API server whose pods could be rejected; "
            f"the manifests in {place} define the pods, so remove manifests there"
        )
    for source, state in sources.files().items():
        named = any((pod.metadata.namespace, pod.metadata.name) == (namespace, name) for pod in state.pods)
        if named and resource == "pods":
            return f'this API is read-only: {source} defines pod "{name}", so change or remove that'
    return f"this API is read-only: the manifests in {place} define the pods, so write one there"
