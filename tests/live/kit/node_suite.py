"""Upstream's own node suite, `e2e_node.test`, unchanged, on the kubelet that the caller names.

    containerd ─► images ─► loopback registry ─► ginkgo e2e_node.test ─► report.json
                                                 └─ etcd, API server, and the kubelet as a unit (unit_commands.py)

Called by ``node_conformance.py``. ``packaging/node-conformance`` builds the programs. One machine holds one run at a
time, because the suite uses the kubelet's own ports, the cgroup ``/kubepods`` and the machine's host name.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from . import instance, node_suite_images, places, unit_commands
from .containerd import Containerd, newer
from .registry import Registry
from .suite_images import REGISTRY
from .upstream import STANDARD_SOCKET, kernel_settings_kept, link_standard_socket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOURS_MAX: Final = 3
IMPORT_SECONDS_MAX: Final = 300.0
FRESH: Final = ("/var/lib/kubelet", "/var/log")
"""Directories of the kubelet that each run finds empty, and that go with the containerd's mount namespace."""
CGROUPS: Final = ("kubepods", "kubelet.slice")
"""Cgroups that a run makes at the top of every hierarchy, because specs look for them there."""
LIMITING: Final = frozenset({"cpu", "cpuacct", "memory", "pids", "blkio"})
"""The controllers of cgroup v1 in which a process joins a cgroup. cpuset would want its processors first."""
LAST_WITH_DIRECTORY: Final = 36
"""The last minor version whose suite is told where the kubelet is; later ones look beside their own program."""
CONFIGURATION: Final = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    # The settings of upstream's own runs, test/e2e_node/jenkins/default-kubelet-config.yaml.
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": "/",
    "podCIDR": "10.100.0.0/24",
    "volumeStatsAggPeriod": "10s",
    "fileCheckFrequency": "10s",
    "evictionPressureTransitionPeriod": "30s",
    "evictionHard": {"memory.available": "250Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    "evictionMinimumReclaim": {"nodefs.available": "5%", "nodefs.inodesFree": "5%"},
    "serializeImagePulls": False,
    # Settings that every kubelet needs on such a machine.
    "failCgroupV1": False,
    "makeIPTablesUtilChains": False,  # they would stay on the machine
}

_SYSTEMD: Final = Path("/run/systemd")

