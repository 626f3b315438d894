"""The fake runtime as one service: a population, a CRI server on a Unix socket, and an HTTP page if configured.

    run_fake
    ├── churn   changes a fraction of the pods, every period
    ├── page    the state, and buttons
    ├── streams a server on loopback, started on first use
    └── serve   the socket

``trikubelet fake-runtime`` runs it by itself, the agent beside its own work for the endpoint ``fake:``. Nothing is kept
on disk: the pods end with the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random, SystemRandom
from typing import IO, TYPE_CHECKING, Any

import trio

from trikubelet.cri.event_board import EventBoard
from trikubelet.cri.server import Servable, serve
from trikubelet.fake.conduct import MESSAGE_BYTES_MAX, Conduct
from trikubelet.fake.control import Control
from trikubelet.fake.figures import Figures
from trikubelet.fake.images import FakeImages
from trikubelet.fake.journal import Journaled
from trikubelet.fake.pod_calls import FakePods
from trikubelet.fake.population import Population
from trikubelet.fake.service import FakeRuntime
from trikubelet.host.clock import SystemClock
from trikubelet.httpd.server import serve_http
from trikubelet.kit.every import Every
from trikubelet.streaming.server import StreamingServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.fake.records import Sandbox


@dataclass(frozen=True, slots=True)
class Plan:
    """A fake runtime's configuration: its initial pods, the fraction of them that changes every period (0: none), and
    its behaviour, see ``Conduct``."""

    pods: int = 0
    containers_per_pod: int = 2
    seed: int = 0
    churn: float = 0.0
    churn_period_seconds: float = 1.0
    list_latency_seconds: float = 0.0
    status_latency_seconds: float = 0.0
    error_rate: float = 0.0
    events: bool = True
    streaming: bool = True
    message_bytes_max: int = MESSAGE_BYTES_MAX


async def run_fake(
    plan: Plan,
    where: str | trio.abc.Listener[Any],
    *,
    http: Sequence[trio.abc.Listener[Any]] = (),
    journal: IO[str] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the CRI at ``where`` (a path or a listener) until cancelled; ``started`` means that clients can connect.
    ``http``: where the page is served; ``journal``: where every call is logged. Raises OSError where it cannot
    listen."""
    events = EventBoard()

    def tell(id_: str, kind: Any, sandbox: Sandbox, now_ns: int) -> None:
        events.publish(id_, kind, sandbox, sandbox.containers.values(), now_ns)

    clock = SystemClock()
    population = Population(plan.pods, plan.containers_per_pod, plan.seed, now_ns=clock.now_ns, tell=tell)
    population.prepare()
    conduct, figures = _conduct(plan), Figures()
    async with trio.open_nursery() as nursery:
        # Not from the seed: a restarted runtime must not reuse ids.
        pods = FakePods(population, nursery, SystemRandom())
        images = FakeImages({c.image for c in population.containers.values()}, clock.now_ns)
        runtime = FakeRuntime(pods, StreamingServer(nursery), conduct, events, figures)
        services: list[Servable] = [runtime, images]
        if journal is not None:
            services = [Journaled(service, population, journal) for service in services]
        if http:
            control = Control(pods, conduct, figures, plan.churn)
            await nursery.start(partial(serve_http, control.answer, http))
        # A journal has a line for every handled call, so no call is answered by prompts.
        await nursery.start(partial(serve, prompts=runtime.prompts() if journal is None else {}), services, where)
        if plan.churn:
            nursery.start_soon(_churn, population, plan)
        task_status.started()


def _conduct(plan: Plan) -> Conduct:
    return Conduct(
        # Its own: the number of lists must not change the pods' churn.
        chance=Random(f"{plan.seed} of failures"),
        list_latency_seconds=plan.list_latency_seconds,
        status_latency_seconds=plan.status_latency_seconds,
        error_rate=plan.error_rate,
        events=plan.events,
        streaming=plan.streaming,
        message_bytes_max=plan.message_bytes_max,
    )


async def _churn(population: Population, plan: Plan) -> None:
    await trio.sleep(plan.churn_period_seconds)  # a client that connects at once sees the initial pods
    async for _ in Every(plan.churn_period_seconds):
        population.tick(plan.churn)
        population.prepare()
