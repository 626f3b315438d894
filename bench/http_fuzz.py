"""What damaged requests do to an agent: 10⁵ conversations over TLS with the node's API of a real process, from a seed.

    PYTHONPATH=tests python bench/http_fuzz.py [--conversations 100000] [--seed 1] [--at-once 8] [--only NUMBER]

The agent is the real process on `trikubelet fake-runtime`, which runs nothing; it has one pod. Half of the clients
show a certificate and may do everything, half show nothing. What they say is tests/shell/httpfuzzkit.py's. Each closes
its half when it has said all, and hears the other side out; whoever is not let go within ``HEARD_SECONDS_MAX`` is
counted as hanging and named by its number (``--only`` says that one alone). Every few thousand the process is looked
at: memory, threads, open files, how long an answer of the local API takes. At last more clients come than there is room
for, who prove nothing: they are silent at first, and then each sends most of a megabyte of headers and stops.

Results: results/http_fuzz.json, or what ``--results`` names. Ends with 1 for an agent that has ended, hung, said
something other than HTTP, let somebody in without a proof, logged a failure, or kept memory, threads or files. An
interrupt ends it early.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
import trustme

from processes import AgentProcess, FakeRuntimeProcess, wait_until
from shell.httpfuzzkit import Target, conversation
from shell.portkit import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results" / "http_fuzz.json"
HEARD_SECONDS_MAX = 20.0
LOOK_EVERY = 2000
WARM_SHARE = 0.2
"""Of the conversations, after which everything that is loaded or remembered once is there."""
LIMITS = {"rss_mb": 8, "files": 4, "threads": 4}
"""What may be there more at the end than once all was warm: allocators keep some, and threads wait for more to do."""
CROWD = 1200
"""More than the node's API has room for."""
MUCH = b"GET /pods HTTP/1.1\r\nhost: n\r\nx: " + b"y" * 1_000_000
"""Of a head, without its end."""
MUCH_MB_MAX = 160
"""What all of that may add to memory: ``HttpLimits`` says 32, and each connection's TLS has a record in four places."""
TARGET = Target("web-bench", "main")


@dataclass
class Fuzz:
    """Owns what was found so far."""

    agent: AgentProcess
    port: int
    seed: int
    known: ssl.SSLContext
    unknown: ssl.SSLContext
    statuses: dict[str, Counter[str]] = field(default_factory=lambda: {"known": Counter(), "unknown": Counter()})
    wrong: list[str] = field(default_factory=list)
    looks: list[dict[str, float]] = field(default_factory=list)
    had: int = 0

    async def say(self, number: int) -> None:
        """One conversation to its end."""
        who, context = ("known", self.known) if number % 2 else ("unknown", self.unknown)
        told = bytearray()
        with trio.move_on_after(HEARD_SECONDS_MAX) as limit:
            try:
                await self._heard(conversation(self.seed, number, TARGET), context, told)
            except (trio.BrokenResourceError, OSError) as error:
                self.wrong.append(f"{number}: no connection: {error!r}")
        if limit.cancelled_caught:
            self.wrong.append(f"{number}: nobody let it go")
        if told and not told.startswith(b"HTTP/1.1 "):
            self.wrong.append(f"{number}: told {bytes(told[:100])!r}")
        found = Counter(one.decode() for one in re.findall(rb"^HTTP/1\.1 (\d{3}) ", told))
        if who == "unknown" and any(one[0] == "2" or one == "101" for one in found):
            self.wrong.append(f"{number}: let in without a proof")
        self.had += 1
        self.statuses[who] += found or Counter({"nothing": 1})

    async def _heard(self, pieces: tuple[bytes, ...], context: ssl.SSLContext, told: bytearray) -> None:
        plain = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with trio.SSLStream(plain, context, server_hostname="bench", https_compatible=True) as stream:
            await stream.do_handshake()

            async def speak() -> None:
                try:
                    for piece in pieces:
                        await stream.send_all(piece)
                    await plain.send_eof()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # the agent has heard enough

            async with trio.open_nursery() as nursery:
                nursery.start_soon(speak)
                try:
                    async for data in stream:
                        told += data
                except trio.BrokenResourceError:
                    pass  # it was cut off
                nursery.cancel_scope.cancel()
            await trio.aclose_forcefully(stream)

    async def run(self, numbers: range, at_once: int) -> None:
        """All conversations, so many at a time, with a look every now and then."""
        turns: Iterator[int] = iter(numbers)

        async def talk() -> None:
            for number in turns:
                await self.say(number)
                if number % LOOK_EVERY == 0:
                    self.look(number)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(talk)

    def look(self, number: int) -> None:
        """What the process has now."""
        place = Path(f"/proc/{self.agent.pid}")
        began = time.perf_counter()
        self.agent.pods()
        self.looks.append(
            {
                "conversations": number,
                "rss_mb": round(self.agent.rss_bytes() / 2**20, 1),
                "files": len(os.listdir(place / "fd")),
                "threads": len(os.listdir(place / "task")),
                "answer_ms": round((time.perf_counter() - began) * 1e3, 1),
            }
        )
        sys.stderr.write(f"{self.looks[-1]}\n")

    async def crowd(self) -> dict[str, Any]:
        """More clients than there is room for, silent after the handshake and then with much to say: who is held, what
        memory they have, and whether it is served who comes later."""
        held: list[trio.SSLStream[Any]] = []
        refused = 0
        for _ in range(CROWD):
            plain = await trio.open_tcp_stream("127.0.0.1", self.port)
            stream = trio.SSLStream(plain, self.unknown, server_hostname="bench", https_compatible=True)
            try:
                await stream.do_handshake()
            except (trio.BrokenResourceError, OSError):
                refused += 1
                await trio.aclose_forcefully(stream)
            else:
                held.append(stream)
        self.agent.pods()
        silent_mb = self.agent.rss_bytes() / 2**20
        answers: Counter[str] = Counter()
        much_mb = 0.0

        async def say_much(stream: trio.SSLStream[Any]) -> None:
            with suppress(trio.BrokenResourceError, OSError):
                await stream.send_all(MUCH)

        async def hear(stream: trio.SSLStream[Any]) -> None:
            try:
                answers[bytes(await stream.receive_some(12))[-3:].decode()] += 1
            except (trio.BrokenResourceError, OSError):
                answers["cut off"] += 1

        async with trio.open_nursery() as nursery:
            for stream in held:
                nursery.start_soon(say_much, stream)
                nursery.start_soon(hear, stream)
            until = trio.current_time() + HEARD_SECONDS_MAX
            while trio.current_time() < until:
                much_mb = max(much_mb, self.agent.rss_bytes() / 2**20)
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        if much_mb - silent_mb > MUCH_MB_MAX:
            self.wrong.append(f"{silent_mb:.0f} MiB with a silent crowd, {much_mb:.0f} with one that says much")
        for stream in held:
            await trio.aclose_forcefully(stream)
        await trio.sleep(1)
        told = bytearray()
        await self._heard((b"GET /healthz HTTP/1.1\r\nhost: n\r\n\r\n",), self.known, told)
        if not told.startswith(b"HTTP/1.1 200 "):
            self.wrong.append(f"after the crowd had gone: {bytes(told)!r}")
        memory = {"silent_mb": round(silent_mb, 1), "much_mb": round(much_mb, 1)}
        return {"came": CROWD, "held": len(held), "refused": refused, **memory, "much_answered": dict(answers)}


