"""A certificate and its key on the disk, in upstream's layout (``ports.CertificateStore``).

    pki/kubelet-client-2026-11-21-07-01-02.pem    certificate and key together, 0600; one file per rotation
    pki/kubelet-client-current.pem                a link to the newest
    pki/kubelet-client.key.tmp                    the key of a request that is on its way

The key of a request outlives the process: an agent that is restarted while its request waits for approval asks again
with the same key, finds its own request by the name that follows from it, and takes the certificate when it is there.
Everything is written beside its place and moved in, so a reader sees the old or the new and never half of one.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import sync_names, write_durably, write_privately
from trikubelet.kube.file_content import FILE_BYTES_MAX
from trikubelet.kube.key_pair import read_pair
from trikubelet.model.certificates import SELF_SIGNED_NAMES, Certificate, CertificateUnusable, SigningRequest, Subject
from trikubelet.model.kubeconfig import File

if TYPE_CHECKING:
    from trikubelet.model.kubeconfig import KeyPair
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

ROTATIONS_KEPT_MAX: Final = 5
"""Older files of earlier rotations are removed; upstream keeps every one for ever."""
SELF_SIGNED_SECONDS: Final = 365 * 24 * 3600
"""As upstream has it."""
MAKING_SECONDS_MAX: Final = 30.0
"""Half a second on a machine that has nothing else to do."""


class CertificateFiles:
    """Owns one certificate's files: ``<name>-*.pem``, ``<name>-current.pem`` and ``<name>.key.tmp``."""

    def __init__(self, directory: Path, name: str, clock: Clock) -> None:
        self._directory = directory
        self._name = name
        self._clock = clock
        self.current_path = directory / f"{name}-current.pem"
        self._key_path = directory / f"{name}.key.tmp"

    def current(self) -> Certificate | None:
        """The newest certificate, or None when there is none. Raises CertificateUnusable naming the file."""
        try:
            pem = read_plain(self.current_path, FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        try:
            return read_pair(pem, pem)
        except CertificateUnusable as error:
            raise CertificateUnusable(f"{self.current_path}: {error}") from error

    def request(self, subject: Subject, purpose: str) -> SigningRequest:
        """The request for the next certificate, with the key of one that is on its way if there is such a key."""
        # Loaded only here: a node asks for a certificate once or twice a year.
        from trikubelet.kube.new_certificates import new_key, signing_request  # noqa: PLC0415

        try:
            pem, public = signing_request(read_plain(self._key_path, FILE_BYTES_MAX), subject)
        except (OSError, ValueError):  # no key, or none that can be used: a new one costs nothing
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_privately(self._key_path, new_key())
            pem, public = signing_request(read_plain(self._key_path, FILE_BYTES_MAX), subject)
        names = "\n".join([subject.common_name, *subject.organizations, *sorted(subject.names)])
        digest = hashlib.sha256(public + purpose.encode() + names.encode()).hexdigest()
        return SigningRequest(f"node-csr-{digest[:43]}", pem)

    def keep(self, certificate_pem: bytes) -> Certificate:
        """Put an issued certificate in force with its key. Raises CertificateUnusable when it is none, another key's,
        or over: its request may have been answered long ago, while no agent lived."""
        try:
            key_pem = read_plain(self._key_path, FILE_BYTES_MAX)
        except FileNotFoundError as error:
            raise CertificateUnusable(f"{self._key_path}: the key of the certificate's request is gone") from error
        found = read_pair(certificate_pem, key_pem)
        if found.not_after_ns <= self._clock.now_ns():
            ended = rfc3339(found.not_after_ns)
            raise CertificateUnusable(f"the certificate was valid until {ended}; is this machine's clock right?")
        stamp = datetime.fromtimestamp(self._clock.now_ns() // SECOND_NS, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        target = self._directory / f"{self._name}-{stamp}.pem"
        write_privately(target, certificate_pem.rstrip() + b"\n" + key_pem)
        link = self._directory / f"{self._name}-current.pem.new"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        link.replace(self.current_path)
        sync_names(self._directory)  # before the key of the request goes: one of the two is always there
        self.drop_request()
        self._remove_old(target)
        return found

    def drop_request(self) -> None:
        """Forget the key of a request: the next request has a new one. Logs a warning if it cannot be removed."""
        _remove(self._key_path)

    def _remove_old(self, newest: Path) -> None:
        rotations = sorted(self._directory.glob(f"{self._name}-[0-9]*.pem"))
        for path in rotations[:-ROTATIONS_KEPT_MAX]:
            if path != newest:
                _remove(path)


def _remove(path: Path) -> None:
    """Remove what is not needed any more, which is no reason for anything to fail."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror)


def certificate_of(pair: KeyPair) -> Certificate:
    """The certificate that a kubeconfig shows. Raises CertificateUnusable naming the file, and OSError."""
    where = f"{pair.certificate.path}: " if isinstance(pair.certificate, File) else ""
    try:
        return read_pair(*(_text_of(one) for one in (pair.certificate, pair.key)))
    except CertificateUnusable as error:
        raise CertificateUnusable(f"{where}{error}") from error


def _text_of(given: bytes | File) -> bytes:
    return given if isinstance(given, bytes) else read_plain(given.path, FILE_BYTES_MAX)


def keep_self_signed(directory: Path, subject: Subject, clock: Clock) -> tuple[Path, Path]:
    """Where the self-signed certificate lies, and where its key. Made when there is none, or none that is good; names
    that changed are no reason, because no client trusts it by its names. Raises OSError."""
    certificate, key = (directory / name for name in SELF_SIGNED_NAMES)
    try:
        pair = (read_plain(path, FILE_BYTES_MAX) for path in (certificate, key))
        if read_pair(*pair).valid_at(clock.now_ns()):
            return certificate, key
    except (FileNotFoundError, CertificateUnusable):
        pass  # the first start, or one was broken off between the two files
    certificate_pem, key_pem = _made_apart(subject, clock)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_privately(key, key_pem)
    write_durably(certificate, certificate_pem)  # readable by all, like upstream's: monitors look when it ends
    return certificate, key


def _made_apart(subject: Subject, clock: Clock) -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, made by a process of its own. Raises OSError."""
    asked = msgspec.json.encode((subject, SELF_SIGNED_SECONDS, clock.now_ns()))
    where = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "trikubelet.kube.new_certificates"]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and our own arguments
            command, input=asked, env=where, capture_output=True, timeout=MAKING_SECONDS_MAX, check=True
        )
    except subprocess.SubprocessError as error:
        said = error.stderr.decode(errors="replace").strip() if isinstance(error, subprocess.CalledProcessError) else ""
        raise OSError(errno.EIO, said.rpartition("\n")[2] or str(error)) from error
    return msgspec.json.decode(done.stdout, type=tuple[bytes, bytes])
