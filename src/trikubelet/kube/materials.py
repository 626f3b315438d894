"""The certificates a kubeconfig names, wherever they are, made into TLS contexts.

    authority · certificate · key ─► read ─► fit together? ─► TLS context, for every connection from then on
        the node's own certificate ───┘         │
                   what a plugin made ──────────┘

A node that renews its certificate itself shows that one as soon as there is one, and nothing else; until then the
kubeconfig's.

``kube.credentials`` has them read in a thread, as files may lie on a disk that hangs; what TLS is made of them needs no
disk, so that what a plugin made can be shown while they do. Unusable parts are named by their field in the kubeconfig,
because an operator sees nothing else.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.client_certificate import counts_as_held, shows_own
from trikubelet.core.field_path import member_path
from trikubelet.core.x509 import certificate_texts, read_certificate
from trikubelet.kube.file_content import FileContent
from trikubelet.kube.key_pair import joined, read_pair, show
from trikubelet.model.certificates import CertificateUnusable, KeyUnusable
from trikubelet.model.faults import Fault
from trikubelet.model.kubeconfig import File

if TYPE_CHECKING:
    from trikubelet.model.certificates import Certificate
    from trikubelet.model.kubeconfig import ClusterAccess, Material


log = logging.getLogger(__name__)


class MaterialUnusable(Exception):
    """A certificate, key or authority cannot be used now; the message is a fault, with its place in the kubeconfig."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that the kubeconfig names, in PEM; b"" for others. ``is_own``: certificate and key are those that the
    node renews itself."""

    ca: bytes
    certificate: bytes
    key: bytes
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Tls:
    """The parts that connections are made with: their source (the kubeconfig's texts, a plugin's), and our certificate,
    None where none is shown."""

    texts: Texts
    made_pem: bytes
    context: ssl.SSLContext
    certificate: Certificate | None


class Materials:
    """Owns what was last read of the files that a kubeconfig names for TLS, and of the node's own certificate."""

    def __init__(self, access: ClusterAccess) -> None:
        self._server = access.server
        origin, pair = access.origin, access.key_pair
        source, user = origin.source, origin.user
        self._ca = Source(access.server.ca, source, origin.cluster, "certificate-authority")
        self.certificate = Source(pair.certificate if pair else None, source, user, "client-certificate")
        self._key = Source(pair.key if pair else None, source, user, "client-key")
        self._made = Source(None, source, user, "exec")
        self._own = FileContent(access.own.path) if access.own else None
        self._own_name = access.own.common_name if access.own else ""
        self._own_read: tuple[bytes, Certificate] | None = None

    @property
    def are_files(self) -> bool:
        """True if another program may renew any of it."""
        return self._own is not None or any(one.is_file for one in self._sources)

    @property
    def _sources(self) -> tuple[Source, ...]:
        return self._ca, self.certificate, self._key

    @property
    def _shown(self) -> Source:
        """Where the certificate is from that is shown."""
        return self.certificate if self.certificate.is_given else self._made

    def place(self, texts: Texts) -> str:
        """Where the certificate of these texts is; "" where there is none."""
        if texts.is_own and self._own is not None:
            return self._own.path
        return self.certificate.place if self.certificate.is_given else ""

    def read(self, now: float, now_ns: int) -> Texts:
        """Return the texts that hold at this time (Trio's clock in seconds, and the wall clock). May hang as a file
        system does. Raises MaterialUnusable."""
        ca = self._ca.read(now)
        own = self._read_own(now)
        try:
            given = self.certificate.read(now), self._key.read(now)
        except MaterialUnusable:
            if own is None or not shows_own(own[1], None, self._own_name, now_ns):
                raise
            given = b"", b""
        if own is not None and shows_own(own[1], _certificate(given[0]), self._own_name, now_ns):
            return Texts(ca, own[0], own[0], is_own=True)
        return Texts(ca, *given)

    def _read_own(self, now: float) -> tuple[bytes, Certificate] | None:
        """The node's own certificate; None where there is none that can be shown: the kubeconfig's is, then."""
        if self._own is None:
            return None
        try:
            pem = self._own.look(now)
            if self._own_read is None or self._own_read[0] != pem:
                self._own_read = pem, read_pair(pem, pem)
            return self._own_read
        except FileNotFoundError:
            return None
        except CertificateUnusable as error:
            log.debug("The node's own certificate in %s cannot be shown: %s", self._own.path, error)
            return None
        except OSError as error:
            # A failure of a moment, as of too many open files: the kubeconfig's may have ended long ago.
            log.debug("The node's own certificate in %s cannot be read: %s", self._own.path, error)
            return self._own_read

    def uses_own(self, own: Certificate, now_ns: int) -> bool:
        """True if this certificate of the node's own is used, beside what the kubeconfig was last seen to give."""
        if self._own is None:
            return True  # it is the kubeconfig's
        return counts_as_held(own, _certificate(self.certificate.last()), self._own_name, now_ns)

    def made(self, texts: Texts, before: Tls | None, made_pem: bytes = b"") -> Tls:
        """TLS of these texts: ``before``, where nothing has changed since. ``made_pem`` is a certificate with its key
        that a plugin made. Raises MaterialUnusable."""
        made_pem = b"" if texts.certificate else made_pem
        if before is not None and (before.texts, before.made_pem) == (texts, made_pem):
            return before
        ours = joined(texts.certificate or made_pem, texts.key or made_pem)
        try:
            found = self._checked(texts.certificate or made_pem, texts.key or made_pem) if ours else None
            return Tls(texts, made_pem, self._context(texts.ca, ours), found)
        except OSError as error:  # TLS takes a certificate from a file only: one more than may be open, say
            why = f"it cannot be given to TLS: {error.strerror or error}"
            raise self._shown.unusable(why, "see how many files this agent has open, and may have") from error

    def last_ca(self) -> bytes:
        """The authority's text when it was last read."""
        return self._ca.last()

    def forget(self) -> None:
        """Read every file again, whatever its metadata say."""
        for one in self._sources:
            one.forget()
        if self._own is not None:
            self._own.forget()

    def _checked(self, certificate: bytes, key: bytes) -> Certificate:
        key_source = self._key if self._key.is_given else self._made
        try:
            return read_pair(certificate, key)
        except KeyUnusable as error:
            raise key_source.unusable(str(error), "give the key that the certificate was made with") from error
        except CertificateUnusable as error:
            raise self._shown.unusable(str(error), "give a certificate in PEM") from error

    def _context(self, ca: bytes, ours: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # As Go: whatever the authority's file names is trusted, be it a root or not.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        if self._server.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif ca:
            self._trust(context, ca)
        else:
            context.load_default_certs()
        if ours:
            show(context, ours)
        return context

    def _trust(self, context: ssl.SSLContext, ca: bytes) -> None:
        """Have the context trust the authorities of ``ca``. Like Go, unreadable ones are skipped."""
        # Text that is not ASCII can only be a comment, as the names that tools write above each certificate.
        text = ca.decode("ascii", "ignore")
        blocks = certificate_texts(text)
        damaged: list[tuple[int, Exception]] = []
        for number, block in enumerate(blocks or [text], 1):
            try:
                context.load_verify_locations(cadata=block)
            except (ssl.SSLError, ValueError, TypeError) as error:
                damaged.append((number, error))
        if len(damaged) == max(1, len(blocks)):
            first = damaged[0][1]
            why = f"there is no certificate in it: {_reason(first)}"
            raise self._ca.unusable(why, "give the certificate of the cluster's authority in PEM") from first
        if damaged:
            numbers = ", ".join(f"{number} ({_reason(problem)})" for number, problem in damaged)
            log.warning("Damaged certificates among the %d in %s: %s", len(blocks), self._ca.place, numbers)


def _certificate(pem: bytes) -> Certificate | None:
    try:
        return read_certificate(pem)
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else None) or str(error)


