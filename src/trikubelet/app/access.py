"""The node's access to its cluster: by its kubeconfig, or by one it makes itself from a bootstrap token.

    --kubeconfig exists and its certificate is valid ─────────────────────────────► ClusterAccess
    else --bootstrap-kubeconfig ─► certificate from the cluster ─► kubeconfig written ─► ClusterAccess

An invalid file is reported at once and ends the start. A later rejection by the cluster is logged and retried, because
static pods run meanwhile. Wherever a bootstrap is interrupted, the next start continues it: with the key of the
request, or with the issued certificate.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet import __version__
from trikubelet.core.client_certificate import shows_own
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.disk import on_disk
from trikubelet.kit.outage import Outage
from trikubelet.kube.certificate_files import CertificateFiles, certificate_of
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.kubeconfig_file import load_kubeconfig, save_kubeconfig
from trikubelet.model.api_errors import ApiError, Forbidden
from trikubelet.model.certificates import CLIENT_SIGNER, CertificateRefused, CertificateUnusable, node_subject
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import File, OwnPair
from trikubelet.node.signing import sign
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from trikubelet.app.settings import Settings
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.kube.unauthorized_log import UnauthorizedLog
    from trikubelet.model.certificates import Certificate, Subject
    from trikubelet.model.kubeconfig import ClusterAccess
    from trikubelet.ports import Api, CertificateStore, Clock

log = logging.getLogger(__name__)

CLIENT: Final = "kubelet-client"
"""The client certificate's files in the certificate directory are named after it, as upstream's."""
_ADVICE: Final = "its user may not request certificates; bind its group to the role system:node-bootstrapper"


@dataclass(frozen=True, slots=True)
class Found:
    """The content of the files. ``is_first``: the access is only good for requesting a certificate; ``outlived``: the
    reason, if there is a kubeconfig that has expired."""

    access: ClusterAccess
    is_first: bool = False
    outlived: str = ""


def client_certificate(settings: Settings, clock: Clock) -> CertificateFiles:
    """Return the files of this node's own client certificate."""
    return CertificateFiles(settings.cert_dir, CLIENT, clock)


def find_access(settings: Settings, clock: Clock) -> Found:
    """Return the access to start with, checked to be usable. Changes nothing. Raises StartFailed, one line per
    fault."""
    path = Path(settings.kubeconfig)
    store = client_certificate(settings, clock)
    bootstrap = settings.bootstrap_kubeconfig
    if not bootstrap:
        return Found(_usable(_with_own(load_kubeconfig(path, "--kubeconfig"), settings, store), clock))
    outlived = ""
    if path.exists():
        access = _with_own(load_kubeconfig(path, "--kubeconfig"), settings, store)
        if (why := _why_unusable(access, store, clock)) is None:
            return Found(_usable(access, clock))
        outlived = f"{path} is not usable any more: {why}"
    first = _usable(load_kubeconfig(Path(bootstrap), "--bootstrap-kubeconfig"), clock)
    return Found(first, is_first=True, outlived=outlived)


def _with_own(access: ClusterAccess, settings: Settings, store: CertificateFiles) -> ClusterAccess:
    """Return the access with the certificate that the node renews itself (rotateCertificates), wherever the
    kubeconfig's is: that only serves to request the first, like upstream."""
    if not settings.configuration.rotate_certificates or _shows_own(access, store):
        return access
    return replace(access, own=OwnPair(str(store.current_path), node_subject(settings.node_name).common_name))


def shown_certificate(access: ClusterAccess, store: CertificateFiles, clock: Clock) -> tuple[str, Certificate] | None:
    """Return the certificate that a client presents, and its place: "" if it is in the kubeconfig. None if there is
    none. Raises CertificateUnusable naming the file, and OSError."""
    own = None
    if access.own is not None:
        with suppress(CertificateUnusable, OSError):  # then the kubeconfig's own certificate is presented
            own = store.current()
    now_ns, given = clock.now_ns(), None
    try:
        given = certificate_of(access.key_pair) if access.key_pair else None
    except (CertificateUnusable, OSError):
        if access.own is None or own is None or not shows_own(own, None, access.own.common_name, now_ns):
            raise
    if access.own is not None and own is not None and shows_own(own, given, access.own.common_name, now_ns):
        return access.own.path, own
    return ("", given) if given is not None else None


