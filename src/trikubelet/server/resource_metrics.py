"""GET /metrics/resource: CPU and memory of node, pods and containers for metrics-server.

Names, labels and types are upstream's (upstream-behaviour.md §1.22). Each sample has the time of its measurement,
because clients compute rates from two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.stats.summary import pod_used
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.server.exposition import Family, exposed, labels, sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.stats_snapshot import StatsSnapshot
    from trikubelet.model.usage import Usage


class _Amount(NamedTuple):
    """A metric of node, pods and containers."""

    name: str
    kind: str
    help: str
    of: Callable[[Usage], float | None]


_AMOUNTS: Final = (
    _Amount(
        "cpu_usage_seconds_total",
        "counter",
        "Total CPU time used, in seconds.",
        lambda usage: None if usage.cpu_ns is None else usage.cpu_ns / SECOND_NS,
    ),
    _Amount(
        "memory_working_set_bytes",
        "gauge",
        "Memory that cannot be reclaimed without swapping, in bytes.",
        lambda usage: usage.working_set_bytes,
    ),
    _Amount("swap_usage_bytes", "gauge", "Swap used, in bytes.", lambda usage: usage.swap_bytes),
)
_SWAP_LIMIT: Final = _Amount(
    "swap_limit_bytes",
    "gauge",
    "Limit of swap, in bytes; with cgroups v1 of memory and swap together.",
    lambda usage: None if usage.swap_bytes is None else usage.swap_limit_bytes,
)
"""Like upstream only for containers, where swap is accounted for and limited."""


def resource_metrics(snapshot: StatsSnapshot) -> bytes:
    """Return the snapshot in Prometheus' text format."""
    subjects: list[tuple[str, str, Usage]] = [("node", "", snapshot.node.gauges.usage)]
    starts = Family("container_start_time_seconds", "gauge", "When the container started, since the epoch.", [])
    for pod in snapshot.pods:
        used = pod_used(pod)
        if used is not None:
            subjects.append(("pod", labels(namespace=pod.namespace, pod=pod.name), used.usage))
        for one in pod.containers:
            if one.used is None:
                continue
            named = labels(container=one.name, namespace=pod.namespace, pod=pod.name)
            subjects.append(("container", named, one.used.usage))
            starts.samples.append(sample(starts.name, named, one.started_ns / SECOND_NS, one.used.usage.at_ns))
    families = [
        _family(f"{kind}_{amount.name}", amount, [one for one in subjects if one[0] == kind])
        for kind, amounts in (("container", (*_AMOUNTS, _SWAP_LIMIT)), ("node", _AMOUNTS), ("pod", _AMOUNTS))
        for amount in amounts
    ]
    failed = Family("resource_scrape_error", "gauge", "1 if something could not be measured, else 0.", [])
    failed.samples.append(sample(failed.name, "", float(bool(snapshot.problem))))
    return exposed([*families, starts, failed])


def _family(name: str, amount: _Amount, subjects: list[tuple[str, str, Usage]]) -> Family:
    values = ((named, amount.of(usage), usage.at_ns) for _, named, usage in subjects)
    samples = [sample(name, named, value, at_ns) for named, value, at_ns in values if value is not None]
    return Family(name, "counter" if amount.kind == "counter" else "gauge", amount.help, samples)
