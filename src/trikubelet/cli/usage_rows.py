"""The resource usage of pods, containers and the node, as rows of a table: the columns and units of ``kubectl top``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl.words import UNKNOWN
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model.k8s import Node
    from trikubelet.model.summary import ContainerStats, CpuStats, MemoryStats, PodStats, Summary

POD_COLUMNS: Final = ("NAMESPACE", "NAME", "CPU(cores)", "MEMORY(bytes)")
CONTAINER_COLUMNS: Final = ("NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)")
NODE_COLUMNS: Final = ("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")


def pod_rows(pods: Iterable[PodStats]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each pod; the namespace first."""
    for pod in pods:
        yield (pod.pod_ref.namespace, pod.pod_ref.name, _cores(pod.cpu), _bytes(pod.memory))


def container_rows(pods: Iterable[PodStats]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each container; the namespace first."""
    for pod in pods:
        for one in pod.containers:
            yield (pod.pod_ref.namespace, pod.pod_ref.name, *_container(one))


def _container(one: ContainerStats) -> tuple[str, ...]:
    return (one.name, _cores(one.cpu), _bytes(one.memory))


def node_row(summary: Summary, node: Node) -> tuple[str, ...]:
    """Return the node's row; the shares are of its allocatable resources."""
    used, there = summary.node, node.status.allocatable if node.status else {}
    cores = used.cpu.usage_nano_cores if used.cpu else None
    working_set = used.memory.working_set_bytes if used.memory else None
    return (
        used.node_name,
        _cores(used.cpu),
        _share(cores, quantity.milli(there.get("cpu", "0")) * 1_000_000),
        _bytes(used.memory),
        _share(working_set, quantity.whole(there.get("memory", "0"))),
    )


def is_known(summary: Summary) -> bool:
    """True if the CPU use of everything is known, which takes two measurements."""
    return all(pod.cpu is None or pod.cpu.usage_nano_cores is not None for pod in summary.pods)


def _cores(cpu: CpuStats | None) -> str:
    used = None if cpu is None else cpu.usage_nano_cores
    return UNKNOWN if used is None else f"{-(-used // 1_000_000)}m"


def _bytes(memory: MemoryStats | None) -> str:
    used = None if memory is None else memory.working_set_bytes
    return UNKNOWN if used is None else f"{used // 1024**2}Mi"


def _share(used: int | None, of: int) -> str:
    return UNKNOWN if used is None or not of else f"{100 * used // of}%"