def _usable(access: ClusterAccess, clock: Clock) -> ClusterAccess:
    """Return the access, once its certificates, token file and plugin are found. Raises StartFailed if they are
    missing."""
    Credentials(access, clock, os.environ)
    return access


def _why_unusable(access: ClusterAccess, store: CertificateFiles, clock: Clock) -> str | None:
    """Return why the certificate that is presented with a kubeconfig of any author is not usable any more, or
    None. Unreadable files are no reason, except our own certificate that is gone: files of others may be back in a
    moment, and until then the client that uses them reports the error. A bootstrap would overwrite the operator's
    kubeconfig."""
    if access.key_pair is None:
        return None
    try:
        shown = shown_certificate(access, store, clock)
    except CertificateUnusable as error:
        return str(error)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError) and _shows_own(access, store)
        return f"{error.filename}: {error.strerror}" if is_gone else None
    if shown is not None and shown[1].has_expired(clock.now_ns()):
        return f"its certificate was valid until {rfc3339(shown[1].not_after_ns)}"
    return None


def _shows_own(access: ClusterAccess, store: CertificateFiles) -> bool:
    return access.key_pair is not None and access.key_pair.certificate == File(str(store.current_path))


def remedy_for(settings: Settings, access: ClusterAccess, store: CertificateFiles) -> str:
    """Return a remedy for an operator if the cluster does not know this node by its own certificate, as after the
    cluster was created again; "" if this node would not request that certificate again."""
    is_own = bool(settings.bootstrap_kubeconfig) and _shows_own(access, store)
    return _remedy(settings, store.current_path) if is_own else ""


def _remedy(settings: Settings, certificate: Path) -> str:
    return f"Remove {certificate} and start the agent again: it bootstraps with {settings.bootstrap_kubeconfig} then"


