"""The TLS of the node's API: the certificate it presents, the authority it trusts, and their reloading.

    certificate and key ─┐
                         ├─► checked when a connection comes, at most once a second ─► changed? a new context
    clients' authority ──┘

To renew a file, replace it: the next connection presents the new certificate. If new files are unusable, the old ones
stay in use and the log names the problem once. A client's certificate is verified by the authority at the time of its
connection; after the authority changes, older connections end with their next request.
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
    """Paths of PEM files. Certificate and key may be one file. Without a ``client_authority`` clients are not asked for
    a certificate."""

    certificate: str
    key: str
    client_authority: str = ""


@dataclass(frozen=True, slots=True)
class TlsRules:
    """Versions, cipher suites and curves, by Go's names. Empty suites or curves: OpenSSL's own choice. Python lets a
    server set only one curve (they are numbers of TLS's registry): the first that this OpenSSL has."""

    version: str = ""
    suites: Sequence[str] = ()
    curves: Sequence[int] = ()

    @property
    def curve(self) -> int | None:
        """Return the curve to use; None without a restriction. Raises TlsUnusable if OpenSSL has none of them."""
        for number in self.curves:
            with suppress(ValueError, ssl.SSLError):
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(CURVES.get(number, ""))
                return number
        if self.curves:
            raise TlsUnusable(f"tlsCurvePreferences {', '.join(map(str, self.curves))}: OpenSSL has none of them")
        return None


class TlsUnusable(Exception):
    """TLS files or settings cannot be used; the message names them."""


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
        """Read the files. Raises TlsUnusable, and then the old ones stay in use."""
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
            # A client with a certificate that it has signed is authenticated; a client without one may have a token.
            context.verify_mode = ssl.CERT_OPTIONAL
            # Like Go: all certificates in the authority's file are trusted, also those that are not roots.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            with _naming(self._authority.path):
                context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
        return context

    def _explain(self, certificate: bytes, key: bytes) -> None:
        """Find out which of the two files is invalid, because OpenSSL does not report it. Raises TlsUnusable if one
        is."""
        try:
            read_pair(certificate, key)
        except KeyUnusable as error:
            raise TlsUnusable(f"{self._pair[-1].path}: {error}") from error
        except CertificateUnusable as error:
            raise TlsUnusable(f"{self._pair[0].path}: {error}") from error
        except OSError:
            return

    def context(self) -> ssl.SSLContext | None:
        """Return the context for the next connection; None while there is no certificate. Raises nothing."""
        problem = ""
        try:
            self.load()
        except TlsUnusable as error:
            problem = str(error)
            if problem != self._problem:
                kept = "keeping the previous ones" if self._context else "no client can be served"
                log.warning("Cannot use the certificates of the node's API, %s: %s", kept, problem)
        self._problem = problem
        return self._context

    def goes_on(self, stream: trio.abc.Stream) -> bool:
        """True if the authority that verified a connection's client is still the current one."""
        self.context()
        return isinstance(stream, trio.SSLStream) and stream.context in self._current

    def __repr__(self) -> str:
        return f"<ServingTls {'ready' if self._context else self._problem or 'not loaded'}>"


def _speaking(rules: TlsRules) -> ssl.SSLContext:
    """Return a context without certificates. Raises TlsUnusable if OpenSSL has none of the suites or curves."""
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
    """Add the name of the file or setting to errors."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise TlsUnusable(f"{what}: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror if isinstance(error, OSError) else ""
    return why or str(error)
