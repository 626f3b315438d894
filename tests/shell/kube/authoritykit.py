"""A cluster's signer of certificates, and a clock that stands still, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from trikubelet.core.timestamps import SECOND_NS

BEGIN = datetime(2026, 11, 21, 7, 0, 0, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * SECOND_NS


class StoppedClock:
    """A wall clock that moves when told."""

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def now_ns(self) -> int:
        return self.ns


class Authority:
    """A cluster's signer."""

    def __init__(self, life_seconds: float = 3600.0) -> None:
        self._life = timedelta(seconds=life_seconds)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])

    def sign(self, request_pem: bytes, at: datetime = BEGIN) -> bytes:
        request = x509.load_pem_x509_csr(request_pem)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._name)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(at)
            .not_valid_after(at + self._life)
        )
        for extension in request.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
