"""A CRI-O for the live tests: how it is configured, started and given images, and which processes it runs.

Called by the fixture ``crio`` in ``tests/live/conftest.py``; what any runtime of the tests does is in ``daemon.py``.
CRI-O has no import of archives: it pulls, and its ``registries.conf`` says that the registries whose images the tests
use are, while it starts, one of ours on loopback. What it would keep or change outside of the instance's directory is
named here and led into it, or switched off: host ports (rules of the machine's own), hooks and interrupts' balance.

A pod's sandbox has no process (CRI-O drops the pause container unless processes are shared), which is the default and
what differs most from containerd.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import images, places
from .daemon import Daemon
from .registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .configuration import Layout

_POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
_SHORT_NAMES = 'unqualified-search-registries = ["docker.io"]\n'
"""What containerd does by itself with names as ``busybox:1.36``."""
_RUNC = r"""#!/bin/sh
# What restrict_oom_score_adj is with containerd: root may lack CAP_SYS_RESOURCE here, and can go no lower than it is.
for word; do
    [ "$before" != --bundle ] ||
        sed -i "s/\(\"oomScoreAdj\": *\)-[0-9]*/\1$(cat /proc/self/oom_score_adj)/" "$word/config.json"
    before=$word
done
exec {} "$@"
"""


@dataclass(frozen=True)
class Programs:
    """The programs one CRI-O is made of."""

    crio: Path
    pinns: Path
    conmon: Path
    runc: Path
    plugins: Path


def installed() -> Programs:
    """The CRI-O and runc that install.sh built, with the distribution's conmon. Raises NotInstalled."""
    return Programs(
        crio=places.built("crio", places.CRIO_VERSION, "crio"),
        pinns=places.built("crio", places.CRIO_VERSION, "pinns"),
        conmon=places.program("conmon"),
        runc=places.built("runc", places.RUNC_VERSION, "runc"),
        plugins=places.network_plugins(),
    )


class Crio(Daemon):
    """Owns one running CRI-O; see `Daemon`."""

    name = "cri-o"

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        super().__init__()

    @property
    def version(self) -> str:
        """As ``crio --version`` has it, for instance ``1.34.0``."""
        told = subprocess.run([self._programs.crio, "--version"], capture_output=True, text=True, check=True)
        return told.stdout.split()[2]

    def tasks(self) -> dict[str, int]:
        """The running process of each container, by id, as runc knows them; see `Daemon.tasks`."""
        command = [str(self._programs.runc), "--root", str(_runc_root(self._layout)), "list", "--format", "json"]
        done = subprocess.run(self.inside(command), capture_output=True, text=True, timeout=60, check=True)
        return {row["id"]: row["pid"] for row in json.loads(done.stdout) or [] if row["status"] == "running"}

    def remove_pods(self) -> None:
        """As any runtime's, but at once: CRI-O would give each container ten seconds to end by itself."""
        self._kill_tasks()
        super().remove_pods()

    def trust(self, address: str) -> None:
        """CRI-O needs no word for a registry on loopback, which is taken to speak plain HTTP."""

    def _configure(self) -> None:
        layout = self._layout
        layout.config.write_text(configuration(layout, self._programs, images.PAUSE))
        _policy(layout).write_text(json.dumps(_POLICY))
        _runc_root(layout).mkdir()
        _runc(layout).write_text(_RUNC.format(self._programs.runc))
        _runc(layout).chmod(0o755)
        _registries(layout).write_text(_SHORT_NAMES)

    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        command = [str(self._programs.crio), "--config", str(self._layout.config), "--config-dir", ""]
        command += ["--registries-conf", str(_registries(self._layout))]
        path = f"{self._programs.crio.parent}{os.pathsep}{places.SEARCH_PATH}"
        return command, {**os.environ, "PATH": path}

    def _import_images(self) -> None:
        """By pulls, each name from the registry that stands in for its own; what is read of registries is read again
        when CRI-O starts, and afterwards no name leads here any more."""
        with Registry(images.imported()) as registry:
            _registries(self._layout).write_text(
                _SHORT_NAMES
                + "".join(
                    f'[[registry]]\nprefix = "{prefix}"\nlocation = "{registry.address}"\ninsecure = true\n'
                    for prefix in sorted({name.partition("/")[0] for name in images.names()})
                )
            )
            self.restart()
            for name in images.names():
                self.cri.call("PullImage", image={"image": name})
        _registries(self._layout).write_text(_SHORT_NAMES)
        self.restart()


def configuration(layout: Layout, programs: Programs, pause: str) -> str:
    """The configuration of CRI-O 1.3x."""
    state = layout.state
    return f"""\
[crio]
root = "{layout.root}"
runroot = "{state / "storage"}"
storage_driver = "overlay"
log_dir = "{layout.directory / "logs"}"
version_file = "{state / "version"}"
version_file_persist = "{layout.root / "version"}"
clean_shutdown_file = "{layout.root / "clean.shutdown"}"

[crio.api]
listen = "{layout.socket}"
stream_address = "127.0.0.1"
stream_port = "0"

[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
pinns_path = "{programs.pinns}"
namespaces_dir = "{state / "namespaces"}"
container_exits_dir = "{state / "exits"}"
container_attach_socket_dir = "{state / "attach"}"
hooks_dir = []
irqbalance_config_restore_file = "disable"
disable_hostport_mapping = true
enable_pod_events = true
enable_criu_support = false
{_handlers(layout, programs)}
[crio.image]
pause_image = "{pause}"
signature_policy = "{_policy(layout)}"
signature_policy_dir = "{layout.directory / "policies"}"

[crio.network]
network_dir = "{layout.networks}"
plugin_dirs = ["{programs.plugins}"]

[crio.nri]
enable_nri = false
"""


def _handlers(layout: Layout, programs: Programs) -> str:
    """Two runtime handlers with the same runc behind them, as the containerds of the tests have."""
    return "".join(
        f"""
[crio.runtime.runtimes.{handler}]
runtime_path = "{_runc(layout)}"
runtime_root = "{_runc_root(layout)}"
monitor_path = "{programs.conmon}"
monitor_cgroup = "pod"
"""
        for handler in ("runc", "second")
    )


def _runc(layout: Layout) -> Path:
    return layout.directory / "runc"


def _runc_root(layout: Layout) -> Path:
    return layout.state / "runc"


def _policy(layout: Layout) -> Path:
    return layout.directory / "policy.json"


def _registries(layout: Layout) -> Path:
    return layout.directory / "registries.conf"
