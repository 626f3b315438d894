"""Statuses of a pod that an API server rejects: a container that runs again after its final end, another QoS class,
invalid addresses.

Pure; ``kinds.check_update`` calls it at each write. No server checks that a status fits its pod's containers.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from trikubelet.core.restarts import RESTART_ALL, allows_restart
from trikubelet.model.api_errors import Invalid
from trikubelet.model.names import ip_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trikubelet.model import k8s
    from trikubelet.testing.apiserver.patches import Tree

    Fault = tuple[str, str]

_PER_FAMILY: Final = "Invalid value: at most one address of each family"


def check_status(pod: k8s.Pod, old: Tree, new: Tree) -> None:
    """Raises Invalid if a pod of that spec may not change from the old status to the new one."""
    faults = [
        *_transitions("initContainerStatuses", pod, pod.spec.init_containers, old, new),
        *_transitions("containerStatuses", pod, pod.spec.containers, old, new),
        *_transitions("ephemeralContainerStatuses", pod, (), old, new),
        *_pod_ips(old, new),
        *_host_ips(old, new),
    ]
    if old.get("qosClass") != new.get("qosClass"):
        faults.append(("status.qosClass", "Invalid value: it is immutable"))
    if faults:
        listed = ", ".join(f"{path}: {problem}" for path, problem in faults)
        raise Invalid(f'Pod "{pod.metadata.name}" is invalid: {listed}', fields=tuple(path for path, _ in faults))


def _transitions(
    group: str, pod: k8s.Pod, containers: Iterable[k8s.Container], old: Tree, new: Tree
) -> Iterator[Fault]:
    ended = {one["name"] for one in new.get(group, ()) if "terminated" in one.get("state", {})}
    shown = {one["name"] for one in new.get(group, ())}
    by_name = {container.name: container for container in containers}
    for place, before in enumerate(old.get(group, ())):
        name, state = before["name"], before.get("state", {}).get("terminated")
        if state is None or name in ended or name not in shown:
            continue
        if name not in by_name or not _may_restart(pod, by_name[name], state.get("exitCode", 0)):
            yield f"status.{group}[{place}].state", "Forbidden: the container has ended for good"


def _may_restart(pod: k8s.Pod, container: k8s.Container, exit_code: int) -> bool:
    every = (*pod.spec.init_containers, *pod.spec.containers)
    restarts_all = any(rule.action == RESTART_ALL for one in every for rule in one.restart_policy_rules)
    return restarts_all or allows_restart(pod, container, exit_code)


def _pod_ips(old: Tree, new: Tree) -> Iterator[Fault]:
    yield from _addresses("status.podIPs", _ips_of_pod(old), _ips_of_pod(new))


def _ips_of_pod(status: Tree) -> list[str]:
    """Return the addresses. The first one counts if it is not the list's first: a writer without lists wrote it
    alone."""
    first, ips = status.get("podIP", ""), _ips(status.get("podIPs", ()))
    return [first] if first and ips[:1] != [first] else ips


def _host_ips(old: Tree, new: Tree) -> Iterator[Fault]:
    ips = _ips(new.get("hostIPs", ()))
    if ips and ips[0] != new.get("hostIP", ""):
        yield "status.hostIPs[0].ip", "Invalid value: hostIP is another one"
    yield from _addresses("status.hostIPs", _ips(old.get("hostIPs", ())), ips)


def _ips(listed: Iterable[Mapping[str, str]]) -> list[str]:
    return [one["ip"] for one in listed]


def _addresses(path: str, old: list[str], new: list[str]) -> Iterator[Fault]:
    """Yield faults of new addresses; old ones may stay."""
    problems = [(place, ip_problem(ip)) for place, ip in enumerate(new) if ip not in old]
    bad = [(f"{path}[{place}]", f"Invalid value: {problem}") for place, problem in problems if problem]
    yield from bad
    if len(new) > 1 and not bad and sorted(_versions(new)) != [4, 6]:
        yield path, _PER_FAMILY


def _versions(ips: Iterable[str]) -> Iterator[int]:
    for ip in ips:
        if not ip_problem(ip):
            yield ip_address(ip).version
