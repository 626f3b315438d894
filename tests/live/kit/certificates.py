"""A certificate authority for one control plane of the tests, and the files of what it signs.

Called by ``control_plane.py``. Everybody in a cluster is who the certificate says: the common name is the user, the
organization is the group. One authority signs for servers and clients alike, as kubeadm's does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path

LASTING = timedelta(days=1)


@dataclass(frozen=True)
class Credentials:
    """Where a certificate and its key are, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """Owns the key all of a cluster trusts. ``directory`` is where the files go; it must exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.files = self._write("ca", self._authority.cert_pem, self._authority.private_key_pem)

    def issue(
        self, file: str, user: str, group: str = "", *, names: tuple[str, ...] = (), lasting: timedelta = LASTING
    ) -> Credentials:
        """A new key and a certificate for ``user``, a server's of these host names and addresses if it has any. An
        earlier one of the same ``file`` is replaced, each of the two files in one step."""
        now = datetime.now(UTC)
        issued = self._authority.issue_cert(
            *(names or ("client.test",)),  # Go trusts no certificate with a list of names and none in it
            common_name=user,
            organization_name=group or None,
            not_before=now,
            not_after=now + lasting,
        )
        return self._write(file, issued.cert_chain_pems[0], issued.private_key_pem)

    def _write(self, file: str, certificate: trustme.Blob, key: trustme.Blob) -> Credentials:
        credentials = Credentials(self._directory / f"{file}.crt", self._directory / f"{file}.key")
        write_private(credentials.certificate, certificate.bytes())
        write_private(credentials.key, key.bytes())
        return credentials


def write_private(path: Path, content: bytes) -> None:
    """Writes a file for its owner alone, in one step: a server that watches it never reads a half."""
    beside = path.with_suffix(f"{path.suffix}.new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    beside.rename(path)
