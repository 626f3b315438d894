"""The event writer against an API server in memory: counts, rates, bounds, and a server that is away."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.status.apikit import TrioClock, Watchful
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import EVENTS, Selection
from trikubelet.model.api_errors import ApiError, ApiFailure, ApiUnreachable, Conflict, Forbidden
from trikubelet.model.bounds import Bounds
from trikubelet.model.objects import ObjectRef
from trikubelet.status import event_writer
from trikubelet.status.event_writer import EventRate, EventWriter
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Fail, LoseAnswer

if TYPE_CHECKING:
    from trio.testing import MockClock

WEB = ObjectRef("Pod", "web", "default", "u")


class Bench:
    """A server and a writer that tells it."""

    def __init__(self, rate: EventRate | None = None, bounds: Bounds | None = None) -> None:
        self.server = ApiServer(TrioClock().now_ns, 1)
        self.api = Watchful(self.server)
        self.writer = EventWriter(
            self.api,
            "n",
            rate or EventRate(100, 50),
            TrioClock(),
            Outage("The API server"),
            bounds or Bounds(),
            random.Random(1),
        )

    def record(self, message: str = "m", about: ObjectRef = WEB) -> None:
        """Something happened."""
        self.writer.record(about, "Normal", "Pulled", message)

    def events(self) -> list[k8s.Event]:
        """Return the server's events, oldest first."""
        items = self.server.list(EVENTS, Selection()).items
        found = [msgspec.json.decode(item.raw, type=k8s.Event) for item in items]
        return sorted(found, key=lambda event: event.first_timestamp)


