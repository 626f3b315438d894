"""One numbered place on the machine for one runtime, and the proof that nothing of it stays behind.

The number is the truth from which everything that could collide is derived: directory, bridge, subnet, cgroup, and the
mark its processes are known by. It is claimed by making the directory, by one test process at a time.
``containerd.py`` claims one and gives it back; `sweep_abandoned` gives back those whose test run was killed. What tests
make outside of any instance is in ``marked.py``.

Processes are found by their mount namespace: every program of an instance runs in one of its own, in which a tmpfs with
the instance's name as its source hides ``/run/containerd``. A pid file would know only what we started, not the shims
and the agents that outlive their parents, which are the interesting ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import network, places

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = Path("/tmp")
"""Of the machine, as are the numbers and what goes by them: two runs that had theirs below two TMPDIRs would claim the
same number, each end the other's processes, and see nothing of what the other left. `.ci/run` has it, too."""
BASE = TEMPORARY / "trikubelet-live"
NUMBERS = range(200)

# Directories that get a tmpfs of the instance's own: shim sockets and runc's state, the network plugins' results, the
# links that an agent keeps to its containers' logs, the sockets for device plugins that upstream's kubelet keeps, and
# where CRI-O remembers which registry had which layer.
HIDDEN = tuple(
    map(Path, ("/run/containerd", "/var/lib/cni", "/var/log/containers", "/var/lib/kubelet", "/var/lib/containers"))
)

_CGROUPS = Path("/sys/fs/cgroup")
_KILL_SECONDS_MAX = 60.0

ALONE_SECONDS_MAX = 240.0
"""For whoever claims or gives back just now. To give one back takes seconds, and where it will not go two minutes."""
_ALONE_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Instance:
    """One claimed number."""

    number: int

    @property
    def name(self) -> str:
        """What its bridge, its CNI network and the source of its tmpfs are called; 15 characters at most."""
        return f"tklive-{self.number}"

    @property
    def directory(self) -> Path:
        """Everything it writes."""
        return BASE / str(self.number)

    @property
    def subnet(self) -> str:
        """The addresses of its pods."""
        return f"10.212.{self.number}.0/24"

    @property
    def cgroup(self) -> str:
        """Below which its pods' cgroups belong, as the CRI's cgroup_parent wants it; nothing makes it beforehand."""
        return f"/{self.name}"

    @property
    def record(self) -> Path:
        """Who claimed it and how the machine was before."""
        return self.directory / "owner.json"


def claim() -> Instance:
    """Claims the first free number. Raises NotInstalled when the machine cannot serve or every number is taken."""
    places.require_machine()
    with _alone():
        BASE.mkdir(mode=0o755, exist_ok=True)
        for number in NUMBERS:
            instance = Instance(number)
            if instance.directory.exists() or network.is_routed(instance.subnet):
                continue
            before = _machine_before()
            instance.directory.mkdir(mode=0o711)
            record = {"pid": os.getpid(), "started": started(os.getpid()), "before": before}
            instance.record.write_text(json.dumps(record))
            return instance
    raise places.NotInstalled(f"every number below {BASE} is taken; remove those no test run uses any more")


def own_cgroup(instance: Instance, name: str) -> None:
    """Have a cgroup at the top of the hierarchies go with the instance. Where one is there already it stays: it belongs
    to another component. Raises RuntimeError where such a one has processes."""
    paths = [hierarchy / name for hierarchy in hierarchies()]
    for path in paths:
        if any(procs.read_text().strip() for procs in path.rglob("cgroup.procs")):
            raise RuntimeError(f"the cgroup {path} has processes: another kubelet uses this machine (stop it first)")
    record = _read_record(instance)
    owned = [str(path) for path in paths if not path.exists()]
    instance.record.write_text(json.dumps({**record, "cgroups": [*record.get("cgroups", []), *owned]}))


def sweep_abandoned() -> list[Instance]:
    """Gives back every instance whose test run is no more, and returns them."""
    with _alone():
        abandoned = [instance for instance in _claimed() if not _is_owned(instance)]
        for instance in abandoned:
            _give_back(instance)
        return abandoned


def give_back(instance: Instance) -> None:
    """Ends every process of the instance and removes all it left on the machine; safe to repeat.

    Raises RuntimeError naming what would not go.
    """
    with _alone():
        _give_back(instance)


def _give_back(instance: Instance) -> None:
    record = _read_record(instance)
    before, owned = record.get("before", {}), map(Path, record.get("cgroups", []))
    groups = _end_processes(instance)
    for path in [*groups, *owned, *(hierarchy / instance.name for hierarchy in hierarchies())]:
        remove_cgroup(path)
    network.remove_bridge(instance.name)
    network.remove_port_rules(instance.name)
    if not _others(instance):
        _restore_machine(before)
    shutil.rmtree(instance.directory, ignore_errors=True)
    with suppress(OSError):
        BASE.rmdir()
    if left := leftovers(instance):
        raise RuntimeError(f"{instance.name} left behind: {', '.join(left)}")


