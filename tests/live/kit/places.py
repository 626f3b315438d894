"""Where the programs of the live tests are: the truth for paths and versions, read by everything else in the kit.

``tests/live/install.sh`` puts the programs there; this module only finds them, and says what to run when it cannot.
Two runtimes are known: the one the distribution ships, and a newer one built from its Go module into a cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Repeated in install.sh, which builds them; a test compares the two.
CONTAINERD_VERSION = "2.2.9"
RUNC_VERSION = "1.3.6"
CRIO_VERSION = "1.34.0"

LIVE = Path(__file__).resolve().parent.parent
INSTALL = LIVE / "install.sh"
CONTROL_PLANE = LIVE.parent.parent / "packaging" / "control-plane" / "build.sh"
NODE_CONFORMANCE = LIVE.parent.parent / "packaging" / "node-conformance"

# A login shell's PATH may lack the sbin directories, and runc, iptables and ip live there.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", "/usr/bin:/bin"), "/usr/local/sbin", "/usr/sbin", "/sbin"])


class NotInstalled(Exception):
    """The machine lacks something the live tests need; the message names it and what to run. Callers fail the test."""


def cache() -> Path:
    """The directory install.sh builds into: ``TRIKUBELET_LIVE_CACHE``, else ``trikubelet`` in the user's cache."""
    if chosen := os.environ.get("TRIKUBELET_LIVE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trikubelet"


def program(name: str) -> Path:
    """The distribution's program of that name. Raises NotInstalled."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        raise NotInstalled(f"{name} is not on this machine; run {INSTALL} as root")
    return Path(found)


def built(package: str, version: str, name: str) -> Path:
    """A program install.sh built from a Go module. Raises NotInstalled."""
    path = cache() / f"{package}-{version}" / "bin" / name
    if not path.exists():
        raise NotInstalled(f"{path} is missing; run {INSTALL} as root to build {package} {version}")
    return path


def control_plane() -> Path:
    """The directory of the programs packaging/control-plane builds. Raises NotInstalled."""
    return _built_on_request(CONTROL_PLANE)


def conformance() -> Path:
    """The directory of upstream's end-to-end suite and what it needs, as packaging/control-plane builds it on request.
    Raises NotInstalled."""
    return _built_on_request(CONTROL_PLANE, "--conformance")


def node_suite(minor: str) -> tuple[Path, Path]:
    """Return the directory of upstream's node suite for a minor version of Kubernetes (``1.37``), and that of the
    userland of its images. Raises NotInstalled, also for a version that packaging/node-conformance does not pin."""
    if minor not in node_suite_versions():
        raise NotInstalled(f"the node suite of {minor} is not pinned: give one of {', '.join(node_suite_versions())}")
    build = NODE_CONFORMANCE / "build.sh"
    programs = _where(f"{build} {minor}", [str(build), "--where", minor])
    return programs, _where(f"{build} {minor}", [str(NODE_CONFORMANCE / "userland.sh"), "--where"])


def node_suite_versions() -> list[str]:
    """Return the minor versions whose node suite packaging/node-conformance can build."""
    return sorted(path.stem for path in NODE_CONFORMANCE.glob("1.*.mod"))


def _built_on_request(script: Path, *words: str) -> Path:
    build = [str(script), *words]
    return _where(" ".join(build), [*build, "--where"])


def _where(build: str, ask: list[str]) -> Path:
    """Return the directory that a script names. Raises NotInstalled with the command that makes it."""
    directory = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    if not directory.exists():
        raise NotInstalled(f"{directory} is missing; run {build} to build it")
    return directory


def network_plugins() -> Path:
    """The directory with the CNI plugins (bridge, host-local, portmap, loopback). Raises NotInstalled."""
    for directory in (Path("/usr/lib/cni"), Path("/opt/cni/bin")):
        if all((directory / plugin).exists() for plugin in ("bridge", "host-local", "portmap", "loopback")):
            return directory
    raise NotInstalled(f"the CNI plugins are neither in /usr/lib/cni nor in /opt/cni/bin; run {INSTALL} as root")


def require_machine() -> None:
    """Raises NotInstalled unless this is Linux and we are root: containers need both."""
    if sys.platform != "linux":
        raise NotInstalled(f"the live tests need Linux; this is {sys.platform}")
    if os.geteuid() != 0:
        raise NotInstalled("the live tests need root, to make namespaces, cgroups and bridges; run them as root")
