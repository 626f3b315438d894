"""Whatever happens to server, connection and history: once it is quiet the informer has what the server has, and no
object it tells of ever goes back to an older version."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from shell.kube.informerkit import Cluster
from trikubelet.kube.informer import PAUSE_SECONDS_MAX, QUIET_SECONDS_MAX
from trikubelet.model.api_errors import ApiBusy, ApiFailure, ApiLost, Expired, ObjectExists, ObjectMissing
from trikubelet.testing.apiserver.server import StreamedLists
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_api import Fail, Hang, LoseAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from trikubelet.kube.known import Key

NAMES = ("one", "two", "three")
QUIET_AFTER_SECONDS = 4 * QUIET_SECONDS_MAX + 4 * PAUSE_SECONDS_MAX
"""A silent watch, a silent answer, and the pauses between."""

writes = st.tuples(st.sampled_from(["create", "change", "delete"]), st.sampled_from(NAMES))
problems = st.sampled_from(["cut", "finish", "down", "up", "silence", "restart", "forget"])
streams = st.sampled_from(StreamedLists)
outcomes = st.sampled_from(
    [
        Fail(Expired("too old")),
        Fail(ApiLost("lost")),
        Fail(ApiBusy("busy", after=3.0)),
        Fail(ApiFailure("failed")),
        LoseAnswer(),
        Hang(),
    ]
)
plans = st.tuples(st.sampled_from(["list", "watch"]), outcomes)
waits = st.sampled_from([0.0, 0.001, 0.5, 3.0, 40.0, 100.0])
steps = st.lists(st.tuples(st.one_of(writes, writes, problems, streams, plans), waits), max_size=40)


@settings(max_examples=examples(250), deadline=None)
@given(story=steps, seed=st.integers(0, 2**16), writes_kept_max=st.sampled_from([1, 3, 1000]))
def test_when_it_is_quiet_the_informer_has_what_the_server_has(
    story: list[tuple[object, float]], seed: int, writes_kept_max: int
) -> None:
    async def live() -> None:
        cluster = Cluster(seed, writes_kept_max)
        cluster.problems.odds = Odds(
            latency_seconds=0.3, error=0.1, lost_answer=0.1, hang=0.02, lost_stream=0.1, repeated_event=0.3
        )
        cluster.problems.lag_versions_max = 5
        cluster.informer.add_listener(only_forward(cluster))
        async with cluster.running():
            for step, wait in story:
                happen(cluster, step)
                await trio.sleep(wait)
            cluster.api.calm()
            cluster.link.up()
            await trio.sleep(QUIET_AFTER_SECONDS)

            assert cluster.truth() == cluster.known()
            assert cluster.informer.has_synced
            assert cluster.outage.since is None

    trio.run(live, clock=trio.testing.MockClock(autojump_threshold=0))


def only_forward(cluster: Cluster) -> Callable[[Collection[Key]], None]:
    """A listener that keeps the newest version of every object it was told of."""
    newest: dict[tuple[Key, str], int] = {}

    def listener(keys: Collection[Key]) -> None:
        for key in keys:
            if (tree := cluster.informer.objects.get(key)) is not None:
                meta = tree["metadata"]
                assert newest.get((key, meta["uid"]), 0) < int(meta["resourceVersion"])
                newest[key, meta["uid"]] = int(meta["resourceVersion"])

    return listener


def happen(cluster: Cluster, step: object) -> None:
    """One step of the story."""
    match step:
        case StreamedLists():
            cluster.server.streamed_lists = step
        case ("list" | "watch" as verb, outcome):
            cluster.api.plan(verb, outcome)
        case (verb, name):
            with suppress(ObjectExists, ObjectMissing):
                getattr(cluster, verb)(name)
        case "restart":
            cluster.server.store.forget()
            cluster.link.cut()
        case "forget":
            cluster.server.store.forget()
        case _:
            getattr(cluster.link, str(step))()