@contextmanager
def _alone() -> Iterator[None]:
    """While nobody else claims or gives back: two test processes would remove the same bridge, or one would take away
    the rules that another has just found. They share the directory above `BASE`, which itself comes and goes. A killed
    one holds nothing. Raises TimeoutError, naming who holds it, when that takes too long: the sweep that ends a run
    must end itself."""
    directory = os.open(BASE.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + ALONE_SECONDS_MAX
        while not _locked(directory):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{BASE.parent} is held by {_holder(directory)} after {ALONE_SECONDS_MAX:g} s")
            time.sleep(_ALONE_LOOK_SECONDS)
        yield
    finally:
        os.close(directory)


def _locked(directory: int) -> bool:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(directory: int) -> str:
    """Who has the lock, in words. The kernel's list has: number, FLOCK, ADVISORY, WRITE, pid, device:…:inode, …; those
    that wait have an arrow more."""
    inode = str(os.fstat(directory).st_ino)
    with suppress(OSError, IndexError, ValueError):
        for words in map(str.split, Path("/proc/locks").read_text().splitlines()):
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return f"process {words[4]} ({_command(int(words[4]))})"
    return "a process that cannot be told"


def leftovers(instance: Instance) -> list[str]:
    """What of the instance is still on the machine, in words; empty when nothing is."""
    found = [f"process {pid} ({_command(pid)})" for pid in processes(instance)]
    found += [f"cgroup {path}" for h in hierarchies() if (path := h / instance.name).exists()]
    found += [f"bridge {name}" for name in network.links() if name == instance.name]
    found += [f"rule {rule}" for rule in network.translation_rules() if f'"{instance.name}' in rule]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if f"{instance.directory}/" in line or f" {instance.name} " in line]
    found += [str(instance.directory)] if instance.directory.exists() else []
    return found


def processes(instance: Instance) -> list[int]:
    """Every process in the instance's mount namespace and their descendants, which are the containers.

    A process that has ended and waits for its parent to notice has no mount table any more and does not count.
    """
    parents, members = {}, set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            pid = int(entry.name)
            parents[pid] = int(_stat(pid)[1])
            if f" {instance.name} " in (entry / "mountinfo").read_text():
                members.add(pid)
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in members} - members
        members |= children
        grown = bool(children)
    return sorted(members - {os.getpid()})


def _end_processes(instance: Instance) -> list[Path]:
    """Kills until none is left; returns the cgroups of the containers among them. None is left when none was seen
    twice: a table of mounts that changes while it is read may lack the line by which its process is known."""
    groups: set[Path] = set()
    deadline = time.monotonic() + _KILL_SECONDS_MAX
    looks_without = 0
    while looks_without < 2:
        if time.monotonic() > deadline:
            break  # give_back names them
        alive = processes(instance)
        looks_without = 0 if alive else looks_without + 1
        for pid in alive:
            groups |= _cgroups_of(pid, instance)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return sorted(groups)


def _cgroups_of(pid: int, instance: Instance) -> set[Path]:
    """Where this process stands, if containerd or an agent put it there: below our parent or containerd's default."""
    with suppress(OSError):
        paths = {line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
        mine = {path for path in paths if path.startswith((f"{instance.cgroup}/", "/k8s.io/"))}
        return {hierarchy / path.lstrip("/") for hierarchy in hierarchies() for path in mine}
    return set()


def hierarchies() -> list[Path]:
    """The root of every cgroup hierarchy: the one of v2, or each controller's of v1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_mount()]  # a container's may have directories besides


def remove_cgroup(path: Path) -> None:
    """Kills what lives in a cgroup and below it, and removes all that. A group empties a moment after its last process
    died, hence the patience."""
    deadline = time.monotonic() + 60
    while path.exists():
        for directory, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                for pid in map(int, Path(directory, "cgroup.procs").read_text().split()):
                    os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.rmdir(directory)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01 if path.exists() else 0)


def _machine_before() -> dict[str, Any]:
    """How the machine was before any instance: measured by the first, handed on to those that join it."""
    for path in BASE.glob("*/owner.json"):
        with suppress(OSError, ValueError, KeyError):
            return dict(json.loads(path.read_text())["before"])
    return {
        "forwarding": network.FORWARDING.read_text().strip(),
        "shared_chains": network.has_shared_chains(),
        "directories": [str(path) for path in (*HIDDEN, *_default_cgroups()) if path.exists()],
    }


def _restore_machine(before: dict[str, Any]) -> None:
    """Puts back what the network plugins changed for everyone and what had to exist for us. For the last instance."""
    if not before:
        return  # the record is gone: better to leave something than to take what is not ours
    network.FORWARDING.write_text(before["forwarding"])
    if not before["shared_chains"]:
        network.remove_shared_chains()
    for path in (*HIDDEN, *_default_cgroups()):
        if str(path) not in before["directories"]:
            with suppress(OSError):
                path.rmdir()


def _default_cgroups() -> list[Path]:
    """Where containerd puts a sandbox that names no cgroup_parent."""
    return [hierarchy / "k8s.io" for hierarchy in hierarchies()]


def _others(instance: Instance) -> bool:
    return any(other != instance for other in _claimed())


def _claimed() -> list[Instance]:
    """Of every number that has a directory. What else stands beside these is not of our making."""
    return [instance for instance in map(Instance, NUMBERS) if instance.directory.exists()]


def _is_owned(instance: Instance) -> bool:
    record = _read_record(instance)
    return bool(record and started(record["pid"]) == record["started"])


def _read_record(instance: Instance) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return dict(json.loads(instance.record.read_text()))
    return {}


def started(pid: int) -> str:
    """When a process was started, in the kernel's ticks: with the pid it names one process for ever. Empty if none."""
    with suppress(OSError):
        return _stat(pid)[19]
    return ""


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on: the name before it may hold anything, so cut behind its last parenthesis."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()[:80]
    return "gone"
