"""The agent's identity for the API server, and how it verifies the server: for all its clients together.

    files, data, plugin ─► TLS (certificate, authority)     ─► every new connection
                        └► headers (token, password, act-as) ─► every request

Files are looked at again before a request, at most once a second, in a thread: while one hangs, its last content stays
in force, and the new one is taken when it comes. A request waits for the look that is under way, but not long. When a
certificate or the authority has become another one, there is a new TLS context and every client is notified to give up
its connections, which show the old. A pair that does not fit together, as while one of two files is replaced already,
changes nothing; the next look will. Credentials made by a plugin wait for no file, and are in force before a request
goes out.

That the server does not know us by what is shown is logged by ``UnauthorizedLog``.
"""

from __future__ import annotations

import logging
import math
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import trio

from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.exec_plugin import Plugin
from trikubelet.kube.file_content import LOOK_SECONDS, FileContent
from trikubelet.kube.materials import Materials, MaterialUnusable, Texts, Tls
from trikubelet.kube.unauthorized_log import UnauthorizedLog
from trikubelet.model.api_errors import NothingToShow
from trikubelet.model.errors import StartFailed
from trikubelet.model.faults import Fault
from trikubelet.model.kubeconfig import ExecPlugin, Impersonation, Password, Token, TokenFile

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from trikubelet.model.api_errors import Unauthorized
    from trikubelet.model.certificates import Certificate
    from trikubelet.model.kubeconfig import ClusterAccess, Server
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

Headers = list[tuple[bytes, bytes]]

LOOKING_SECONDS_MAX: Final = 1.0
"""A request does not wait longer for files; what was read of them before is shown instead."""
_HEADER_KEYS: Final = "!#$&'*+.^`|"
"""The characters that a header's name may have as they are, beside letters, digits and ``-_~``."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The result of a look at the files; ``texts`` is None where ``problem`` gives the reason why they cannot be used.
    For a token's file: its content, or why that cannot be read."""

    texts: Texts | None
    problem: str
    token: bytes | None
    token_problem: str


