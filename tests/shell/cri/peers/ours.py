"""A well-behaved server process on our own server: ``ours.py SOCKET``."""

import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[3]))

from shell.cri.grpckit import FakeRuntime
from trikubelet.cri.server import serve


async def main() -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [FakeRuntime()], sys.argv[1])
        print("ready", flush=True)


trio.run(main)