AGENT: Final = (sys.executable, "-P", "-m", "trikubelet")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The specs of one run: those whose name matches ``focus`` and whose labels match ``labels``. ``processes`` run
    side by side."""

    labels: str
    processes: int
    focus: str = ""


class NodeSuite:
    """Owns a containerd with the suite's images, on which runs follow one another. Made by `prepared`."""

    def __init__(self, minor: str, programs: Path, containerd: Containerd) -> None:
        self._minor = minor
        self._programs = programs
        self._containerd = containerd
        self._runs = 0

    @property
    def release(self) -> str:
        """The release that the suite was built from, for instance ``v1.37.2``."""
        return self._programs.name.partition("-")[0]

    @property
    def upstream(self) -> Sequence[str]:
        """The command that starts upstream's kubelet of the same release."""
        return (str(self._programs / "kubelet"),)

    def run(self, kubelet: Sequence[str], selection: Selection, kept: Path) -> list[dict[str, Any]]:
        """Return ginkgo's report on every spec, also on those that ``selection`` leaves out. ``kubelet`` is the command
        of the kubelet. The report, the suite's output and the kubelet's log stay in ``kept``. Raises RuntimeError where
        the suite made no report."""
        self._runs += 1
        directory = self._containerd.directory / f"suite-{self._runs}"
        directory.mkdir()
        kept.mkdir(parents=True, exist_ok=True)
        report = kept / "report.json"
        report.unlink(missing_ok=True)
        self._mount_afresh()
        commands, units = directory / "commands", directory / "units"
        unit_commands.install(commands, units)
        self._install(directory, kubelet)
        environment = {**os.environ, "PATH": f"{commands}:{places.SEARCH_PATH}", "HOME": str(directory)}
        try:
            with kernel_settings_kept(), (kept / "output.log").open("wb") as output:
                subprocess.run(
                    self._containerd.inside(["env", f"--chdir={directory}", *self._ginkgo(directory, selection, kept)]),
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                )
        finally:
            self._clear(units)
        if not report.exists():
            raise RuntimeError(f"the suite made no report; its output is {kept / 'output.log'}")
        suites = json.loads(report.read_text())
        specs = [spec for suite in suites for spec in suite["SpecReports"] or []]
        for spec in specs:
            if spec["LeafNodeType"] != "It" and spec["State"] not in ("passed", "skipped"):
                raise RuntimeError(f"{spec['LeafNodeType']} failed: {spec.get('Failure', {}).get('Message', '')}")
        return [spec for spec in specs if spec["LeafNodeType"] == "It"]

    def _install(self, directory: Path, kubelet: Sequence[str]) -> None:
        """Lay out the directory in which the suite works: it writes beside its own program."""
        shutil.copy(self._programs / "e2e_node.test", directory)
        (directory / "base.yaml").write_text(yaml.safe_dump(CONFIGURATION))
        joined = "".join(f"echo $$ >{path}/cgroup.procs\n" for path in _own_cgroup("kubelet.slice"))
        script = directory / "kubelet"
        # Its PATH has no stand-ins for systemd: a kubelet that finds systemd-run starts its mounts by it.
        script.write_text(f'#!/bin/sh\n{joined}PATH={places.SEARCH_PATH}\nexport PATH\nexec {" ".join(kubelet)} "$@"\n')
        script.chmod(0o755)

    def _ginkgo(self, directory: Path, selection: Selection, kept: Path) -> list[str]:
        beside = [] if int(self._minor.partition(".")[2]) > LAST_WITH_DIRECTORY else [f"--k8s-bin-dir={directory}"]
        parallel = [f"--procs={selection.processes}"] if selection.processes > 1 else []
        runtime = f"/{self._containerd.instance.name}/runtime"
        return [
            str(self._programs / "ginkgo"),
            *parallel,
            *([f"--focus={selection.focus}"] if selection.focus else []),
            f"--label-filter={selection.labels}",
            f"--timeout={HOURS_MAX}h",
            "--no-color",
            f"--output-dir={kept}",
            "--json-report=report.json",
            str(directory / "e2e_node.test"),
            "--",
            *beside,
            f"--report-dir={kept}",
            f"--kubelet-config-file={directory / 'base.yaml'}",
            f"--container-runtime-endpoint=unix://{STANDARD_SOCKET}",
            f"--container-runtime-process-name={self._containerd.program}",
            f"--container-runtime-pid-file={_pid_file(self._containerd)}",
            f"--node-name={platform.node()}",
            f"--kubelet-flags=--runtime-cgroups={runtime}",
            "--prepull-images=false",
        ]

    def _mount_afresh(self) -> None:
        for path in FRESH:
            mount = ["mount", "-t", "tmpfs", self._containerd.instance.name, path]
            subprocess.run(self._containerd.inside(mount), check=True)

    def _clear(self, units: Path) -> None:
        """End the kubelet, if the suite has not, and remove the pods that it left."""
        kept = unit_commands.Units(units)
        for name in kept.names():
            kept.stop(name)
        self._containerd.remove_pods()


@contextmanager
def prepared(minor: str) -> Iterator[NodeSuite]:
    """Start a containerd that has the images of the suite of ``minor``, a version such as 1.37. Raises NotInstalled,
    and RuntimeError where another kubelet uses the machine."""
    programs, userland = places.node_suite(minor)
    instance.sweep_abandoned()
    archive = node_suite_images.archive(programs, userland)
    with ExitStack() as stack:
        containerd = stack.enter_context(closing(Containerd(*newer())))
        for name in CGROUPS:
            instance.own_cgroup(containerd.instance, name)
        for path in _own_cgroup(f"{containerd.instance.name}/runtime"):
            (path / "cgroup.procs").write_text(str(containerd.pid))
        _pid_file(containerd).write_text(str(containerd.pid))
        link_standard_socket(containerd)
        stack.enter_context(_booted_with_systemd(containerd))
        registry = stack.enter_context(Registry(archive))
        containerd.trust(registry.address, REGISTRY)
        containerd.ctr("images", "import", "--all-platforms", str(archive), seconds=IMPORT_SECONDS_MAX)
        yield NodeSuite(minor, programs, containerd)


@contextmanager
def _booted_with_systemd(containerd: Containerd) -> Iterator[None]:
    """Have the containerd's mount namespace look as on a machine that systemd started: its summary has one system
    container less, and specs count them."""
    there = _SYSTEMD.exists()
    _SYSTEMD.mkdir(exist_ok=True)
    mount = f"mount -t tmpfs {containerd.instance.name} {_SYSTEMD} && mkdir {_SYSTEMD / 'system'}"
    subprocess.run(containerd.inside(["sh", "-c", mount]), check=True)
    try:
        yield
    finally:
        if not there:
            _SYSTEMD.rmdir()


def _own_cgroup(name: str) -> list[Path]:
    """Make a cgroup for processes in each hierarchy that limits them; return its directories."""
    made = []
    for hierarchy in instance.hierarchies():
        if (hierarchy / "cgroup.controllers").exists() or set(hierarchy.name.split(",")) & LIMITING:
            made.append(hierarchy / name)
            made[-1].mkdir(parents=True, exist_ok=True)
    return made


def _pid_file(containerd: Containerd) -> Path:
    return containerd.directory / "containerd.pid"
