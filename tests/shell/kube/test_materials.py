"""Certificates of a kubeconfig that cannot be used: each is named by its field, its file and what to do."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from trustme import CA, KeyType

from shell.kube.apikit import client_pem
from trikubelet.kube.materials import Materials, MaterialUnusable
from trikubelet.model.kubeconfig import ClusterAccess, File, KeyPair, Origin, OwnPair, Server

if TYPE_CHECKING:
    from trikubelet.model.kubeconfig import Material

ORIGIN = Origin("/etc/k.conf", "clusters[0].cluster", "users[1].user")
CERTIFICATE, KEY = "users[1].user[client-certificate", "users[1].user[client-key"
AUTHORITY = "clusters[0].cluster[certificate-authority"
OTHER_KEY = "the certificate belongs to another key"


class Given:
    """Texts by their names, as data or as files below a directory."""

    def __init__(self, authority: CA, directory: Path, *, as_data: bool) -> None:
        issued = authority.issue_cert(common_name="a")
        self._texts = {
            "certificate": issued.cert_chain_pems[0].bytes(),
            "key": issued.private_key_pem.bytes(),
            "marked": b"\xef\xbb\xbf" + issued.private_key_pem.bytes(),
            "of another kind": authority.issue_cert(common_name="b", key_type=KeyType.RSA).private_key_pem.bytes(),
            "other": authority.issue_cert(common_name="b").private_key_pem.bytes(),
            "authority": authority.cert_pem.bytes(),
            "rubbish": b"-----BEGIN RUBBISH",
            "binary": b"\xff\xfe\xe9",
            "empty": b" \n",
        }
        self._directory = directory
        self._as_data = as_data

    def __getitem__(self, name: str) -> Material:
        if self._as_data:
            return self._texts[name]
        path = self._directory / name
        if name in self._texts:
            path.write_bytes(self._texts[name])
        return File(str(path))


def fault(certificate: Material, key: Material, ca: Material) -> str:
    access = ClusterAccess(Server("https://x", ca), KeyPair(certificate, key), origin=ORIGIN)
    materials = Materials(access)
    with pytest.raises(MaterialUnusable) as caught:
        materials.made(materials.read(0, 0), None)
    return str(caught.value)


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "field", "wrong", "why"),
    [
        ("certificate", "nowhere", "authority", KEY, "nowhere", "No such file or directory (put the file there"),
        ("certificate", "other", "authority", KEY, "other", f"{OTHER_KEY} (give the key that the certificate was"),
        ("certificate", "of another kind", "authority", KEY, "of another kind", f"{OTHER_KEY} (give the key that"),
        ("certificate", "certificate", "authority", KEY, "certificate", "there is no key in it"),
        ("nowhere", "key", "authority", CERTIFICATE, "nowhere", "No such file or directory"),
        ("empty", "key", "authority", CERTIFICATE, "empty", "the file is empty"),
        ("rubbish", "key", "authority", CERTIFICATE, "rubbish", "there is no certificate in it"),
        (".", "key", "authority", CERTIFICATE, ".", "Is a directory (have a file there that this agent can read)"),
        ("certificate", "key", "nowhere", AUTHORITY, "nowhere", "No such file or directory"),
        ("certificate", "key", "rubbish", AUTHORITY, "rubbish", "there is no certificate in it"),
        ("certificate", "key", "binary", AUTHORITY, "binary", "there is no certificate in it"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_field(
    certificate: str, key: str, ca: str, field: str, wrong: str, why: str, authority: CA, tmp_path: Path
) -> None:
    given = Given(authority, tmp_path, as_data=False)

    expected = f'/etc/k.conf: {field}]: Invalid value: "{tmp_path / wrong}": {why}'
    assert fault(given[certificate], given[key], given[ca]).startswith(expected)


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "field", "why"),
    [
        ("certificate", "other", "authority", KEY, f"{OTHER_KEY} (its value is not shown) (give the key that the"),
        ("rubbish", "key", "authority", CERTIFICATE, "there is no certificate in it"),
        ("certificate", "key", "rubbish", AUTHORITY, "there is no certificate in it"),
    ],
)
def test_data_that_cannot_be_used_is_named_by_its_field_and_not_shown(
    certificate: str, key: str, ca: str, field: str, why: str, authority: CA, tmp_path: Path
) -> None:
    given = Given(authority, tmp_path, as_data=True)

    assert fault(given[certificate], given[key], given[ca]).startswith(
        f"/etc/k.conf: {field}-data]: Invalid value: {why}"
    )


def test_a_key_may_begin_with_a_byte_order_mark(authority: CA, tmp_path: Path) -> None:
    given = Given(authority, tmp_path, as_data=False)
    marked = tmp_path / "marked.pem"
    marked.write_bytes(b"\xef\xbb\xbf" + client_pem(authority, "both"))
    for pair in (KeyPair(given["certificate"], given["marked"]), KeyPair(File(str(marked)), File(str(marked)))):
        materials = Materials(ClusterAccess(Server("https://x"), pair))
        assert materials.made(materials.read(0, 0), None).certificate is not None


@pytest.mark.parametrize("problem", ["unreadable", "gone"])
def test_a_node_shows_its_own_certificate_though_it_cannot_be_read_for_a_moment(
    authority: CA, tmp_path: Path, problem: str
) -> None:
    own, given = tmp_path / "own.pem", client_pem(authority, "given")
    own.write_bytes(client_pem(authority, "mine"))
    materials = Materials(ClusterAccess(Server("https://x"), KeyPair(given, given), own=OwnPair(str(own), "mine")))
    assert materials.read(0, 0).is_own
    own.unlink()
    if problem == "unreadable":
        own.mkdir()

    assert (problem == "unreadable") is materials.read(100, 0).is_own


def test_what_has_not_changed_is_what_it_was_before(authority: CA, tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.write_bytes(client_pem(authority, "first"))
    pair = KeyPair(File(str(file)), File(str(file)))
    materials = Materials(ClusterAccess(Server("https://x", authority.cert_pem.bytes()), pair))

    before = materials.made(materials.read(0, 0), None)
    assert before is materials.made(materials.read(100, 0), before)
    file.write_bytes(client_pem(authority, "second"))
    after = materials.made(materials.read(200, 0), before)
    assert ["first", "second"] == [tls.certificate.common_name for tls in (before, after) if tls.certificate]
    assert before.context is not after.context


@pytest.mark.parametrize("damage", ["torn base64", "other base64", "no end"])
def test_a_damaged_certificate_of_an_authoritys_file_costs_the_others_nothing(
    damage: str, authority: CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pem = authority.cert_pem.bytes()
    damaged = {
        "torn base64": pem.replace(b"MII", b"M!!"),
        "other base64": pem.replace(b"MII", b"AAA"),
        "no end": pem.partition(b"-----END")[0],
    }[damage]
    file = tmp_path / "ca.crt"
    file.write_bytes(pem + damaged + CA().cert_pem.bytes())
    materials = Materials(ClusterAccess(Server("https://x", File(str(file))), origin=ORIGIN))

    assert 2 == len(materials.made(materials.read(0, 0), None).context.get_ca_certs())
    (said,) = caplog.messages
    assert said.startswith(f"Damaged certificates among the 3 in {file}, of {AUTHORITY}] in /etc/k.conf: 2 (")


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", "# Beh\u00f6rde\n".encode(), b"# \xff\n"])
def test_an_authoritys_file_may_have_comments_in_any_script(before: bytes, authority: CA) -> None:
    pem = authority.cert_pem.bytes()
    materials = Materials(ClusterAccess(Server("https://x", before + pem), origin=ORIGIN))
    context = materials.made(materials.read(0, 0), None).context
    assert [ssl.PEM_cert_to_DER_cert(pem.decode())] == context.get_ca_certs(binary_form=True)
