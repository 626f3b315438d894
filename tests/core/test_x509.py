"""Certificates read by ourselves: as the library that made them meant it, and ValueError for everything else."""

from __future__ import annotations

import base64
import ipaddress
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.timestamps import SECOND_NS
from trikubelet.core.x509 import read_certificate
from trikubelet.model.certificates import Certificate

KEY = ec.generate_private_key(ec.SECP256R1())
TIMES = st.datetimes(datetime(1951, 1, 1), datetime(2110, 1, 1), timezones=st.just(UTC))
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60).filter(
    lambda one: len(one.encode()) <= 64  # as long as a name may be
)
HOSTS = st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,200}", fullmatch=True), max_size=3)
ADDRESSES = st.lists(st.ip_addresses(), max_size=3)


def made(
    name: str,
    organizations: list[str],
    begins: datetime,
    ends: datetime,
    hosts: list[str],
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address],
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = KEY,
) -> bytes:
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    subject += [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    names = [*map(x509.DNSName, hosts), *map(x509.IPAddress, addresses)]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def ns(time: datetime) -> int:
    return int(time.replace(microsecond=0).timestamp()) * SECOND_NS


@given(WORDS, st.lists(WORDS, max_size=3), TIMES, st.timedeltas(timedelta(0), timedelta(30000)), HOSTS, ADDRESSES)
def test_it_is_read_as_it_was_made(
    name: str,
    organizations: list[str],
    begins: datetime,
    lasts: timedelta,
    hosts: list[str],
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address],
) -> None:
    pem = made(name, organizations, begins, begins + lasts, hosts, addresses)
    names = frozenset([*hosts, *map(str, addresses)])

    expected = Certificate(name, tuple(organizations), ns(begins), ns(begins + lasts), names)
    assert expected == read_certificate(b"-----BEGIN OTHER-----\nAAAA\n-----END OTHER-----\n" + pem)


def test_of_a_chain_the_first_counts_whatever_its_key() -> None:
    key = rsa.generate_private_key(65537, 2048)
    times = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    chain = made("leaf", [], *times, [], [], key) + made("authority", [], *times, [], [])

    assert "leaf" == read_certificate(chain).common_name


SOUND = made("n", ["o"], datetime(2026, 1, 1, tzinfo=UTC), datetime(2060, 1, 1, tzinfo=UTC), ["h"], [])
LINES = SOUND.splitlines(keepends=True)


@pytest.mark.parametrize("pem", [b"", b"torn", LINES[0] + LINES[1], LINES[0] + LINES[-1], LINES[0] + b"%%" + LINES[-1]])
def test_what_is_no_certificate_is_a_value_error(pem: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - in whatever words
        read_certificate(pem)


def test_a_text_full_of_beginnings_takes_no_longer_than_it_is_long() -> None:
    # A search for the end at each of them takes hours, which the test's timeout ends.
    with pytest.raises(ValueError, match="no PEM block"):
        read_certificate(b"-----BEGIN CERTIFICATE-----" * 500_000)


def test_an_end_within_a_beginning_is_none() -> None:
    with pytest.raises(ValueError, match="no PEM block"):
        read_certificate(b"-----BEGIN CERTIFICATE-----END CERTIFICATE-----")


@given(st.data())
def test_damage_is_a_value_error_or_goes_unnoticed(data: st.DataObject) -> None:
    der = bytearray(x509.load_pem_x509_certificate(SOUND).public_bytes(Encoding.DER))
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    del der[data.draw(st.integers(1, len(der))) :]

    with suppress(ValueError):
        read_certificate(LINES[0] + base64.encodebytes(der) + LINES[-1])