class Source:
    """Owns what was last read of one text, in PEM, from wherever the kubeconfig ``source`` has it: in the field
    ``name`` at ``path``, or that for data."""

    def __init__(self, material: Material | None, source: str, path: str, name: str) -> None:
        self._data = material if isinstance(material, bytes) else b""
        self._file = FileContent(material.path) if isinstance(material, File) else None
        self._source = source
        self._path = member_path(path, f"{name}-data" if self._data else name)

    @property
    def is_file(self) -> bool:
        """True if it is in a file."""
        return self._file is not None

    @property
    def is_given(self) -> bool:
        """True if there is one at all."""
        return self.is_file or bool(self._data)

    @property
    def place(self) -> str:
        """Where it is, for an operator to find it."""
        return (f"{self._file.path}, of " if self._file else "") + f"{self._path} in {self._source}"

    def read(self, now: float) -> bytes:
        """Return the text; b"" when none is named. Raises MaterialUnusable, for an empty file too: to show no
        certificate, or to trust this machine's authorities, would not be what was meant."""
        if self._file is None:
            return self._data
        try:
            text = self._file.look(now)
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError)
            remedy = (
                "put the file there, or correct the path" if is_gone else "have a file there that this agent can read"
            )
            raise self.unusable(error.strerror or str(error), remedy) from error
        if not text.strip():
            raise self.unusable("the file is empty", "put there what belongs there")
        return text

    def last(self) -> bytes:
        """The text when it was last read."""
        return self._data if self._file is None else self._file.last

    def forget(self) -> None:
        """Read it again, whatever its metadata say."""
        if self._file is not None:
            self._file.forget()

    def unusable(self, why: str, remedy: str) -> MaterialUnusable:
        """The error that says so of this text."""
        value = f'"{self._file.path}": {why}' if self._file else f"{why} (its value is not shown)"
        return MaterialUnusable(str(Fault(self._source, None, self._path, f"Invalid value: {value}", remedy)))
