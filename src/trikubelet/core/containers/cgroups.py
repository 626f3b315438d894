"""The names of pods' cgroups: below ``kubepods``, by class (upstream: pkg/kubelet/cm).

    /kubepods                     every pod; Guaranteed ones directly below
    ├── pod<uid>
    ├── burstable/pod<uid>
    └── besteffort/pod<uid>

A name is a tuple of components; the two drivers spell it differently. systemd's slices contain their parents' names and
use the dash to separate them, so a dash within a component becomes an underscore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import path_uid
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod

CgroupName = tuple[str, ...]

KUBEPODS = "kubepods"
_POD_PREFIX = "pod"
SYSTEMD = "systemd"
_CLASS = {GUARANTEED: (), BURSTABLE: ("burstable",), BEST_EFFORT: ("besteffort",)}


def class_cgroup(quality: str, root: str = "/") -> CgroupName:
    """Return the cgroup of all pods of one class. That of the Guaranteed ones is ``kubepods`` itself."""
    return (*(part for part in root.split("/") if part), KUBEPODS, *_CLASS[quality])


def pod_cgroup(pod: Pod, root: str = "/") -> CgroupName:
    """Return the cgroup of one pod."""
    return cgroup_below(class_cgroup(qos_class(pod), root), pod.metadata.uid)


def cgroup_below(name: CgroupName, uid: str) -> CgroupName:
    """Return the cgroup of a pod below the cgroup of its class. Raises ValueError for an invalid UID."""
    return (*name, f"{_POD_PREFIX}{path_uid(uid)}")


def parts(name: CgroupName, driver: str) -> tuple[str, ...]:
    """Return the directories of a cgroup in the driver's spelling, from the top of its tree."""
    if driver != SYSTEMD:
        return name
    escaped = [part.replace("-", "_") for part in name]
    return tuple(f"{'-'.join(escaped[: depth + 1])}.slice" for depth in range(len(escaped)))


def uid_of(directory: str, driver: str) -> str:
    """Return the UID of the pod whose cgroup has that name; "" if it is not a pod's."""
    last = directory
    if driver == SYSTEMD:
        last = directory.removesuffix(".slice").rpartition("-")[2].replace("_", "-")
    return last.removeprefix(_POD_PREFIX) if last.startswith(_POD_PREFIX) else ""


def spell(name: CgroupName, driver: str) -> str:
    """Return the absolute path of a cgroup in the driver's spelling."""
    return "/" + "/".join(parts(name, driver))


def cgroup_parent(pod: Pod, facts: NodeFacts) -> str:
    """Return the parent of the pod's containers, in the driver's spelling; "" for the runtime's default."""
    return spell(pod_cgroup(pod, facts.cgroup_root), facts.cgroup_driver) if facts.cgroups_managed else ""
