"""The version that the agent reports, as the node's kubelet and to ``kubelet --version``.

    /etc/trikubelet/kubernetes-version ─► chosen_release ─┐
    model.upstream, the release that is followed ─────────┼─► core.reported_release ──────► full_version ─► reported
    the API server's version, once it is known ───────────┘

A package sets the file for a distribution that pins its nodes to one minor version; an operator may edit it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trikubelet import __version__
from trikubelet.core.reported_release import reported_release
from trikubelet.kit.plain_file import read_plain
from trikubelet.model.errors import StartFailed
from trikubelet.model.upstream import FOLLOWED, KUBERNETES_VERSION, minor_of

CHOSEN_FILE: Final = Path("/etc/trikubelet/kubernetes-version")
_BYTES_MAX: Final = 4096
_RELEASE: Final = re.compile(r"v?(\d+\.\d+\.\d+)")


def full_version(release: str) -> str:
    """Return a release of Kubernetes with the agent's own version: ``v1.37.2+trikubelet.0.1.0``."""
    return f"{release}+trikubelet.{__version__}"


VERSION: Final = full_version(KUBERNETES_VERSION)
"""The version of an agent that is not configured to report another one."""


def reported_version(chosen: str = "", server: str = "") -> str:
    """Return the version to report now; the arguments are those of ``reported_release``."""
    return full_version(reported_release(followed=KUBERNETES_VERSION, chosen=chosen, server=server))


def chosen_release(file: Path | None = None) -> str:
    """Return the release that the package or the operator has configured, "" without one. Raises StartFailed."""
    file = file or CHOSEN_FILE
    try:
        lines = read_plain(file, _BYTES_MAX).decode().splitlines()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise StartFailed(f"cannot read {file}: {why} (remove it, or write a version such as v1.36.3)") from error
    given = [words for number, line in enumerate(lines, 1) if (words := (number, line.partition("#")[0].strip()))[1]]
    if not given:
        return ""
    number, text = given[0]
    found = _RELEASE.fullmatch(text)
    if found is None or len(given) > 1:
        why = "more than one version" if len(given) > 1 else f'"{text}" is not a release of Kubernetes'
        raise StartFailed(f"{file}:{given[-1][0]}: {why} (write one version such as v1.36.3)")
    if minor_of(text) > FOLLOWED:
        raise StartFailed(
            f"{file}:{number}: {text} is newer than the release that this agent follows, {KUBERNETES_VERSION} "
            "(write an older version, or remove it)"
        )
    return f"v{found[1]}"
