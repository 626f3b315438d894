"""``packaging/release.py``: releases of a throwaway checkout with stub artefacts, signed by throwaway keys."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

TOP = Path(__file__).parents[3]
PAGES = ("SECURITY.md", "RELEASING.md", "MAINTAINERS.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
FILES = (
    *PAGES,
    "Cargo.lock",
    "pyproject.toml",
    ".github/ISSUE_TEMPLATE/config.yml",
    "packaging/packages/go.sum",
    "packaging/packages/kubelet.yaml",
    "packaging/packages/trikubelet.yaml",
    "requirements/build.txt",
    "requirements/release.txt",
    "requirements/runtime.txt",
    "rust/relist/Cargo.toml",
    "src/trikubelet/__init__.py",
)
STUB = "mkdir dist/release; cd dist/release; echo deb >trikubelet_{0}-1_amd64.deb; echo one >trikubelet-{0}-x86_64"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "LANG": "C.UTF-8",
}


@dataclass
class Checkout:
    """A throwaway checkout that is ready for a release, and the key of its maintainer."""

    top: Path
    key: Path
    version: str

    @property
    def output(self) -> Path:
        return self.top / "dist/release"

    def release(self, *, build: str | None = None, key: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = build or f"sh -c 'mkdir -p dist; {STUB.format(self.version)}'"
        words = [sys.executable, "packaging/release.py", "--key", str(key or self.key), "--build", command]
        return subprocess.run(
            words, cwd=self.top, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
        )

    def run(self, *words: str, given: bytes = b"") -> str:
        done = subprocess.run(words, cwd=self.top, env=ENVIRONMENT, input=given, capture_output=True, check=False)
        assert 0 == done.returncode, done
        return done.stdout.decode()

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message=x")

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.top / name).read_text()
        assert old in text
        (self.top / name).write_text(text.replace(old, new, 1))

    def verifies(self, name: str) -> bool:
        """True if the signature of a file is good, as SECURITY.md has a user verify it."""
        words = ["ssh-keygen", "-Y", "verify", "-f", "packaging/allowed_signers", "-I", "trikubelet-releases"]
        words += ["-n", "trikubelet-releases", "-s", f"dist/release/{name}.sig"]
        content = (self.output / name).read_bytes()
        return subprocess.run(words, cwd=self.top, input=content, capture_output=True, check=False).returncode == 0


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", path], check=True)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    top, key = tmp_path / "clone", new_key(tmp_path / "key")
    for name in (*FILES, *(f"packaging/{one.name}" for one in (TOP / "packaging").glob("*.py"))):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, top / name)
    public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    placeholders = (TOP / "packaging/contacts.toml").read_text()
    filled = re.sub(r'^public_key = ".*"$', f'public_key = "{public}"', placeholders, flags=re.MULTILINE)
    (top / "packaging/contacts.toml").write_text(filled.replace(".example", ".example.org"))
    (top / ".gitignore").write_text("/dist/\n__pycache__/\n")
    matched = re.search(r'__version__ = "(.+)"', (top / "src/trikubelet/__init__.py").read_text())
    assert matched
    made = Checkout(top, key, matched[1])
    with (top / "CHANGELOG.md").open("a") as changes:
        changes.write(f"\n## [{made.version}] - 2026-01-01\n")
    made.run(sys.executable, "packaging/contacts.py")
    made.run("git", "init", "--quiet")
    made.commit()
    return made


def test_a_release_is_signed_verified_described_and_tagged(checkout: Checkout) -> None:
    done = checkout.release()

    assert 0 == done.returncode, done
    version, commit = checkout.version, checkout.run("git", "rev-parse", "HEAD").strip()
    statement = f"trikubelet-{version}.provenance.json"
    artefacts = {f"trikubelet_{version}-1_amd64.deb", f"trikubelet-{version}-x86_64", f"trikubelet-{version}.tar.gz"}
    signed = {"SHA256SUMS", statement}
    assert artefacts | signed | {f"{name}.sig" for name in signed} == {path.name for path in checkout.output.iterdir()}
    assert all(checkout.verifies(name) for name in signed)
    assert commit == checkout.run("git", "rev-parse", f"v{version}^{{commit}}").strip()
    told = json.loads((checkout.output / statement).read_text())
    assert ("https://in-toto.io/Statement/v1", artefacts) == (told["_type"], {one["name"] for one in told["subject"]})
    source = told["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert commit == source["digest"]["gitCommit"]
    assert "" == checkout.run("git", "status", "--porcelain")


def test_the_same_commit_gives_the_same_checksums_of_its_artefacts(checkout: Checkout) -> None:
    def sums() -> set[str]:
        lines = (checkout.output / "SHA256SUMS").read_text().splitlines()
        return {line for line in lines if "provenance" not in line}

    assert 0 == checkout.release().returncode
    before = sums()
    checkout.run("git", "tag", "--delete", f"v{checkout.version}")
    shutil.rmtree(checkout.output)
    assert 0 == checkout.release().returncode
    assert before == sums()


def test_a_changed_file_does_not_verify(checkout: Checkout) -> None:
    assert 0 == checkout.release().returncode
    sums = checkout.output / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("x86_64", "aarch64"))
    assert not checkout.verifies("SHA256SUMS")


def uncommitted(checkout: Checkout) -> str:
    (checkout.top / "left.txt").touch()
    return "the tree is not clean: left.txt (commit or remove them first)"


def versions_differ(checkout: Checkout) -> str:
    checkout.change("rust/relist/Cargo.toml", checkout.version, "9.9.9")
    checkout.commit()
    return "rust/relist/Cargo.toml has 9.9.9"


def no_changes_named(checkout: Checkout) -> str:
    checkout.change("CHANGELOG.md", f"## [{checkout.version}] - 2026-01-01", "")
    checkout.commit()
    return "CHANGELOG.md has no heading"


def tagged_before(checkout: Checkout) -> str:
    checkout.run("git", "tag", f"v{checkout.version}")
    return f"the tag v{checkout.version} exists already"


def placeholder(checkout: Checkout) -> str:
    checkout.change("packaging/contacts.toml", "security@trikubelet.example.org", "security@trikubelet.example")
    checkout.commit()
    return "still placeholders: security_contact"


def contacts_not_written(checkout: Checkout) -> str:
    checkout.change("packaging/contacts.toml", "security@", "secure@")
    checkout.commit()
    return "SECURITY.md differs from packaging/contacts.toml"


def key_committed(checkout: Checkout) -> str:
    new_key(checkout.top / "other")
    checkout.commit()
    return "a private key is committed: other"


@pytest.mark.parametrize(
    "spoilt",
    [
        uncommitted,
        versions_differ,
        no_changes_named,
        tagged_before,
        placeholder,
        contacts_not_written,
        key_committed,
    ],
    ids=lambda spoilt: spoilt.__name__,
)
def test_a_checkout_that_is_not_ready_is_refused_before_the_build(spoilt: object, checkout: Checkout) -> None:
    assert callable(spoilt)
    why = spoilt(checkout)
    done = checkout.release()
    assert (1, True) == (done.returncode, why in done.stderr), done
    assert not checkout.output.exists()


def test_a_key_in_the_checkout_is_refused(checkout: Checkout) -> None:
    inside = checkout.top / "dist/key"
    inside.parent.mkdir()
    shutil.copy(checkout.key, inside)
    done = checkout.release(key=inside)
    assert (1, True) == (done.returncode, "lies in the checkout" in done.stderr), done


def test_another_key_than_the_documented_one_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    done = checkout.release(key=new_key(tmp_path / "other"))
    assert (1, True) == (done.returncode, "is not the documented key" in done.stderr), done


@pytest.mark.parametrize(
    ("build", "why"),
    [
        ("false", "the build failed: 'false' ended with 1"),
        ("true", "the build left nothing"),
        ("no-such-program", "cannot run 'no-such-program'"),
        ("sh -c 'mkdir -p dist/release; touch dist/release/trikubelet-9.9.9.whl'", "not of version"),
        ("touch left.txt", "the build must not change the tree"),
    ],
)
def test_a_build_that_fails_leaves_no_tag(build: str, why: str, checkout: Checkout) -> None:
    done = checkout.release(build=build)
    assert (1, True) == (done.returncode, why in done.stderr), done
    assert "" == checkout.run("git", "tag", "--list")
