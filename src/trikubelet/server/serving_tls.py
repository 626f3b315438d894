"""The TLS of the node's API: which certificate it presents, whom it trusts, and when that changes.

    certificate and key ─┐
                         ├─► looked at when a connection comes, at most once a second ─► changed? a new context
    clients' authority ──┘

Whoever renews a file just replaces it: the next connection shows the new certificate. Files that cannot be used leave
in force what was there before, and are named in the log once. A certificate of a client is verified by the authority of
the moment its connection began; once another authority holds, older connections end with their next request.
"""

from __future__ import annotations

import logging
import ssl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

import trio

from trikubelet.httpd.tls_records import AllRecords
from trikubelet.kube.file_content import FileContent
from trikubelet.kube.key_pair import read_pair, show
from trikubelet.model.certificates import CertificateUnusable, KeyUnusable
from trikubelet.model.tls import CURVES, SUITES_OF_1_2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. Certificate and key may be one file. Without a ``client_authority`` no client is asked for a
    certificate."""

    certificate: str
    key: str
    client_authority: str = ""


@dataclass(frozen=True, slots=True)
class TlsRules:
    """What is spoken, by Go's names. No suites or curves: OpenSSL's own choice. Of curves, which are numbers of TLS's
    registry, Python lets a server name one: the first that this OpenSSL has."""

    version: str = ""
    suites: Sequence[str] = ()
    curves: Sequence[int] = ()

    @property
    def curve(self) -> int | None:
        """The one that is spoken; None where that is not restricted. Raises TlsUnusable when OpenSSL has none of
        them."""
        for number in self.curves:
            with suppress(ValueError, ssl.SSLError):
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(CURVES.get(number, ""))
                return number
        if self.curves:
            raise TlsUnusable(f"tlsCurvePreferences {', '.join(map(str, self.curves))}: OpenSSL has none of them")
        return None


class TlsUnusable(Exception):
    """Files or settings of TLS cannot be used; the message names them."""


class ServingTls:
    """Owns the TLS context of the next connection."""

    def __init__(self, files: TlsFiles, rules: TlsRules) -> None:
        pair = dict.fromkeys((files.certificate, files.key))
        self._pair = [FileContent(path) for path in pair]
        self._authority = FileContent(files.client_authority) if files.client_authority else None
        self._rules = rules
        self._shown: tuple[bytes, bytes | None] | None = None
        self._current: WeakSet[ssl.SSLContext] = WeakSet()
        self._context: ssl.SSLContext | None = None
        self._problem = ""

    def load(self) -> None:
        """Look at the files. Raises TlsUnusable, and leaves in force what was."""
        read = []
        for one in self._pair:
            with _naming(one.path):
                read.append(one.get())
        pair = b"\n".join(read)
        authority = None
        if self._authority is not None:
            with _naming(self._authority.path):
                authority = self._authority.get()
        if (pair, authority) == self._shown:
            return
        context = self._made(read[0], read[-1], pair, authority)
        if self._shown is not None and authority != self._shown[1]:
            self._current.clear()
        self._current.add(context)
        self._context, self._shown = context, (pair, authority)

    def _made(self, certificate: bytes, key: bytes, pair: bytes, authority: bytes | None) -> ssl.SSLContext:
        context = _speaking(self._rules)
        try:
            show(context, pair)
        except OSError as error:
            self._explain(certificate, key)
            raise TlsUnusable(f"{' and '.join(one.path for one in self._pair)}: {_reason(error)}") from error
        if authority is not None and self._authority is not None:
            # With a certificate it has signed a client is authenticated; one that shows none may have a token.
            context.verify_mode = ssl.CERT_OPTIONAL
            # As Go: whatever the authority's file names is trusted, be it a root or not.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            with _naming(self._authority.path):
                context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
        return context

    def _explain(self, certificate: bytes, key: bytes) -> None:
        """OpenSSL does not say which of both is no good. Raises TlsUnusable where that can be found out."""
        try:
            read_pair(certificate, key)
        except KeyUnusable as error:
            raise TlsUnusable(f"{self._pair[-1].path}: {error}") from error
        except CertificateUnusable as error:
            raise TlsUnusable(f"{self._pair[0].path}: {error}") from error
        except OSError:
            return

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None while there is no certificate. Raises nothing."""
        problem = ""
        try:
            self.load()
        except TlsUnusable as error:
            problem = str(error)
            if problem != self._problem:
                kept = "what was there before stays in use" if self._context else "no client can be served"
                log.warning("The certificates of the node's API cannot be used, %s: %s", kept, problem)
        self._problem = problem
        return self._context

    def goes_on(self, stream: trio.abc.Stream) -> bool:
        """Whether a connection's client was verified by the authority that counts now."""
        self.context()
        return isinstance(stream, trio.SSLStream) and stream.context in self._current

    def __repr__(self) -> str:
        return f"<ServingTls {'ready' if self._context else self._problem or 'not looked at'}>"


def _speaking(rules: TlsRules) -> ssl.SSLContext:
    """A context that presents and trusts nothing yet. Raises TlsUnusable when OpenSSL has none of the suites or
    curves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = AllRecords
    suites = [SUITES_OF_1_2[name] for name in rules.suites if name in SUITES_OF_1_2]
    only_1_3 = rules.version == "VersionTLS13" or (rules.suites and not suites)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if only_1_3 else ssl.TLSVersion.TLSv1_2
    if suites:
        with _naming(f"tlsCipherSuites {', '.join(rules.suites)}"):
            context.set_ciphers(":".join(dict.fromkeys(suites)))
    if (curve := rules.curve) is not None:
        context.set_ecdh_curve(CURVES[curve])
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Says of what cannot be used what it is."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise TlsUnusable(f"{what}: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror if isinstance(error, OSError) else ""
    return why or str(error)