def kept(looks: list[dict[str, float]], what: str, conversations: int) -> float:
    """How much more of something there is in the last quarter of the looks than once all was warm: the medians."""
    warm = [one[what] for one in looks if one["conversations"] >= WARM_SHARE * conversations]
    quarter = max(1, len(warm) // 4)
    return statistics.median(warm[-quarter:]) - statistics.median(warm[:quarter]) if warm else 0.0


def clients(place: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """One who may do everything, by a certificate of the authority that is written there, and one who shows nothing."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(place / "ca.crt")
    made = []
    for _ in range(2):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        made.append(context)
    authority.issue_cert("client.test", common_name="admin").configure_cert(made[0])
    return made[0], made[1]


def main() -> None:
    """Run, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--only", type=int, help="the number of the one conversation to have")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where they are written")
    words = parser.parse_args()
    port, began = free_port(), time.monotonic()
    with tempfile.TemporaryDirectory() as name, FakeRuntimeProcess(Path(name)) as runtime:
        place = Path(name)
        known, unknown = clients(place)
        api: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": port,
            "authentication": {
                "webhook": {"enabled": False},
                "anonymous": {"enabled": False},
                "x509": {"clientCAFile": str(place / "ca.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
        }
        with AgentProcess(place, runtime, **api) as agent:
            agent.put("web")
            wait_until(lambda: agent.running() == 1, "the pod runs", 0.1)
            fuzz = Fuzz(agent, port, words.seed, known, unknown)
            numbers = range(words.only, words.only + 1) if words.only is not None else range(words.conversations)
            try:
                trio.run(fuzz.run, numbers, words.at_once)
            except* KeyboardInterrupt:
                sys.stderr.write(f"interrupted after {fuzz.had} conversations\n")
            crowd = trio.run(fuzz.crowd)
            if agent.running() != 1:
                fuzz.wrong.append("the pod does not run any more")
        fuzz.wrong += [line for line in agent.log().splitlines() if re.match(r"E\d{4} |Traceback", line)][:20]
    more = {what: kept(fuzz.looks, what, fuzz.had) for what in ("rss_mb", "files", "threads")}
    fuzz.wrong += [f"kept {what}: {count}" for what, count in more.items() if count > LIMITS[what]]
    found = {
        "conversations": fuzz.had,
        "seed": words.seed,
        "seconds": round(time.monotonic() - began),
        "statuses": {who: dict(sorted(counts.items())) for who, counts in fuzz.statuses.items()},
        "more_at_the_end": more,
        "longest_answer_ms": max((look["answer_ms"] for look in fuzz.looks), default=0.0),
        "crowd": crowd,
        "wrong": fuzz.wrong,
        "looks": fuzz.looks,
    }
    if words.only is None:
        words.results.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "looks"}, indent=1))
    sys.exit(1 if fuzz.wrong else 0)


if __name__ == "__main__":
    main()
