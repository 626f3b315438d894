"""Step 1: the lease, a heartbeat.

How does a cluster know that a node lives? It does not ask. The node renews a small object in its name, its Lease, and
a controller looks at how old that has become. We register a node and say once that it is ready; then we are silent,
and after some 50 seconds the cluster takes its word back: Ready is Unknown, no pod is sent there, and those that are
there will be moved. Now the lease is renewed, by the very task an agent runs. The controller never says Ready itself,
that is the node's word; but once it is said again, the lease alone keeps it true, for as long as it is renewed, though
we never speak of the node's status again. So a node writes some hundred bytes every ten seconds and not ten thousand.
"""

import random
from datetime import UTC, datetime
from pathlib import Path

import trio
from step import api_of, parser, ready_of, run, say

from trikubelet.host.clock import SystemClock
from trikubelet.kit.outage import Outage
from trikubelet.kube.client import ApiClient
from trikubelet.model.api import NODES, PatchKind
from trikubelet.node.lease import NodeLease

NAME, LEASE_SECONDS = "heartbeat", 8  # renewed four times in that time; agents take 40 s


async def say_ready(api: ApiClient) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "message": "the node has said so", "lastTransitionTime": now}
    await api.patch(NODES, NAME, {"status": {"conditions": [ready]}}, kind=PatchKind.STRATEGIC, subresource="status")


async def until(api: ApiClient, status: str) -> None:
    while (ready := ready_of(await api.get(NODES, NAME))).status != status:
        await trio.sleep(0.5)
    say(f"Ready is {ready.status}: {ready.message}")


async def main(kubeconfig: Path, hold_seconds: float) -> None:
    api, chance = api_of(kubeconfig), random.Random()
    made = await api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
    await say_ready(api)
    await until(api, "True")
    await until(api, "Unknown")
    lease = NodeLease(api, NAME, lambda: made.uid, LEASE_SECONDS, SystemClock(), Outage("it"), api.reset, chance)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.run)
        await say_ready(api)
        await until(api, "True")
        await trio.sleep(hold_seconds)
        say(f"and after {hold_seconds:g} s of nothing but a lease:")
        await until(api, "True")
        nursery.cancel_scope.cancel()
    await api.delete(NODES, NAME)


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--hold", type=float, default=70, metavar="SECONDS", help="longer than a cluster is patient: 70")
    run(main, *vars(flags.parse_args()).values())
