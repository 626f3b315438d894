"""The API server's version: when it is asked for, and what counts when there is no answer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.model.api_errors import ApiFailure, ApiUnreachable
from trikubelet.node.server_version import FIRST_SECONDS_MAX, LOOK_SECONDS, ServerVersion

if TYPE_CHECKING:
    from trio.testing import MockClock


class Bench:
    """A server that answers with what is next of ``answers``, and then with the last one again; None: never."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []
        self.changes: list[str] = []
        self.version = ServerVersion(random.Random(1))
        self.version.changed.add(lambda: self.changes.append(self.version.known))

    async def ask(self) -> str:
        self.asked.append(trio.current_time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await trio.lowlevel.checkpoint()
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, str)
        return answer


async def test_version_is_known_at_once_and_an_upgrade_of_the_server_is_noticed(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench("v1.36.3", "v1.36.3", "v1.37.2")
    await nursery.start(bench.version.run, bench.ask)
    await bench.version.first()

    assert ("v1.36.3", 0) == (bench.version.known, trio.current_time())
    await trio.sleep(3 * LOOK_SECONDS)
    assert ["v1.36.3", "v1.37.2"] == bench.changes


async def test_failures_are_retried_more_and_more_slowly_and_leave_what_is_known(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench("v1.36.3", ApiUnreachable("connection refused"), ApiFailure("no version"), "v1.36.4")
    await nursery.start(bench.version.run, bench.ask)
    await trio.sleep(LOOK_SECONDS * 1.3)

    assert ("v1.36.4", 4) == (bench.version.known, len(bench.asked))
    waited = [later - before for before, later in zip(bench.asked[1:], bench.asked[2:], strict=False)]
    assert (True, True) == (1 <= waited[0] <= 1.2, 2 <= waited[1] <= 2.4)


async def test_server_that_never_states_its_version_is_asked_ever_more_rarely(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(ApiFailure("forbidden"))
    await nursery.start(bench.version.run, bench.ask)
    await trio.sleep(24 * 3600)

    assert len(bench.asked) < 24 * 3600 / LOOK_SECONDS + 12
    assert ("", []) == (bench.version.known, bench.changes)


async def test_first_status_waits_for_a_hanging_server_only_so_long(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(None)
    await nursery.start(bench.version.run, bench.ask)
    await bench.version.first()

    assert FIRST_SECONDS_MAX == trio.current_time()


async def test_first_status_does_not_wait_after_a_failure(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(ApiUnreachable("connection refused"))
    await nursery.start(bench.version.run, bench.ask)
    await bench.version.first()

    assert 0 == trio.current_time()
