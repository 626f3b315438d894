"""Step 6: PLEG alone, what is really there.

An agent believes no one about containers: every second it lists what the runtime has, and inspects the pods that look
different. Here that runs alone, on any CRI runtime (`--endpoint`, until Ctrl-C; it only looks) or on a fake one with
one pod, of which a container is made to end over HTTP.
"""

import tempfile
from functools import partial
from urllib.request import Request, urlopen

import trio
from step import parser, run, say

from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.kit.gather import Gather
from trikubelet.model.bounds import Bounds
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg


async def watch(endpoint: str, page: str = "") -> None:
    cache, wake, states = PodCache(), Gather[str](), dict[str, str]()
    async with open_channel(endpoint) as channel, trio.open_nursery() as nursery:
        await nursery.start(Pleg(CriRuntime(channel), cache, wake, Gather(), Bounds()).run)
        while "EXITED" not in states.values() or not page:
            for pod in map(cache.get, await wake.collect()):
                found = [(f"sandbox {one.name}", one.id, one.state.name) for one in pod.sandboxes]
                found += sorted((f"container {one.name}", one.id, one.state.name) for one in pod.containers)
                for name, id_, state in found:
                    if (before := states.get(id_, "not known")) != state:
                        say(f"{name}: {before} -> {state}")
                        states[id_] = state
                if page and "EXITED" not in states.values():
                    nursery.start_soon(end, page, found[-1][1])
        nursery.cancel_scope.cancel()


async def end(page: str, container: str) -> None:
    order = Request(f"{page}/containers/{container}/exit?code=3", method="POST")
    say(f"POST {order.selector}")
    await trio.to_thread.run_sync(lambda: urlopen(order).close())


async def beside_a_fake(socket: str) -> None:
    page = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_fake, Plan(pods=1, containers_per_pod=2), socket, http=page))
        await watch(f"unix://{socket}", f"http://127.0.0.1:{page[0].socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    flags = parser(__doc__, asks=False)
    flags.add_argument("--endpoint", metavar="unix:///…", help="of a runtime (default: a fake one inside)")
    chosen = flags.parse_args().endpoint
    with tempfile.TemporaryDirectory() as place:
        run(*((watch, chosen) if chosen else (beside_a_fake, f"{place}/cri.sock")))
