"""A certificate and its key: read and checked, and given to a TLS context from memory, as Python takes files only."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from trikubelet.core.x509 import read_certificate
from trikubelet.model.certificates import CertificateUnusable, KeyUnusable

if TYPE_CHECKING:
    from trikubelet.model.certificates import Certificate


_MISMATCHES: Final = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""OpenSSL's reasons for a key that is not the certificate's; the last one where it is of another kind: there may be a
certificate for each, and there is none for that."""
_BYTE_ORDER_MARK: Final = "\ufeff".encode()


def show(context: ssl.SSLContext, pem: bytes) -> None:
    """Have the context show the certificates in ``pem``, the first with the key that is in it too. Raises OSError, of
    which ssl.SSLError is one."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            # As some editors save a file: OpenSSL does not find a block that does not begin its line.
            file.write(pem.replace(_BYTE_ORDER_MARK, b""))
        # A password, so that OpenSSL does not ask the terminal for that of an encrypted key.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=b"")
    finally:
        os.close(descriptor)


def joined(certificate_pem: bytes, key_pem: bytes) -> bytes:
    """Both in one text. One text for both is taken once: of a chain, each certificate must be signed by the next."""
    return b"\n".join(dict.fromkeys((certificate_pem, key_pem)))


def read_pair(certificate_pem: bytes, key_pem: bytes) -> Certificate:
    """The certificate of a pair that can be shown. Raises CertificateUnusable, where it is for the key KeyUnusable, and
    OSError where this process has no file left to open."""
    try:
        found = read_certificate(certificate_pem)
    except ValueError as error:
        raise CertificateUnusable(f"there is no certificate in it: {error}") from error
    try:
        show(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), joined(certificate_pem, key_pem))
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            raise KeyUnusable("the certificate belongs to another key") from error
        if b"ENCRYPTED" in key_pem:
            raise KeyUnusable(
                "the key is encrypted, and an agent cannot type its password; openssl pkey -in KEY writes it without"
            ) from error
        raise KeyUnusable(f"there is no key in it: {error.reason or error}") from error
    return found
