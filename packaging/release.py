"""Builds, signs and verifies a release, and tags its commit. It publishes nothing.

    python packaging/release.py --key ~/.ssh/trikubelet-releases

Checks first, because each of them costs less than a build: the tree is clean, the version is the same everywhere and
has a section in CHANGELOG.md, the contacts are no placeholders, and the key is the documented one and lies outside of
the checkout. The tag comes last, once everything that was signed has been verified. RELEASING.md has the whole way.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import contacts
import provenance
import versions

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMS: Final = "SHA256SUMS"
OUTPUT: Final = "dist/release"
NOT_ARTEFACTS: Final = re.compile(r"SHA256SUMS|.*\.sig|.*\.provenance\.json")
PRIVATE_KEY: Final = "^-----BEGIN [A-Z ]*PRIVATE KEY-----"


class Failed(Exception):
    """The release cannot be made."""


class Release:
    """One release of the checkout ``top``, signed by the key."""

    def __init__(self, *, top: Path, key: Path, output: Path) -> None:
        self.top = top
        self.key = key
        self.output = output
        self.version = ""
        self.commit = ""
        self.project_url = ""

    @property
    def tag(self) -> str:
        """The name of the tag."""
        return f"v{self.version}"

    def check(self) -> None:
        """Check everything that can be checked before the build. Raises Failed."""
        self._check_clean("commit or remove them first")
        found = versions.stated(self.top)
        if different := versions.disagreement(found):
            raise Failed(f"the version is not the same everywhere: {different}")
        self.version = found[versions.PLACES[0][0]]
        self.commit = self._git("rev-parse", "HEAD").strip()
        if self._git("tag", "--list", self.tag):
            raise Failed(f"the tag {self.tag} exists already (raise the version; a release is never replaced)")
        heading = rf"^## \[{re.escape(self.version)}\] - \d{{4}}-\d\d-\d\d$"
        if not re.search(heading, (self.top / "CHANGELOG.md").read_text(), re.MULTILINE):
            raise Failed(f"CHANGELOG.md has no heading '## [{self.version}] - YYYY-MM-DD' (name the changes below it)")
        if keys := self._tracked_private_keys():
            raise Failed(f"a private key is committed: {keys} (remove it from the history, and use it no more)")
        self._check_contacts()

    def build(self, command: str) -> None:
        """Run the build and describe what it made. Raises Failed."""
        started = _now()
        shutil.rmtree(self.output, ignore_errors=True)  # nothing of an earlier build is signed
        try:
            built = subprocess.run(shlex.split(command), cwd=self.top, check=False)
        except OSError as error:
            raise Failed(f"the build failed: cannot run {command!r}: {error.strerror}") from error
        if built.returncode:
            raise Failed(f"the build failed: {command!r} ended with {built.returncode}")
        self._check_clean("the build must not change the tree")
        self._archive_source()
        artefacts = self._artefacts()
        if unnamed := [path.name for path in artefacts if self.version not in path.name]:
            raise Failed(
                f"not of version {self.version}: {', '.join(unnamed)} (the build makes artefacts of another version)"
            )
        told = provenance.statement(
            provenance.Build(self.project_url, self.version, self.commit, command, started, _now()),
            artefacts=artefacts,
            top=self.top,
        )
        self._statement.write_text(json.dumps(told, indent=2) + "\n")
        summed = sorted([*artefacts, self._statement])
        (self.output / SUMS).write_text("".join(f"{provenance.digest(path)}  {path.name}\n" for path in summed))

    def sign(self) -> None:
        """Sign the checksums, and with them every file, and the statement. Raises Failed."""
        for path in self._signed:
            path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
            _run(["ssh-keygen", "-q", "-Y", "sign", "-f", self.key, "-n", contacts.IDENTITY, path], self.top)

    def verify(self) -> None:
        """Verify as a user would: the signatures, then the checksums, then the statement. Raises Failed."""
        for path in self._signed:
            words = ["ssh-keygen", "-Y", "verify", "-f", contacts.SIGNERS, "-I", contacts.IDENTITY]
            words += ["-n", contacts.IDENTITY, "-s", f"{path}.sig"]
            _run(words, self.top, given=path.read_bytes())
        _run(["sha256sum", "--check", "--strict", "--quiet", SUMS], self.output)
        summed = {line.split("  ", 1)[1] for line in (self.output / SUMS).read_text().splitlines()}
        present = {path.name for path in [*self._artefacts(), self._statement]}
        if summed != present:
            raise Failed(f"{SUMS} does not name exactly the files that are there: {sorted(summed ^ present)}")
        if wrong := provenance.mismatches(json.loads(self._statement.read_text()), directory=self.output):
            raise Failed(f"{self._statement.name} does not match: {', '.join(wrong)}")

    def mark(self) -> None:
        """Tag the commit, signed, and verify the tag. Raises Failed, and leaves no tag then."""
        signing = ["-c", "gpg.format=ssh", "-c", f"user.signingkey={self.key}"]
        self._git(*signing, "tag", "--sign", "--message", f"trikubelet {self.version}", self.tag, self.commit)
        try:
            known = f"gpg.ssh.allowedSignersFile={self.top / contacts.SIGNERS}"
            self._git("-c", "gpg.format=ssh", "-c", known, "verify-tag", self.tag)
        except Failed:
            self._git("tag", "--delete", self.tag)
            raise

    @property
    def _statement(self) -> Path:
        return self.output / f"trikubelet-{self.version}.provenance.json"

    @property
    def _signed(self) -> tuple[Path, ...]:
        return self.output / SUMS, self._statement

    def _artefacts(self) -> list[Path]:
        return sorted(path for path in self.output.iterdir() if not NOT_ARTEFACTS.fullmatch(path.name))

    def _check_clean(self, remedy: str) -> None:
        if changed := self._git("status", "--porcelain").splitlines():
            raise Failed(f"the tree is not clean: {', '.join(line[3:] for line in changed)} ({remedy})")

    def _check_contacts(self) -> None:
        try:
            known = contacts.read(self.top)
        except contacts.Faulty as error:
            raise Failed(str(error)) from error
        if names := known.placeholders():
            raise Failed(f"still placeholders: {', '.join(names)} (write the real ones into {contacts.PLACE})")
        self.project_url = known.project_url
        if self.key.is_relative_to(self.top):
            raise Failed(f"the key {self.key} lies in the checkout (keep it where it cannot be committed)")
        public = _run(["ssh-keygen", "-y", "-f", self.key], self.top)
        if public.split()[:2] != known.public_key.split()[:2]:
            raise Failed(f"{self.key} is not the documented key (its public half is public_key in {contacts.PLACE})")
        stale = [path for path, text in contacts.filled(self.top, known).items() if not _holds(path, text)]
        if stale:
            raise Failed(f"{stale[0].relative_to(self.top)} differs from {contacts.PLACE} (run packaging/contacts.py)")

    def _tracked_private_keys(self) -> str:
        found = subprocess.run(
            ["git", "grep", "-I", "-l", "-E", PRIVATE_KEY], cwd=self.top, capture_output=True, text=True, check=False
        )
        return ", ".join(found.stdout.split())

    def _archive_source(self) -> None:
        if not self.output.is_dir():
            raise Failed(f"the build left nothing in {self.output}")
        name = f"trikubelet-{self.version}"
        words = ["git", "archive", "--format=tar", f"--prefix={name}/", self.commit]
        packed = subprocess.run(words, cwd=self.top, capture_output=True, check=True).stdout
        # Without a time of its own in it: the same commit gives the same bytes.
        (self.output / f"{name}.tar.gz").write_bytes(gzip.compress(packed, mtime=0))

    def _git(self, *words: str) -> str:
        return _run(["git", *words], self.top)


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _run(words: Sequence[str | Path], directory: Path, *, given: bytes | None = None) -> str:
    """The command's output. Standard input stays the terminal's, where a passphrase may be asked for."""
    try:
        done = subprocess.run(words, cwd=directory, input=given, capture_output=True, check=False)
    except OSError as error:
        raise Failed(f"cannot run {words[0]}: {error.strerror} (install it)") from error
    if done.returncode:
        told = (done.stderr + done.stdout).decode(errors="replace").strip()
        raise Failed(f"{shlex.join(map(str, words))}: {told}")
    return done.stdout.decode()


def main() -> int:
    """Make the release; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--key", required=True, help="the path of the private key that signs")
    parser.add_argument("--build", default="make packages", help="the command that fills the output (%(default)s)")
    asked = parser.parse_args()
    top = contacts.TOP
    release = Release(top=top, key=Path(asked.key).expanduser().resolve(), output=top / OUTPUT)
    try:
        release.check()
        release.build(asked.build)
        release.sign()
        release.verify()
        release.mark()
    except Failed as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(
        f"release: {release.tag} is built, signed, verified and tagged at {release.commit[:12]}\n"
        f"release: publish it: git push origin {release.tag}, and upload {OUTPUT}/*\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
