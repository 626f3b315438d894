"""How soon a container's death is noticed, on real containerds: results/deaths.json and results/deaths.md.

    PYTHONPATH=tests python bench/deaths.py [--deaths 60]

As root, where the live tests run (docs/live-tests.md). Containers that run quietly are killed one after another, at
moments that have nothing to do with the agent's own. A death is noticed when PLEG has published it and woken the pod's
worker, which the agent logs in one step; it has happened when the shim says so in containerd's own events. containerd
2.x sends the agent events too, the older one does not. Before it does, it takes the dead task away, which is most of
the time; what is left after it has written its event is the agent's part, the way there among it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from live.kit.agent import Agent
from live.kit.containerd import Containerd, distribution, newer
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, state
from live.kit.transitions import Kind, happened, published
from trikubelet.cri.channel import open_channel
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RESULTS = Path(__file__).parent / "results"
WAIT_SECONDS_MAX = 600.0
PAUSE_SECONDS = (0.5, 2.0)
"""Between two deaths: more than a relist's period apart or less, by chance."""


def lags(containerd: Containerd, deaths: int) -> list[tuple[float, float | None]]:
    """From each death until it was noticed, and until the runtime wrote its event of it if it does; in seconds."""
    chance = random.Random(deaths)
    names = [f"mortal-{number}" for number in range(deaths)]
    told: dict[str, float] = {}
    if containerd.major >= 2:
        threading.Thread(target=trio.run, args=(listen, containerd.endpoint, told), daemon=True).start()
    with containerd.events() as events, Agent(containerd) as agent:
        for name in names:
            agent.put(pod(name, container("c", "stubborn"), hostNetwork=True, restartPolicy="Never"))

        def all_run() -> bool:
            found = agent.pods()
            return all(state(found.get(name, {}), "c").get("ready") for name in names)

        await_that(all_run, WAIT_SECONDS_MAX, agent.story, 1.0)
        ids = [state(found, "c")["containerID"].partition("://")[2] for found in agent.pods().values()]
        tasks = containerd.tasks()
        for id_ in ids:
            time.sleep(chance.uniform(*PAUSE_SECONDS))
            os.kill(tasks[id_], signal.SIGKILL)

        def noticed() -> dict[str, float]:
            return {one.container: one.when for one in published(agent.log_path) if one.kind is Kind.DIED}

        await_that(lambda: set(ids) <= set(noticed()), WAIT_SECONDS_MAX, agent.story)
        died = {one.container: one.when for one in happened(events.all) if one.kind is Kind.DIED}
        return [(noticed()[id_] - died[id_], told[id_] - died[id_] if id_ in told else None) for id_ in ids]


async def listen(endpoint: str, told: dict[str, float]) -> None:
    """Note when the runtime wrote each event of a container's death, until it ends."""
    async with open_channel(endpoint) as channel:
        try:
            async with RuntimeServiceStub(channel).GetContainerEvents.raw(pb.GetEventsRequest()) as events:
                async for raw in events:
                    event = pb.ContainerEventResponse.FromString(raw)
                    if event.container_event_type == pb.CONTAINER_STOPPED_EVENT:
                        told[event.container_id] = event.created_at / 1e9
        except RuntimeCallError:
            return


def measure(which: Callable[[], tuple[Any, Any]], deaths: int) -> dict[str, Any]:
    """One containerd's figures, in milliseconds; the load is what else the machine had to do, as it counts it."""
    containerd = Containerd(*which())
    try:
        load = os.getloadavg()[0]
        found = lags(containerd, deaths)
        ours = [lag - told for lag, told in found if told is not None]
        return {
            "containerd": containerd.version,
            "events": containerd.major >= 2,
            "deaths": deaths,
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
            **_spread("", [lag for lag, _ in found]),
            **(_spread("after_event_", ours) if ours else {}),
        }
    finally:
        containerd.close()


def _spread(prefix: str, seconds: Sequence[float]) -> dict[str, Any]:
    found = sorted(one * 1e3 for one in seconds)
    return {
        f"{prefix}median_ms": statistics.median(found),
        f"{prefix}p90_ms": statistics.quantiles(found, n=10)[-1],
        f"{prefix}max_ms": found[-1],
        f"{prefix}all_ms": found,
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| containerd | Events | Deaths | Median | p90 | Latest | Wanted | The agent's part: median | p90 | Latest "
        "| Load |",
        f"|{'---|' * 11}",
    ]
    for one in results["runtimes"]:
        wanted = ("yes", "≤ 100 ms") if one["events"] else ("no", "≤ 1.2 s")
        load = " to ".join(str(load) for load in one["load"])
        cells = (one["containerd"], wanted[0], one["deaths"], *_told(one, ""), wanted[1], *_told(one, "after_event_"))
        lines.append(f"| {' | '.join(map(str, cells))} | {load} |")
    machine = results["machine"]
    return "\n".join(
        [*lines, "", f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}.", ""]
    )


def _told(figures: dict[str, Any], prefix: str) -> list[str]:
    names = [f"{prefix}{name}_ms" for name in ("median", "p90", "max")]
    return [f"{figures[name]:.0f} ms" if name in figures else "" for name in names]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=60)
    words = parser.parse_args()
    results = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release()},
        "runtimes": [measure(which, words.deaths) for which in (distribution, newer)],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "deaths.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "deaths.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
