"""Reads names and dates of a node's own certificate from its DER.

Nothing is verified here: OpenSSL, which presents the certificate, checks that it is whole and belongs to its key
(``kube/certificate_files.py``). A full library for certificates is there too, for making keys and requests; loading it
for four fields would permanently cost every node 11 MB.

    Certificate ─► to be signed ─► [0] version, serial, algorithm, issuer, validity, subject, key, … [3] extensions

X.690 (DER), RFC 5280.
"""

from __future__ import annotations

import base64
import ipaddress
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.certificates import Certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"
_COMMON_NAME: Final = bytes.fromhex("550403")
_ORGANIZATION: Final = bytes.fromhex("55040a")
_ALTERNATIVES: Final = bytes.fromhex("551d11")
_UTC_TIME: Final = 0x17
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_DNS, _ADDRESS = 0x82, 0x87


def read_certificate(pem: bytes) -> Certificate:
    """Return the first certificate in a PEM text. Raises ValueError if there is none."""
    der = next(certificate_blocks(pem), None)
    if der is None:
        raise ValueError("no PEM block of a certificate")
    try:
        return _certificate(der)
    except IndexError as error:
        raise ValueError("the certificate is cut off") from error


def certificate_blocks(pem: bytes) -> Iterator[bytes]:
    """Yield the DER of every certificate in a PEM text, in order. Raises ValueError for an incomplete one."""
    # By hand, because a regular expression searches for the end anew at each beginning.
    at = 0
    while (begins := pem.find(_BEGIN, at)) >= 0:
        begins += len(_BEGIN)
        if (ends := pem.find(_END, begins)) < 0:
            return
        yield base64.b64decode(b"".join(pem[begins:ends].split()), validate=True)
        at = ends + len(_END)


def certificate_texts(pem: str) -> list[str]:
    """Return the PEM block of every certificate in a text, in order and unchecked. One without an end ends where the
    next begins."""
    _, *blocks = pem.split(_BEGIN.decode())
    return [_BEGIN.decode() + "".join(block.partition(_END.decode())[:2]) for block in blocks]


def pem_of(der: bytes) -> bytes:
    """Return a certificate's DER as a PEM block, with nothing around it."""
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n".encode()


def _certificate(der: bytes) -> Certificate:
    (_, whole) = _parts(der)[0]
    (_, signed) = _parts(whole)[0]
    fields = _parts(signed)
    if fields[0][0] == _VERSION:
        del fields[0]
    _, _, _, (_, validity), (_, subject), _, *rest = fields
    begins, ends = (_time_ns(*time) for time in _parts(validity))
    named = [(oid, text.decode(errors="replace")) for _, names in _parts(subject) for oid, text in _pairs(names)]
    extensions = [pair for tag, value in rest if tag == _EXTENSIONS for pair in _pairs(_parts(value)[0][1])]
    return Certificate(
        common_name=next((text for oid, text in named if oid == _COMMON_NAME), ""),
        organizations=tuple(text for oid, text in named if oid == _ORGANIZATION),
        not_before_ns=begins,
        not_after_ns=ends,
        names=frozenset(name for oid, value in extensions if oid == _ALTERNATIVES for name in _alternatives(value)),
    )


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """Return the tags and contents of consecutive values. Raises IndexError and ValueError for incomplete ones."""
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        if at + length > len(data):
            raise ValueError("a value is longer than the one that contains it")
        found.append((tag, data[at : at + length]))
        at += length
    return found


def _pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the identifier at the beginning of each sequence, and its last value."""
    for _, pair in _parts(data):
        parts = _parts(pair)
        yield parts[0][1], parts[-1][1]


def _alternatives(value: bytes) -> Iterator[str]:
    for tag, name in _parts(_parts(value)[0][1]):
        if tag == _DNS:
            yield name.decode("ascii")
        elif tag == _ADDRESS:
            yield str(ipaddress.ip_address(name))


def _time_ns(tag: int, text: bytes) -> int:
    digits = text.decode("ascii")
    if tag == _UTC_TIME:  # two digits of a year between 1950 and 2049
        digits = ("20" if digits < "50" else "19") + digits
    return int(datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()) * SECOND_NS