class Bootstrap:
    """Makes the kubeconfig of a node that has only a bootstrap token. Owns nothing that is not on the disk."""

    def __init__(
        self,
        settings: Settings,
        first: ClusterAccess,
        connect: Callable[[ClusterAccess], tuple[Api, Callable[[], None]]],
        clock: Clock,
        chance: random.Random,
        threads: ThreadPool,
    ) -> None:
        """``connect`` returns a client for an access, and a function that closes its connections; it raises
        StartFailed. ``threads`` are for keys and files."""
        self._settings = settings
        self._connect = connect
        self._target = Path(settings.kubeconfig)
        self._first = first
        self._clock = clock
        self._chance = chance
        self._threads = threads
        self._outcomes = RequestOutcomes("requesting this node's certificate", Outage("API server"))

    async def run(self, store: CertificateStore, certificate_path: Path) -> Credentials:
        """Return the node's new credentials, with its own certificate at a path. Retries until it works."""
        held = await self._certificate(store)
        backoff = self._new_backoff()
        while True:
            try:
                saving = partial(save_kubeconfig, self._target, self._first.server, certificate_path)
                await on_disk(self._threads, saving, str(self._target))
                access = load_kubeconfig(self._target, "--kubeconfig")
                remedy = _remedy(self._settings, certificate_path)
                made = Credentials(access, self._clock, os.environ, remedy=remedy)
            except (OSError, StartFailed) as error:
                # A disk that is full now, or a CA file that is missing, may not be in a minute.
                log.warning("Bootstrap: cannot write or use %s: %s", self._target, error)
                await trio.sleep(backoff.next_seconds())
                continue
            log.info("Bootstrapped: %s is valid until %s", self._target, rfc3339(held.not_after_ns))
            return made

    async def _certificate(self, store: CertificateStore) -> Certificate:
        """Return the stored certificate if it is valid, or a new one."""
        subject = node_subject(self._settings.node_name)
        backoff, problem = self._new_backoff(), ""
        while True:
            try:
                # Checked in each round: an expired one is valid again once a clock that was ahead is set.
                held = store.current()
            except (CertificateUnusable, OSError) as error:
                held = None
                if str(error) != problem:
                    problem = str(error)
                    log.warning("%s", problem)
            if held and not held.has_expired(self._clock.now_ns()) and held.common_name == subject.common_name:
                return held
            try:
                found = await self._signed(store, subject)
            except (CertificateRefused, CertificateUnusable) as error:
                store.drop_request()
                log.warning("Bootstrap: %s", error)
            except Forbidden as error:
                log.warning("Bootstrap: %s: %s (%s)", self._settings.bootstrap_kubeconfig, _ADVICE, error)
            except (OSError, StartFailed) as error:
                log.warning("Bootstrap: %s", error)
            except ApiError as error:
                self._outcomes.failed(error)
            else:
                self._outcomes.worked()
                return found
            await trio.sleep(backoff.next_seconds())

    async def _signed(self, store: CertificateStore, subject: Subject) -> Certificate:
        """Return a new certificate, stored as the current one. Raises what ``Rotation.renew`` does, and StartFailed."""
        api, hang_up = self._dial()
        try:
            request = await on_disk(self._threads, partial(store.request, subject, CLIENT_SIGNER), CLIENT_SIGNER)
            keeping = partial(store.keep, await sign(api, request, CLIENT_SIGNER))
            return await on_disk(self._threads, keeping, CLIENT_SIGNER)
        finally:
            hang_up()

    def _dial(self) -> tuple[Api, Callable[[], None]]:
        """Return a client with the current content of the file, because an operator replaces a rejected token. While
        the file cannot be used, its previous content is. Raises StartFailed if that cannot be used either, for instance
        because a CA file is missing for a moment."""
        try:
            first = load_kubeconfig(Path(self._settings.bootstrap_kubeconfig), "--bootstrap-kubeconfig")
            connected = self._connect(first)
        except StartFailed as error:
            log.warning("%s", error)
            return self._connect(self._first)
        self._first = first
        return connected

    def _new_backoff(self) -> Backoff:
        return Backoff(2.0, 60.0, jitter=0.1, chance=self._chance)


def connect(
    access: ClusterAccess, clock: Clock, *, is_trial: bool = False, unauthorized_log: UnauthorizedLog | None = None
) -> tuple[Api, Callable[[], None]]:
    """Return a client for a few requests, and a function that closes its connections. ``is_trial``: the caller reports
    itself whether the server accepts the credentials; else ``unauthorized_log`` does, for all that share it. Raises
    StartFailed."""
    credentials = Credentials(
        access, clock, os.environ, is_read_again=True, is_trial=is_trial, unauthorized_log=unauthorized_log
    )
    api = ApiClient(credentials, user_agent(), connections_max=2)
    return api, api.reset


def way_back(
    settings: Settings,
    access: ClusterAccess,
    store: CertificateFiles,
    dial: Callable[[ClusterAccess], tuple[Api, Callable[[], None]]],
    clock: Clock,
    chance: random.Random,
    threads: ThreadPool,
) -> Callable[[], Awaitable[object]] | None:
    """Return the reaction to an expired certificate of a running node: bootstrap again, if its kubeconfig uses that
    certificate and it has a bootstrap kubeconfig. That raises StartFailed if the file cannot be used. ``dial`` and
    ``threads`` are as for ``Bootstrap``."""
    if not settings.bootstrap_kubeconfig or not _shows_own(access, store):
        return None

    async def bootstrap() -> object:
        first = load_kubeconfig(Path(settings.bootstrap_kubeconfig), "--bootstrap-kubeconfig")
        made = Bootstrap(settings, first, dial, clock, chance, threads)
        return await made.run(store, store.current_path)

    return bootstrap


def user_agent() -> str:
    """Return the User-Agent of this agent's requests to an API server."""
    return f"trikubelet/{__version__}"
