"""The provenance of a release: which files, made of which commit, by which command, with which tools.

A statement in the form of in-toto (https://in-toto.io/Statement/v1) with a predicate of SLSA
(https://slsa.dev/provenance/v1). It claims no level of SLSA: a maintainer builds on a machine of their own. Because the
build is reproducible, anybody can check the claim: building the same commit gives the same digests.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
MATERIALS: Final = (
    "Cargo.lock",
    "packaging/packages/go.sum",
    "requirements/build.txt",
    "requirements/release.txt",
    "requirements/runtime.txt",
)
"""The files that name, with digests, everything that is downloaded for a build."""
TOOLS: Final = (("rustc", "--version"), ("go", "version"), ("git", "--version"))


@dataclass(frozen=True)
class Build:
    """What was built, of what, and when (RFC 3339, UTC)."""

    project_url: str
    version: str
    commit: str
    command: str
    started: str
    finished: str


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def statement(build: Build, *, artefacts: list[Path], top: Path) -> dict[str, Any]:
    """The statement about the artefacts of one build of the checkout ``top``."""
    source = {"uri": f"git+{build.project_url}@refs/tags/v{build.version}", "digest": {"gitCommit": build.commit}}
    materials = [{"uri": name, "digest": {"sha256": digest(top / name)}} for name in MATERIALS]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in artefacts],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"{build.project_url}/blob/v{build.version}/RELEASING.md",
                "externalParameters": {"command": build.command, "version": build.version},
                "internalParameters": {"architecture": platform.machine()},
                "resolvedDependencies": [source, *materials],
            },
            "runDetails": {
                "builder": {"id": f"{build.project_url}/blob/v{build.version}/MAINTAINERS.md", "version": _tools()},
                "metadata": {"startedOn": build.started, "finishedOn": build.finished},
            },
        },
    }


def mismatches(told: dict[str, Any], *, directory: Path) -> list[str]:
    """The subjects of a statement that are missing below the directory, or have another digest."""
    return [
        one["name"]
        for one in told["subject"]
        if not (directory / one["name"]).is_file() or digest(directory / one["name"]) != one["digest"]["sha256"]
    ]


def _tools() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for words in TOOLS:
        try:
            asked = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            continue  # a tool that is missing made nothing of this build
        found[words[0]] = asked.stdout.strip()
    return found