class Credentials:
    """Owns the TLS context for new connections, and what requests show. Raises StartFailed when what the kubeconfig
    names cannot be used at all, with its place there."""

    def __init__(
        self,
        access: ClusterAccess,
        clock: Clock,
        environment: Mapping[str, str],
        *,
        is_read_again: bool = False,
        is_trial: bool = False,
        unauthorized_log: UnauthorizedLog | None = None,
        remedy: str = "",
    ) -> None:
        """``is_read_again``: the caller makes others when the kubeconfig changes, so that a change in it needs no
        restart. ``is_trial``: the caller says itself whether the server knows them. ``unauthorized_log`` is shared by
        those that are made one after another, so that what holds for all is said once. ``remedy``: what an operator can
        do where the server does not know them, if it is not to put others there."""
        self.access = access
        self.server: Server = access.server
        self._is_read_again = is_read_again
        self._is_trial = is_trial
        self._remedy = remedy
        self._clock = clock
        self._materials = Materials(access)
        proof = access.proof
        self._token_file = FileContent(proof.path) if isinstance(proof, TokenFile) else None
        self._token, self._token_problem = b"", ""
        self._plugin: Plugin | None = None
        if isinstance(proof, ExecPlugin):
            self._plugin = Plugin(proof, access, self._materials.last_ca, environment, clock)
        self._last_headers: Headers = []
        self._acting = _acting_as(access.impersonation) if access.impersonation is not None else []
        self._on_change: list[Callable[[], None]] = []
        self._unauthorized_log = unauthorized_log if unauthorized_log is not None else UnauthorizedLog()
        self._threads = ThreadPool("credentials", 1)
        self._looked_at = self._began_at = -math.inf
        self._looking: trio.Event | None = None
        self._problem = ""
        self._tls = self._begin()

    @property
    def tls(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._tls.context

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever connections made before show what does not count any more."""
        self._on_change.append(listener)

    def refresh(self) -> None:
        """The files have just been renewed: look at them before the next request, however young the last look is."""
        self._materials.forget()
        self._looked_at = -math.inf

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that new connections show; None where they show none."""
        return self._tls.certificate

    def hold(self) -> bool:
        """True if there is a credential that has not expired, as far as this node can tell."""
        held = self._tls.certificate
        return self.access.proof is not None or (held is not None and not held.has_expired(self._clock.now_ns()))

    def uses(self, own: Certificate) -> bool:
        """True if this certificate that the node got for itself is used: shown while it lasts. One that is of another
        name, or older than the kubeconfig's, is not."""
        return self._materials.uses_own(own, self._clock.now_ns())

    async def headers(self) -> Headers:
        """Return the headers that prove a request's identity. Raises NothingToShow."""
        self._last_headers = await self._headers_now()
        return self._last_headers

    def refused(self, showing: Headers, error: Unauthorized) -> None:
        """The server does not know us by these headers: make or reread what is shown before the next request. A late
        answer about what is not shown any more says nothing."""
        if showing != self._last_headers:
            return
        if not self._is_trial:
            self._unauthorized_log.rejected(error, self._described())
        if self._token_file is not None:
            self._token_file.forget()
            self._looked_at = -math.inf
        if self._plugin is not None:
            self._plugin.forget()

    def accepted(self) -> None:
        """The server knows us."""
        self._unauthorized_log.accepted()

    # ---- what there is to show ----

    async def _headers_now(self) -> Headers:
        await self._look()
        if self._tls.texts.is_own:
            return []  # it is all that this node needs, whatever has become of what it joined with
        if self._plugin is not None:
            made = await self._plugin.credential()
            self._show_made(made.pem)
            return [*_bearer(made.token.encode()), *self._acting]
        match self.access.proof:
            case Token(text):
                return [*_bearer(text.encode()), *self._acting]
            case Password(user, password):
                both = b64encode(f"{user}:{password}".encode())
                return [(b"authorization", b"Basic " + both), *self._acting]
            case TokenFile(fallback=fallback):
                token = self._token or fallback.encode()
                if not token:
                    raise NothingToShow(self._token_fault(self._token_problem or "the file is empty"))
                return [*_bearer(token), *self._acting]
        return self._acting

    async def _look(self) -> None:
        """Look whether the credentials have changed. Bounded, however the files' disk is."""
        for _ in range(2):  # a look that is under way may have begun before it became due again
            if self._looking is None and self._has_files and trio.current_time() >= self._looked_at + LOOK_SECONDS:
                self._looked_at = self._began_at = trio.current_time()
                self._looking = trio.Event()
                # A look belongs to none of its callers: it is waited for by all, and taken though it come late.
                trio.lowlevel.spawn_system_task(self._look_apart, self._looking)
            if (looking := self._looking) is None:
                return
            with trio.move_on_at(self._began_at + LOOKING_SECONDS_MAX):
                await looking.wait()
            if not looking.is_set():
                self._say("the file system its files are on does not answer, as that of a file server that is away")
                return

    async def _look_apart(self, ended: trio.Event) -> None:
        now = trio.current_time()
        try:
            self._take(await self._threads.run(lambda: self._seen(now)))
        except OSError as error:  # of the thread: those of the files are told in what is seen
            self._say(error.strerror or str(error))
        except Exception:  # what leaves a system task ends the agent
            log.exception("The files that the API server is shown cannot be looked at")
        finally:
            self._looking = None
            ended.set()

    @property
    def _has_files(self) -> bool:
        return self._materials.are_files or self._token_file is not None

    def _seen(self, now: float) -> _Seen:
        """Look, in a thread, and change nothing."""
        texts, problem, token, token_problem = None, "", None, ""
        try:
            texts = self._materials.read(now, self._clock.now_ns())
        except MaterialUnusable as error:
            problem = str(error)
        if self._token_file is not None:
            try:
                token = self._token_file.look(now).strip()
            except OSError as error:
                token_problem = error.strerror or str(error)
        return _Seen(texts, problem, token, token_problem)

    def _begin(self) -> Tls:
        """The first look, for which a start may wait."""
        seen = self._seen(self._looked_at)
        if seen.texts is None:
            raise StartFailed(seen.problem)
        if not seen.texts.is_own:
            self._require_proof(seen)
        self._token, self._token_problem = seen.token or b"", seen.token_problem
        try:
            return self._materials.made(seen.texts, None)
        except MaterialUnusable as error:
            raise StartFailed(str(error)) from error

    def _require_proof(self, seen: _Seen) -> None:
        if self._plugin is not None:
            self._plugin.require_program()
        if seen.token_problem and isinstance(self.access.proof, TokenFile) and not self.access.proof.fallback:
            raise StartFailed(self._token_fault(seen.token_problem))

    def _take(self, seen: _Seen) -> None:
        """Have in force what was seen, and notify the listeners."""
        self._token_problem = seen.token_problem
        if seen.token is not None:
            self._token = seen.token
        if seen.texts is None:
            self._say(seen.problem)
            return
        try:
            tls = self._materials.made(seen.texts, self._tls, self._tls.made_pem)
        except MaterialUnusable as error:
            self._say(str(error))
            return
        self._problem = ""
        self._put_in_force(tls)

    def _show_made(self, pem: bytes) -> None:
        """Have a plugin's certificate in force, whatever becomes of the files meanwhile. Raises NothingToShow, as a
        request without it would not be ours."""
        try:
            tls = self._materials.made(self._tls.texts, self._tls, pem)
        except MaterialUnusable as error:
            raise NothingToShow(str(error)) from error
        self._put_in_force(tls)

    def _put_in_force(self, tls: Tls) -> None:
        if tls is self._tls:
            return
        is_first = self._plugin is not None and self._tls.certificate is None
        self._tls = tls
        if not is_first:  # what a plugin has made for the first time takes no other's place
            log.info("The API client's certificates have changed: new connections show the new ones")
        for listener in self._on_change:
            listener()

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("Cannot reload the client credentials; keeping the previous ones: %s", problem)
        self._problem = problem

    # ---- messages ----

    def _described(self) -> str:
        """Return which credential is shown, where it is, and what to do."""
        source, user = self.access.origin.source, self.access.origin.user
        proofs, lies_apart = [], True
        is_own = self._tls.texts.is_own
        if (held := self._tls.certificate) is not None and (place := self._materials.place(self._tls.texts)):
            validity = _validity(held, self._clock.now_ns())
            proofs.append(f"the client certificate of {held.common_name} ({place}), {validity}")
            lies_apart = is_own or self._materials.certificate.is_file
        match None if is_own else self.access.proof:
            case Token():
                proofs.append(f"the token of {user}.token in {source}")
                lies_apart = False
            case TokenFile(path):
                problem = f", which cannot be read any more: {self._token_problem}" if self._token_problem else ""
                proofs.append(f"the token in {path}, of {user}.tokenFile in {source}{problem}")
            case Password(name):
                proofs.append(f"the password of {name}, of {user}.password in {source}")
                lies_apart = False
            case ExecPlugin():
                return f"It was shown what {self._plugin} makes. Look into where that takes it from"
        again = "" if lies_apart or self._is_read_again else " and start the agent again"
        if not proofs:
            return f"It was shown nothing: name a user with credentials in {source} and start the agent again"
        remedy = f"Remove {self._materials.place(self._tls.texts)}: then what {source} names is shown" if is_own else ""
        return f"It was shown {' and '.join(proofs)}. {remedy or self._remedy or f'Put another one there{again}'}"

    def _token_fault(self, why: str) -> str:
        assert isinstance(self.access.proof, TokenFile)
        origin, path = self.access.origin, self.access.proof.path
        problem = f'Invalid value: "{path}": {why}'
        return str(Fault(origin.source, None, f"{origin.user}.tokenFile", problem, "put a token there"))


def _validity(certificate: Certificate, now_ns: int) -> str:
    if now_ns < certificate.not_before_ns:
        return f"valid only from {rfc3339(certificate.not_before_ns)} (is this machine's clock right?)"
    state = "valid" if now_ns < certificate.not_after_ns else "which was valid"
    return f"{state} until {rfc3339(certificate.not_after_ns)}"


def _bearer(token: bytes) -> Headers:
    return [(b"authorization", b"Bearer " + token)] if token else []


def _acting_as(who: Impersonation) -> Headers:
    headers = [("impersonate-user", who.user)]
    if who.uid:
        headers.append(("impersonate-uid", who.uid))
    headers += [("impersonate-group", group) for group in who.groups]
    headers += [
        (f"impersonate-extra-{quote(key, safe=_HEADER_KEYS)}", value) for key, values in who.extra for value in values
    ]
    return [(name.encode(), value.encode()) for name, value in headers]
