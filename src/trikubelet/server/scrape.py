"""Handlers of /metrics, the paths below it, and /stats/summary, for every server that has them.

/metrics            the agent's own metrics
/metrics/probes     the results of probes
/metrics/slis       the results of the agent's health checks
/metrics/resource   CPU and memory of node, pods and containers, for autoscaling
/metrics/cadvisor   everything of each cgroup, for dashboards
/stats/summary      the same as JSON, with disks and volumes; ``only_cpu_and_memory=true`` for less
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, TypeVar

from trikubelet.core.query import flag
from trikubelet.core.stats.summary import summary
from trikubelet.httpd.messages import Response, bare, json
from trikubelet.model.usage import Depth
from trikubelet.server.exposition import CONTENT_TYPE, in_steps
from trikubelet.server.metrics import health_families, node_families, probe_families

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.model.stats_snapshot import StatsSnapshot, VolumeUsed
    from trikubelet.ports import Clock
    from trikubelet.server.health import Verdicts
    from trikubelet.server.http_figures import HttpFigures
    from trikubelet.server.node_view import NodeView

T = TypeVar("T")


class NodeStats(Protocol):
    """Takes snapshots of the node's resource usage; ``stats.provider`` implements it."""

    async def shown(self, depth: Depth, spell: Callable[[StatsSnapshot], T]) -> T:
        """Return the current usage, formatted by ``spell`` in a thread, because that takes as long as anything the
        agent does. Raises OSError if the machine cannot be read."""
        ...

    async def claimed(self) -> Sequence[tuple[str, VolumeUsed]]:
        """Return the known volumes behind claims, each with its claim's namespace."""
        ...


async def scrape(
    view: NodeView,
    clock: Clock,
    http: HttpFigures | None = None,
    claimed: Sequence[tuple[str, VolumeUsed]] = (),
) -> Response:
    """Return the node's metrics. For the last two arguments see ``metrics.node_families``."""
    return _text(await in_steps(node_families(view, clock.now_ns(), http, claimed)))


async def scrape_probes(view: NodeView) -> Response:
    """Return the results of probes."""
    return _text(await in_steps(probe_families(view)))


async def scrape_slis(verdicts: Verdicts) -> Response:
    """Make the health checks and return their results and counts. Upstream counts only those made for /healthz, and
    reports none where nothing requests that (component-base's slis)."""
    verdicts.problems(verdicts.known)
    return _text(await in_steps(health_families(verdicts)))


async def scrape_resource(stats: NodeStats) -> Response:
    """Return the metrics for autoscaling."""
    from trikubelet.server.resource_metrics import resource_metrics  # noqa: PLC0415 - as above

    try:
        return _text(await stats.shown(Depth.LOAD, resource_metrics))
    except OSError as error:
        return _unreadable(error)


async def scrape_cadvisor(stats: NodeStats) -> Response:
    """Return the metrics for dashboards."""
    from trikubelet.server.cadvisor_metrics import cadvisor_metrics  # noqa: PLC0415 - as above

    try:
        return _text(await stats.shown(Depth.METRICS, cadvisor_metrics))
    except OSError as error:
        return _unreadable(error)


async def stats_summary(stats: NodeStats, query: Mapping[str, str]) -> Response:
    """Return the summary."""
    try:
        depth = Depth.CPU_AND_MEMORY if flag(query, "only_cpu_and_memory") else Depth.SUMMARY
        return json(await stats.shown(depth, partial(summary, depth=depth)))
    except ValueError as error:
        return bare(str(error), HTTPStatus.BAD_REQUEST)
    except OSError as error:
        return _unreadable(error)


def _text(said: bytes) -> Response:
    return Response(headers={"content-type": CONTENT_TYPE}, body=said)


def _unreadable(error: OSError) -> Response:
    return bare(f"cannot measure the machine: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