async def test_an_event_is_created_and_its_recurrence_counted(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    await nursery.start(bench.writer.run)
    for _ in range(3):
        bench.record()
        await trio.sleep(1)

    (event,) = bench.events()
    assert (3, "2027-01-15T08:00:00Z", "2027-01-15T08:00:02Z") == (
        event.count, event.first_timestamp, event.last_timestamp,
    )  # fmt: skip
    assert {"create": 1, "patch": 2} == bench.api.asked


async def test_what_recurs_while_it_waits_is_reported_once(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    for _ in range(20):
        bench.record()
    await nursery.start(bench.writer.run)
    await trio.sleep(1)

    assert [20] == [event.count for event in bench.events()]
    assert {"create": 1} == bench.api.asked


async def test_an_event_the_server_has_forgotten_starts_over(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    await nursery.start(bench.writer.run)
    bench.record()
    await trio.sleep(1)
    bench.server.delete(EVENTS, bench.events()[0].metadata.name, "default")
    bench.record()
    await trio.sleep(1)

    assert [2] == [event.count for event in bench.events()]


async def test_requests_keep_to_the_rate(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(EventRate(burst=10, per_second=5))
    await nursery.start(bench.writer.run)
    for n in range(40):
        bench.record(about=ObjectRef("Pod", f"web-{n}", "default", f"u{n}"))
    await trio.sleep(0.01)
    assert 10 == bench.api.asked["create"]
    await trio.sleep(2)
    assert 20 == bench.api.asked["create"]


async def test_no_rate_is_no_limit(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(EventRate(burst=0, per_second=0))
    await nursery.start(bench.writer.run)
    for n in range(40):
        bench.record(about=ObjectRef("Pod", f"web-{n}", "default", f"u{n}"))
    await trio.sleep(0.01)
    assert 40 == bench.api.asked["create"]


async def test_events_of_an_object_arrive_in_their_order_and_no_object_waits_for_another(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(EventRate(burst=0, per_second=0))
    arrived: list[tuple[str, str]] = []
    seconds = random.Random(7)

    async def create(resource: object, body: k8s.Event, namespace: str = "") -> None:
        await trio.sleep(1 if body.involved_object.name == "slow" else seconds.random())
        arrived.append((body.involved_object.name, body.message))

    monkeypatch.setattr(bench.api, "create", create)
    paths = ("", "spec.containers{a}", "spec.containers{b}")
    wanted = [(name, f"{number}") for number in range(9) for name in ("slow", "web")]
    for name, number in wanted:
        bench.record(number, about=ObjectRef("Pod", name, "default", name, paths[int(number) % 3]))
    await nursery.start(bench.writer.run)
    await trio.sleep(8.5)
    assert 8 == len([name for name, _ in arrived if name == "slow"])
    await trio.sleep(1)

    for name in ("slow", "web"):
        assert [one for one in wanted if one[0] == name] == [one for one in arrived if one[0] == name]
    assert 9 == [name for name, _ in arrived[:14]].count("web")


async def test_a_server_that_is_away_costs_bounded_memory_and_what_is_lost_is_counted(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(bounds=Bounds(events_waiting_max=50))
    bench.api.link.down()
    await nursery.start(bench.writer.run)
    for n in range(100):
        bench.record(about=ObjectRef("Pod", f"web-{n}", "default", f"u{n}"))
    await trio.sleep(3600)
    figures = bench.writer.figures()
    assert (0, 50) == (figures.written, figures.lost)
    assert bench.api.asked["create"] < 3600 / 5 + 20
    bench.api.link.up()
    await trio.sleep(10)

    assert 50 == len(bench.events())
    assert 0 == bench.writer.figures().waiting


async def test_creation_with_a_lost_answer_is_one_event(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    bench.api.plan("create", LoseAnswer())
    await nursery.start(bench.writer.run)
    bench.record()
    await trio.sleep(30)

    assert [1] == [event.count for event in bench.events()]


@pytest.mark.parametrize("error", [Forbidden("the namespace is being terminated"), Conflict("of another UID")])
async def test_an_event_the_server_refuses_is_given_up(
    autojump_clock: MockClock, nursery: Any, error: ApiError
) -> None:
    bench = Bench()
    bench.api.plan("create", Fail(error))
    await nursery.start(bench.writer.run)
    bench.record()
    bench.record(about=ObjectRef("Pod", "web", "nowhere", "v"))
    await trio.sleep(3600)

    assert {"create": 2} == bench.api.asked
    assert 2 == bench.writer.figures().refused


async def test_an_event_that_the_server_fails_with_each_time_is_given_up_and_counted(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench()
    bench.api.plan("create", *[Fail(ApiFailure("failed calling webhook"))] * 100)
    await nursery.start(bench.writer.run)
    bench.record()
    await trio.sleep(600)

    assert {"create": event_writer.TRIES_MAX} == bench.api.asked
    assert (1, 0) == (bench.writer.figures().lost, bench.writer.figures().waiting)


async def test_an_event_outlives_a_server_that_is_away_for_long(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    bench.api.plan("create", *[Fail(ApiUnreachable("no route"))] * 100)
    await nursery.start(bench.writer.run)
    bench.record()
    await trio.sleep(1000)

    assert ["Pulled"] == [event.reason for event in bench.events()]


async def test_too_many_of_one_object_are_kept_back_and_counted(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    await nursery.start(bench.writer.run)
    for _ in range(30):
        bench.record()
        await trio.sleep(0.1)

    assert (25, 5) == (bench.writer.figures().written, bench.writer.figures().filtered)
    assert [25] == [event.count for event in bench.events()]


async def test_the_recorder_passes_on_what_it_records(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench()
    recorder = EventRecorder(TrioClock(), 10)
    recorder.recorded.add(bench.writer.record)
    await nursery.start(bench.writer.run)
    recorder.record(WEB, "Warning", "Failed", "no such image")
    await trio.sleep(1)

    assert [("Warning", "Failed", "no such image")] == [(e.type, e.reason, e.message) for e in bench.events()]
    assert 1 == len(recorder.all())


async def test_a_bug_that_one_event_provokes_costs_that_one_alone(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = event_writer.new_event

    def make(series: Any, *more: str) -> Any:
        if series.about.name == "bad":
            raise ValueError("oops")
        return real(series, *more)

    monkeypatch.setattr(event_writer, "new_event", make)
    bench = Bench()
    await nursery.start(bench.writer.run)
    bench.record(about=ObjectRef("Pod", "bad", "default", "b"))
    bench.record()
    await trio.sleep(60)

    assert ["web"] == [event.involved_object.name for event in bench.events()]
    assert "Pod default/bad: a bug in writing an event about it; that event is lost" in caplog.messages
    assert (1, 0) == (bench.writer.figures().bugs, bench.writer.figures().waiting)


async def test_recording_an_event_never_raises(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(*_: Any) -> None:
        raise ValueError("oops")

    monkeypatch.setattr(event_writer.Correlator, "observe", observe)
    bench = Bench()
    bench.record()

    assert 1 == bench.writer.figures().bugs
