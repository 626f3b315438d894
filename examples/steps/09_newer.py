"""Step 9: a worker waits for newer news.

Between what a pod worker does and what it knows lies PLEG: it acts on the runtime and reads the pod cache, which PLEG
fills. So right after an action the cache still says what was before it. A worker that believed it would act again:
would start a second container beside the one that it has just started. It has to wait for an observation that *began*
after its action; one that merely ended later may have looked before. Here a worker stops a container, looks too early,
and then waits; it also tells PLEG where to look, so that it need not wait for the next full list.
"""

import tempfile

import trio
from step import parser, run, say

from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.kit.gather import Gather
from trikubelet.kit.instant import instant
from trikubelet.model.bounds import Bounds
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg


async def worker(runtime: CriRuntime, pleg: Pleg, cache: PodCache, uid: str) -> None:
    before = cache.get(uid)
    (container,) = before.containers
    say(f"the cache says {container.state.name}")

    await runtime.stop_container(container.id, grace_seconds=1)
    acted_at = instant()
    say(f"stopped it; the cache still says {cache.get(uid).containers[0].state.name}")
    assert cache.get(uid).observed_at < acted_at

    pleg.request_relist(uid)
    after = await cache.newer_than(uid, acted_at)
    say(f"an observation that began after the stop says {after.containers[0].state.name}")
    assert after.observed_at > acted_at


async def main(endpoint: str) -> None:
    cache, wake = PodCache(), Gather[str]()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_fake, Plan(pods=1, containers_per_pod=1), endpoint)
        async with open_channel(f"unix://{endpoint}") as channel:
            runtime = CriRuntime(channel)
            pleg = Pleg(runtime, cache, wake, Gather(), Bounds())
            await nursery.start(pleg.run)
            (uid,) = await wake.collect()
            await worker(runtime, pleg, cache, uid)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser(__doc__, asks=False).parse_args()
    with tempfile.TemporaryDirectory() as place:
        run(main, f"{place}/cri.sock")
