"""Certificates on the disk: requests that outlive the process, pairs put in force whole, and what is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from shell.kube.authoritykit import BEGIN, BEGIN_NS, Authority, StoppedClock
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.core.x509 import read_certificate
from trikubelet.kube.certificate_files import (
    ROTATIONS_KEPT_MAX,
    SELF_SIGNED_SECONDS,
    CertificateFiles,
    certificate_of,
    keep_self_signed,
)
from trikubelet.kube.key_pair import read_pair
from trikubelet.kube.new_certificates import self_signed
from trikubelet.model.certificates import (
    CLIENT_SIGNER,
    SERVING_SIGNER,
    CertificateUnusable,
    KeyUnusable,
    Subject,
    node_subject,
)
from trikubelet.model.kubeconfig import File, KeyPair

SUBJECT = node_subject("w1")


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock(BEGIN_NS)


@pytest.fixture
def files(tmp_path: Path, clock: StoppedClock) -> CertificateFiles:
    return CertificateFiles(tmp_path / "pki", "kubelet-client", clock)


def test_without_files_there_is_no_certificate(files: CertificateFiles) -> None:
    assert files.current() is None


LONG_NAME = f"{'n' * 63}.{'o' * 63}.{'d' * 63}.{'e' * 61}"


def test_a_node_with_the_longest_name_gets_its_certificates(
    files: CertificateFiles, tmp_path: Path, clock: StoppedClock
) -> None:
    subject = node_subject(LONG_NAME, [LONG_NAME])
    request = x509.load_pem_x509_csr(files.request(subject, CLIENT_SIGNER).pem)
    assert subject.common_name.encode() in request.public_bytes(Encoding.DER)
    made, key = keep_self_signed(tmp_path / "serving", subject, clock)
    found = read_pair(made.read_bytes(), key.read_bytes())
    assert 253 == len(LONG_NAME)
    assert (f"system:node:{LONG_NAME}", {LONG_NAME}) == (found.common_name, found.names)


def test_a_request_names_the_node_and_proves_its_key(files: CertificateFiles) -> None:
    request = x509.load_pem_x509_csr(files.request(SUBJECT, CLIENT_SIGNER).pem)

    assert request.is_signature_valid
    assert "CN=system:node:w1,O=system:nodes" == request.subject.rfc4514_string()
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert "secp256r1" == key.curve.name


def test_at_every_moment_the_disk_has_the_key_of_the_request_or_the_certificate(
    files: CertificateFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "pki"
    on_disk: list[set[str]] = [set()]

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            on_disk.append({path.name for path in directory.iterdir()})

    request = files.request(SUBJECT, CLIENT_SIGNER)
    monkeypatch.setattr(os, "fsync", fsync)
    unlink = Path.unlink

    def unlink_and_look(path: Path, *, missing_ok: bool = False) -> None:
        if path.name == "kubelet-client.key.tmp":
            assert "kubelet-client-current.pem" in on_disk[-1]
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_and_look)
    files.keep(Authority().sign(request.pem))

    assert {"kubelet-client.key.tmp", "kubelet-client-current.pem"} <= on_disk[-1]
    assert not (directory / "kubelet-client.key.tmp").exists()


def test_a_serving_request_names_addresses_and_hosts(files: CertificateFiles) -> None:
    subject = node_subject("w1", ["w1"], ["10.0.0.1", "fd00::1"])
    request = x509.load_pem_x509_csr(files.request(subject, SERVING_SIGNER).pem)
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert ["w1"] == names.get_values_for_type(x509.DNSName)
    assert ["10.0.0.1", "fd00::1"] == list(map(str, names.get_values_for_type(x509.IPAddress)))


def test_a_restart_in_the_middle_asks_again_under_the_same_name(
    files: CertificateFiles, tmp_path: Path, clock: StoppedClock
) -> None:
    first = files.request(SUBJECT, CLIENT_SIGNER)
    second = CertificateFiles(tmp_path / "pki", "kubelet-client", clock).request(SUBJECT, CLIENT_SIGNER)

    assert first.name == second.name
    assert first.name != files.request(node_subject("w2"), CLIENT_SIGNER).name
    assert first.name != files.request(SUBJECT, SERVING_SIGNER).name


def test_a_dropped_request_is_recreated_with_another_key(files: CertificateFiles) -> None:
    first = files.request(SUBJECT, CLIENT_SIGNER)
    files.drop_request()

    assert first.name != files.request(SUBJECT, CLIENT_SIGNER).name


def test_an_issued_certificate_is_put_in_force_with_its_key_for_the_owner_alone(
    files: CertificateFiles, tmp_path: Path
) -> None:
    kept = files.keep(Authority().sign(files.request(SUBJECT, CLIENT_SIGNER).pem))

    assert kept == files.current()
    assert ("system:node:w1", ("system:nodes",)) == (kept.common_name, kept.organizations)
    assert (BEGIN_NS, BEGIN_NS + 3600 * SECOND_NS) == (kept.not_before_ns, kept.not_after_ns)
    assert kept.valid_at(BEGIN_NS)
    assert not kept.valid_at(BEGIN_NS + 3600 * SECOND_NS)
    target = files.current_path.resolve()
    assert "kubelet-client-2026-11-21-07-00-00.pem" == target.name
    assert 0o600 == stat.S_IMODE(target.stat().st_mode)
    assert {"kubelet-client-current.pem", target.name} == {path.name for path in (tmp_path / "pki").iterdir()}


def test_a_certificate_of_another_key_is_refused_and_the_old_one_stays(files: CertificateFiles, tmp_path: Path) -> None:
    authority = Authority()
    kept = files.keep(authority.sign(files.request(SUBJECT, CLIENT_SIGNER).pem))
    files.request(SUBJECT, CLIENT_SIGNER)
    stranger = CertificateFiles(tmp_path / "other", "kubelet-client", StoppedClock(BEGIN_NS))

    with pytest.raises(CertificateUnusable, match="another key"):
        files.keep(authority.sign(stranger.request(SUBJECT, CLIENT_SIGNER).pem))
    assert kept == files.current()


def test_a_certificate_that_has_ended_is_not_put_in_force(files: CertificateFiles, clock: StoppedClock) -> None:
    issued = Authority().sign(files.request(SUBJECT, CLIENT_SIGNER).pem)
    clock.ns += 3600 * SECOND_NS

    with pytest.raises(CertificateUnusable, match="until 2026-11-21T08:00:00Z; is this machine's clock right"):
        files.keep(issued)
    assert files.current() is None


@pytest.mark.parametrize("content", ["", "not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_that_is_no_certificate_is_named(files: CertificateFiles, content: str) -> None:
    files.current_path.parent.mkdir()
    files.current_path.write_text(content)

    with pytest.raises(CertificateUnusable, match=r"kubelet-client-current\.pem: there is no certificate in it"):
        files.current()


def test_a_certificate_without_its_key_is_named(files: CertificateFiles) -> None:
    pem, _ = self_signed(Subject("w1"), 3600, BEGIN_NS)
    files.current_path.parent.mkdir()
    files.current_path.write_bytes(pem)

    with pytest.raises(CertificateUnusable, match="there is no key in it"):
        files.current()


def test_an_encrypted_key_is_called_that() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    pem, _ = self_signed(Subject("w1"), 3600, BEGIN_NS)

    with pytest.raises(KeyUnusable, match="the key is encrypted"):
        read_pair(pem, locked)


def test_a_key_that_cannot_be_read_is_recreated(files: CertificateFiles, tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki/kubelet-client.key.tmp").write_text("torn")

    request = x509.load_pem_x509_csr(files.request(SUBJECT, CLIENT_SIGNER).pem)
    assert request.is_signature_valid


def test_old_rotations_are_removed(files: CertificateFiles, tmp_path: Path, clock: StoppedClock) -> None:
    authority = Authority()
    for _ in range(ROTATIONS_KEPT_MAX + 3):
        files.keep(authority.sign(files.request(SUBJECT, CLIENT_SIGNER).pem))
        clock.ns += SECOND_NS

    assert ROTATIONS_KEPT_MAX == len(list((tmp_path / "pki").glob("kubelet-client-2*.pem")))
    assert files.current() is not None


def test_a_key_that_cannot_be_removed_is_warned_of(
    files: CertificateFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = tmp_path / "pki" / "kubelet-client.key.tmp"
    key.mkdir(parents=True)

    files.drop_request()

    assert [f"{key} cannot be removed"] == [record.getMessage().rpartition(":")[0] for record in caplog.records]


def test_a_self_signed_certificate_vouches_for_its_names_and_lasts_as_asked() -> None:
    pem, key = self_signed(Subject("w1", (), ["w1"], ["10.0.0.1"]), 3600, BEGIN_NS)
    certificate = x509.load_pem_x509_certificate(pem)

    assert certificate.issuer == certificate.subject
    certificate.verify_directly_issued_by(certificate)
    assert BEGIN + timedelta(hours=1) == certificate.not_valid_after_utc
    assert key.startswith(b"-----BEGIN EC PRIVATE KEY-----")


def test_a_certificate_of_our_own_is_made_once_and_again_when_it_has_ended(tmp_path: Path, clock: StoppedClock) -> None:
    subject = node_subject("w1", ["w1"], ["10.0.0.1", "fd00::1"])
    paths = keep_self_signed(tmp_path / "pki", subject, clock)
    first = [path.read_bytes() for path in paths]

    assert ["kubelet.crt", "kubelet.key"] == [path.name for path in paths]
    assert [0o644, 0o600] == [stat.S_IMODE(path.stat().st_mode) for path in paths]
    made = x509.load_pem_x509_certificate(first[0])
    assert BEGIN + timedelta(seconds=SELF_SIGNED_SECONDS) == made.not_valid_after_utc
    assert frozenset({"w1", "10.0.0.1", "fd00::1"}) == read_certificate(first[0]).names

    assert paths == keep_self_signed(tmp_path / "pki", subject, clock)
    assert first == [path.read_bytes() for path in paths]
    clock.ns += SELF_SIGNED_SECONDS * SECOND_NS
    keep_self_signed(tmp_path / "pki", subject, clock)
    assert first != [path.read_bytes() for path in paths]


def test_a_certificate_that_cannot_be_made_is_an_error_with_the_makers_last_words(
    tmp_path: Path, clock: StoppedClock
) -> None:
    with pytest.raises(OSError, match="ValueError: 'nowhere' does not appear to be an IPv4 or IPv6 address"):
        keep_self_signed(tmp_path, node_subject("w1", [], ["nowhere"]), clock)


def test_a_member_that_asks_for_no_certificate_does_not_load_what_makes_them(
    files: CertificateFiles, tmp_path: Path
) -> None:
    files.keep(Authority().sign(files.request(SUBJECT, CLIENT_SIGNER).pem))
    code = (
        "import pathlib, sys; from trikubelet.app import member, node_api\n"
        "from trikubelet.kube.certificate_files import CertificateFiles\n"
        f"held = CertificateFiles(pathlib.Path({str(tmp_path / 'pki')!r}), 'kubelet-client', None).current()\n"
        "print(held.common_name, 'cryptography' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "system:node:w1 False\n" == said.stdout


def test_pipe_in_place_of_a_certificate_or_key_is_an_error_at_once(
    files: CertificateFiles, tmp_path: Path, clock: StoppedClock
) -> None:
    """The certificate is read by the event loop; the key of a request is replaced as any that is of no use."""
    for name in ("pki/kubelet-client-current.pem", "pki/kubelet-client.key.tmp", "serving/kubelet.key"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    (tmp_path / "serving/kubelet.crt").touch()
    pair = KeyPair(File(str(tmp_path / "pki/kubelet-client-current.pem")), b"")

    for read in (files.current, lambda: certificate_of(pair)):
        with pytest.raises(OSError, match="not a regular file"):
            read()
    with pytest.raises(OSError, match="not a regular file"):
        keep_self_signed(tmp_path / "serving", SUBJECT, clock)
    assert b"CERTIFICATE REQUEST" in files.request(SUBJECT, CLIENT_SIGNER).pem
