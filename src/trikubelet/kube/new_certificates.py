"""Makes keys, requests for certificates and self-signed certificates.

It alone loads the library for that, 11 MB, so it is loaded by who needs it when he needs it, and for the certificate
that every node makes at its first start in a process of its own:

    python -m trikubelet.kube.new_certificates     (subject, seconds, now) on standard input ─► (certificate, key)
"""

from __future__ import annotations

import ipaddress
import sys
import warnings
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.certificates import Subject

_CURVES = {"ECDSAP256": ec.SECP256R1(), "ECDSAP384": ec.SECP384R1(), "ECDSAP521": ec.SECP521R1()}


def new_key() -> bytes:
    """A private key, in PEM."""
    return _pem_of(ec.generate_private_key(ec.SECP256R1()))


def pod_key(key_type: str) -> tuple[bytes, bytes]:
    """A pod's private key in PEM (PKCS #8), and a request without a subject that is signed with it (PKCS #10, DER).
    Raises ValueError for a type of key that the API does not have."""
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
    digest: hashes.SHA256 | None = hashes.SHA256()
    match key_type:
        case "ED25519":
            key, digest = ed25519.Ed25519PrivateKey.generate(), None
        case "ECDSAP256" | "ECDSAP384" | "ECDSAP521":
            key = ec.generate_private_key(_CURVES[key_type])
        case "RSA3072" | "RSA4096":
            key = rsa.generate_private_key(65537, int(key_type.removeprefix("RSA")))
        case _:
            raise ValueError(f"no key of type {key_type!r} can be made")
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), request.public_bytes(Encoding.DER)


def signing_request(key_pem: bytes, subject: Subject) -> tuple[bytes, bytes]:
    """A request for a certificate in PEM (PKCS #10), signed with a key; the key's public half in DER. Raises ValueError
    for a key that ``new_key`` has not made."""
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not a key of an elliptic curve")  # noqa: TRY004 - it is about what the text says
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name_of(subject))
    if subject.names:
        builder = builder.add_extension(_alternatives(subject), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return pem, key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def self_signed(subject: Subject, seconds: int, now_ns: int) -> tuple[bytes, bytes]:
    """A self-signed certificate, and its key, both in PEM: for a server whose cluster signs none."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
    name = _name_of(subject)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(datetime.fromtimestamp(now.timestamp() + seconds, UTC))
        .add_extension(_alternatives(subject), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _pem_of(key)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _name_of(subject: Subject) -> x509.Name:
    with warnings.catch_warnings():
        # RFC 5280 ends a common name after 64 characters, and X.509 warns. A node's name alone may have 253, and API
        # servers, as everything written in Go, take it whole.
        warnings.simplefilter("ignore", UserWarning)
        common_name = x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name, _validate=False)
    return x509.Name(
        [*(x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in subject.organizations), common_name]
    )


def _alternatives(subject: Subject) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            *map(x509.DNSName, subject.dns_names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in subject.addresses),
        ]
    )


if __name__ == "__main__":
    asked, lasts, now = msgspec.json.decode(sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.json.encode(self_signed(Subject(**asked), lasts, now)))
