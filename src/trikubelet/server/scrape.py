"""What scrapers ask for, for every server that has it: /metrics and what is below it, and /stats/summary.

/metrics            what the agent has measured of itself
/metrics/probes     what probes were answered
/metrics/slis       whether the agent's health checks pass
/metrics/resource   processor and memory of node, pods and containers, for autoscaling
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
    """Who takes snapshots of what the node uses; ``stats.provider`` does."""

    async def shown(self, depth: Depth, spell: Callable[[StatsSnapshot], T]) -> T:
        """What is used now, spelled out: in a thread, for that takes as long as anything the agent does. Raises OSError
        where the machine cannot be read."""
        ...

    async def claimed(self) -> Sequence[tuple[str, VolumeUsed]]:
        """The volumes behind claims as far as they are known, each with its claim's namespace."""
        ...


async def scrape(
    view: NodeView,
    clock: Clock,
    http: HttpFigures | None = None,
    claimed: Sequence[tuple[str, VolumeUsed]] = (),
) -> Response:
    """What the node has measured, for Prometheus. For the last two see ``metrics.node_families``."""
    return _text(await in_steps(node_families(view, clock.now_ns(), http, claimed)))


async def scrape_probes(view: NodeView) -> Response:
    """What probes have found, for Prometheus."""
    return _text(await in_steps(probe_families(view)))


async def scrape_slis(verdicts: Verdicts) -> Response:
    """Whether the checks pass, made for the asking, and how often they did. Upstream counts those made for /healthz
    only, and shows nothing where nobody asks there (component-base's slis)."""
    verdicts.problems(verdicts.known)
    return _text(await in_steps(health_families(verdicts)))


async def scrape_resource(stats: NodeStats) -> Response:
    """What autoscalers want to know."""
    from trikubelet.server.resource_metrics import resource_metrics  # noqa: PLC0415 - as above

    try:
        return _text(await stats.shown(Depth.LOAD, resource_metrics))
    except OSError as error:
        return _unreadable(error)


async def scrape_cadvisor(stats: NodeStats) -> Response:
    """What dashboards want to know."""
    from trikubelet.server.cadvisor_metrics import cadvisor_metrics  # noqa: PLC0415 - as above

    try:
        return _text(await stats.shown(Depth.METRICS, cadvisor_metrics))
    except OSError as error:
        return _unreadable(error)


async def stats_summary(stats: NodeStats, query: Mapping[str, str]) -> Response:
    """The summary."""
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
    return bare(f"the machine cannot be read: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
