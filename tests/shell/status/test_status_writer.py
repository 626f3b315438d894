"""The status writer against an API server in memory: once and in order, side by side, sane when the server is not."""

from __future__ import annotations

import copy
import logging
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.status.apikit import Cluster, computed, shows
from trikubelet.core.names import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE, status_uid
from trikubelet.model import k8s
from trikubelet.model.api import PODS, PatchKind
from trikubelet.model.api_errors import (
    ApiBusy,
    ApiFailure,
    ApiUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    ObjectMissing,
    Refused,
)
from trikubelet.model.bounds import Bounds
from trikubelet.status import writer
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_api import ApiProblems, Fail, Hang, LoseAnswer

if TYPE_CHECKING:
    from trio.testing import MockClock

STRATEGIC = PatchKind.STRATEGIC
UNSEEN_END = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}


async def settle() -> None:
    """Until nobody has anything to do at this moment."""
    await trio.sleep(0.01)


async def test_a_status_is_told_once_and_nothing_is_read_before(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await trio.sleep(60)

    assert ("Running", "", True) == shows(cluster.get("web"))
    assert {"patch": 1} == cluster.api.asked
    assert web.metadata.uid == cluster.api.bodies[0]["metadata"]["uid"]
    assert (float("inf"), 1) == cluster.writer.figures().durations.buckets[-1]


async def test_a_containers_status_is_told_once_though_the_server_fills_it_in(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    running = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at="2027-01-15T08:00:00Z"))
    shown = k8s.ContainerStatus(name="main", image="i", image_id="", ready=True, restart_count=0, state=running)
    cluster.publish(web, msgspec.structs.replace(computed(), container_statuses=(shown,)))
    await trio.sleep(60)

    assert {"patch": 1} == cluster.api.asked


async def test_what_the_server_has_already_is_not_reported(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.server.patch(PODS, "web", {"status": computed()}, "default", kind=STRATEGIC, subresource="status")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(60)

    assert {} == cluster.api.asked


async def test_pods_are_written_side_by_side_within_the_bound(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster(Bounds(status_writes_max=8))
    cluster.api.latency_seconds = 1.0
    pods = [cluster.add(f"web-{n}") for n in range(24)]
    await nursery.start(cluster.writer.run)
    for pod in pods:
        cluster.publish(pod, computed())
    await trio.sleep(3.5)

    assert 24 == len(cluster.api.written)
    assert 8 == cluster.api.together_peak


async def test_one_pod_is_written_in_order_and_what_is_overtaken_is_left_out(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    cluster.api.latency_seconds = 1.0
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    for n in range(100):
        cluster.publish(web, computed(message=str(n)))
        await trio.sleep(0.05)
    await trio.sleep(5)

    assert ("Running", "99", False) == shows(cluster.get("web"))
    assert 1 == cluster.api.running_peak
    assert cluster.api.asked["patch"] <= 7


async def test_an_end_and_the_first_time_ready_go_first(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster(Bounds(status_writes_max=1))
    cluster.api.latency_seconds = 1.0
    pods = {name: cluster.add(name) for name in ("first", "dull", "ready", "ended")}
    cluster.pod_states.stopped.add(pods["ended"].metadata.uid)
    await nursery.start(cluster.writer.run)
    cluster.publish(pods["first"], computed())
    await settle()
    cluster.publish(pods["dull"], computed())
    cluster.publish(pods["ready"], computed(ready=True))
    cluster.publish(pods["ended"], computed("Failed"))
    await trio.sleep(10)

    assert ["first", "ready", "ended", "dull"] == cluster.api.written


async def test_the_informer_may_lag_behind(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.seen.lags = True
    for ready in (True, False, True, False):
        cluster.publish(web, computed(ready=ready))
        await settle()
        assert ready == shows(cluster.get("web"))[2]


async def test_a_condition_of_others_survives_and_a_change_to_ours_does_not(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await settle()
    cluster.seen.lags = True
    others = [{"type": "example.com/gate", "status": "True"}, {"type": "Ready", "status": "False"}]
    cluster.server.patch(
        PODS, "web", {"status": {"conditions": others}}, "default", kind=STRATEGIC, subresource="status"
    )
    cluster.publish(web, computed(ready=True, message="news"))
    await settle()
    cluster.seen.catch_up()
    await settle()

    found = cluster.get("web").status or k8s.PodStatus()
    assert {"example.com/gate": "True", "Ready": "True"} == {c.type: c.status for c in found.conditions}


async def test_what_the_server_does_not_keep_is_not_told_for_ever(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.server.store.watchers.insert(0, lambda write: write.last["status"].pop("message", None))
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(message="of a feature that an older server does not know"))
    await trio.sleep(3600)

    assert ("Running", "", False) == shows(cluster.get("web"))
    assert cluster.api.asked["patch"] <= 3


async def test_a_pod_goes_even_if_the_server_does_not_keep_all_that_is_told_of_it(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.server.store.watchers.insert(0, lambda write: write.last.get("status", {}).pop("hostIP", None))
    await nursery.start(cluster.writer.run)
    cluster.server.delete(PODS, "web", "default", grace_seconds=30)
    cluster.pod_states.stopped.add(web.metadata.uid)
    cluster.publish(cluster.get("web"), msgspec.structs.replace(computed("Failed"), host_ip="192.0.2.1"))
    await trio.sleep(60)
    cluster.finish(web)
    await settle()

    with pytest.raises(ObjectMissing):
        cluster.get("web")


# ---- answers of other kinds ----


@pytest.mark.parametrize("is_told", [True, False], ids=["as it is", "only that it may not know"])
async def test_an_object_that_is_gone_is_tried_again_ever_more_rarely_until_the_informer_says_so(
    autojump_clock: MockClock, nursery: Any, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.seen.lags = True
    cluster.server.delete(PODS, "web", "default", grace_seconds=0)
    await nursery.start(cluster.writer.run)
    if not is_told:
        cluster.api.plan("get", *[Fail(Forbidden("no relationship found between node 'n' and this object"))] * 100)
    told = list[float]()
    with cluster.outage.listening(lambda: None, set_back=lambda: told.append(trio.current_time())):
        cluster.publish(web, computed())
        await trio.sleep(10)
        assert [] == caplog.messages == told  # it merely lags, for all anybody knows
        await trio.sleep(3590)
    assert 50 <= cluster.api.asked["patch"] == cluster.api.asked["get"] <= 60
    refused, set_back = caplog.messages
    assert "the API server rejects its status" in refused
    assert "was set back to an older state: pod default/web does not exist, and no watch has reported" in set_back
    assert 1 == len(told)
    cluster.api.asked.clear()
    cluster.seen.catch_up()
    await trio.sleep(3600)

    assert {} == cluster.api.asked


@pytest.mark.parametrize("error", [ObjectMissing("not found", "NotFound"), Forbidden("not yours")])
async def test_two_noes_in_a_row_silence_no_pod(autojump_clock: MockClock, nursery: Any, error: Exception) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", Fail(ObjectMissing('admission webhook "p": no such quota', "NotFound")))
    cluster.api.plan("get", Fail(error))
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await trio.sleep(60)

    assert ("Running", "", True) == shows(cluster.get("web"))


def set_back(cluster: Cluster) -> None:
    """Restore the server from a backup of its state as it is now; in between the informer saw much."""
    store = cluster.server.store
    backup = store.version, copy.deepcopy(store._objects)
    store.version += 100
    cluster.server.patch(PODS, "web", {"metadata": {"annotations": {"a": "b"}}}, "default", kind=STRATEGIC)
    cluster.seen.lags = True
    store.version, store._objects = backup
    store.forget()


async def test_an_answer_older_than_what_the_informer_saw_counts_and_tells_that_the_server_was_set_back(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster, told = Cluster(), list[float]()
    web = cluster.add("web")
    set_back(cluster)
    await nursery.start(cluster.writer.run)
    with cluster.outage.listening(lambda: None, set_back=lambda: told.append(trio.current_time())):
        cluster.publish(web, computed(ready=True))
        await trio.sleep(600)
        assert ({"patch": 1}, 1) == (cluster.api.asked, len(told))
        cluster.publish(web, computed(message="later"))
        await trio.sleep(600)
    assert {"patch": 2} == cluster.api.asked
    cluster.seen.catch_up()
    await trio.sleep(600)

    assert {"patch": 2} == cluster.api.asked
    assert ("Running", "later", False) == shows(cluster.get("web"))


@pytest.mark.parametrize(
    ("expected", "is_readable", "is_lost"),
    [(1, True, False), (0, False, False), (0, True, True)],
    ids=["unchanged since", "changed and not to be read", "a write that changes nothing"],
)
async def test_an_answer_older_than_all_the_informer_knows_tells_of_a_server_that_was_set_back(
    autojump_clock: MockClock, nursery: Any, expected: int, is_readable: bool, is_lost: bool
) -> None:
    cluster, told = Cluster(), list[float]()
    web = cluster.add("web")
    if is_lost:  # what is written again is there already
        cluster.api.plan("patch", LoseAnswer())
    if not is_readable:
        cluster.seen.unread.add("web")
    cluster.seen.lags, cluster.seen.lags_at = not is_lost, str(cluster.server.store.version + 100)
    await nursery.start(cluster.writer.run)
    with cluster.outage.listening(lambda: None, set_back=lambda: told.append(trio.current_time())):
        cluster.publish(web, computed(ready=True))
        await trio.sleep(0.1)
        cluster.server.store.version += 100 * is_lost  # others write
        await trio.sleep(600)

    assert expected == len(told)
    assert (2 if is_lost else 1) == cluster.api.asked["patch"]


async def test_what_was_answered_before_the_server_was_set_back_is_written_again(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    await trio.sleep(1)
    store = cluster.server.store
    backup = store.version, copy.deepcopy(store._objects)
    cluster.seen.lags = True
    cluster.publish(web, computed(ready=True))
    await settle()
    assert ("Running", "", True) == shows(cluster.get("web"))
    store.version, store._objects = backup
    store.forget()
    cluster.writer.forget_answers()
    await settle()

    assert ("Running", "", True) == shows(cluster.get("web"))


async def test_status_of_an_undecodable_object_is_written_once(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.api.latency_seconds = 0.02
    cluster.seen.unread.add("web")
    cluster.server.patch(PODS, "web", {"metadata": {"labels": {"a": "b"}}}, "default", kind=STRATEGIC)
    for ready in (True, False):
        cluster.publish(web, computed(ready=ready))
        with trio.move_on_after(600):
            while cluster.api.asked["patch"] < 100:  # noqa: ASYNC110 - else it would go on for ever
                await trio.sleep(1)

    assert ({"patch": 2}, False) == (cluster.api.asked, shows(cluster.get("web"))[2])


async def test_what_is_due_again_though_it_was_written_is_written_ever_more_rarely(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    monkeypatch.setattr(writer.WrittenObject, "is_written_after", lambda *_: False)  # whatever the versions say
    await nursery.start(cluster.writer.run)
    cluster.api.latency_seconds = 0.02
    cluster.seen.unread.add("web")
    cluster.publish(web, computed(ready=True))
    with trio.move_on_after(3600):
        while cluster.api.asked["patch"] < 100:  # noqa: ASYNC110 - else it would go on for ever
            await trio.sleep(1)
    assert 80 > cluster.api.asked["patch"]
    cluster.publish(web, computed(message="another"))
    await trio.sleep(0.1)

    assert ("Running", "another", False) == shows(cluster.get("web"))


async def test_a_404_about_something_else_silences_no_pod(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", *[Fail(ObjectMissing('admission webhook "p": no such quota', "NotFound"))] * 3)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await trio.sleep(180)

    assert ("Running", "", True) == shows(cluster.get("web"))
    assert {"patch": 4, "get": 3} == cluster.api.asked
    assert 1 == caplog.text.count("rejects its status")


async def test_another_pod_of_the_same_name_is_left_alone(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.seen.lags = True
    cluster.server.delete(PODS, "web", "default", grace_seconds=0)
    cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(message="of the old one"))
    await trio.sleep(3600)

    assert ("Pending", "", False) == shows(cluster.get("web"))
    assert {"patch": 1, "get": 1} == cluster.api.asked


async def test_a_conflict_about_the_same_pod_is_written_again(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", Fail(Conflict("somebody else was first")))
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await trio.sleep(5)

    assert ("Running", "", True) == shows(cluster.get("web"))
    assert {"patch": 2, "get": 1} == cluster.api.asked


async def test_a_status_after_one_that_is_refused_is_tried_at_once(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", *[Fail(Invalid("phase: no such"))] * 10)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(message="bad"))
    await trio.sleep(360)
    assert {"patch": 10} == cluster.api.asked
    cluster.publish(web, computed(message="good"))
    await settle()

    assert ("Running", "good", False) == shows(cluster.get("web"))
    assert 1 == sum("phase: no such" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("expected", "times"), [("Failed", 1), ("Failed", 4), ("", 1000)])
async def test_a_pod_that_is_over_goes_even_if_its_last_status_is_refused(
    autojump_clock: MockClock, nursery: Any, expected: str, times: int
) -> None:
    cluster = Cluster()
    cluster.add("web")
    told: list[str] = []
    cluster.server.delete(PODS, "web", "default")
    cluster.server.store.watchers.append(lambda w: told.append(w.last["status"]["phase"] if w.after else "removed"))
    web = cluster.get("web")
    cluster.api.plan("patch", *[Fail(Invalid("a policy does not want it"))] * times)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed("Failed"))
    cluster.finish(web)
    await trio.sleep(300)

    assert (expected in told, "removed") == (bool(expected), told[-1])
    assert min(times + 1, 5) == cluster.api.asked["patch"]


@pytest.mark.parametrize(
    "earlier", [Invalid("not ready? no!"), Forbidden("its roles are not read yet"), Conflict("no")]
)
@pytest.mark.parametrize("times", [4, 1000], ids=["mended", "for ever"])
async def test_what_was_said_of_earlier_statuses_does_not_count_against_a_pods_last(
    autojump_clock: MockClock, nursery: Any, earlier: Exception, times: int
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    told: list[str] = []
    cluster.server.store.watchers.append(lambda w: told.append(w.last["status"].get("phase", "")))
    cluster.api.plan("patch", *[Fail(earlier)] * 20)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(600)
    assert cluster.api.asked["patch"] > 8
    cluster.api.calm()
    cluster.api.asked.clear()
    cluster.api.plan("patch", *[Fail(Invalid("a policy does not want it"))] * times)
    cluster.server.delete(PODS, "web", "default", grace_seconds=30)
    cluster.publish(web, computed("Succeeded"))
    cluster.finish(web)
    await trio.sleep(120)

    assert ("Succeeded" in told) == (times == 4)
    assert {"patch": 5, "delete": 1} == {verb: cluster.api.asked[verb] for verb in ("patch", "delete")}
    assert None is cluster.server.store.get(PODS, ("default", "web"))


async def test_a_no_to_the_look_after_a_conflict_is_no_end(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", Fail(Conflict("once")))
    cluster.api.plan("get", Fail(Forbidden("its roles are not read yet")))
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(60)

    assert ("Running", "", False) == shows(cluster.get("web"))
    assert {"patch": 2, "get": 1} == cluster.api.asked


@pytest.mark.parametrize(
    "error",
    [Forbidden("not yours"), Refused("not yours"), Invalid("not yours")],
    ids=lambda error: type(error).__name__,
)
async def test_a_no_is_asked_again_ever_more_rarely(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", *[Fail(error)] * 10)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(600)

    assert ("Running", "", False) == shows(cluster.get("web"))
    assert {"patch": 11} == cluster.api.asked
    assert 0 == cluster.writer.figures().failures
    assert 1 == sum("not yours" in record.getMessage() for record in caplog.records)


async def test_a_pod_is_not_kept_waiting_for_what_was_said_of_an_earlier_one_of_its_name(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", *[Fail(Forbidden("not yours"))] * 1000)
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(3600)
    cluster.server.delete(PODS, "web", "default", grace_seconds=0)
    await trio.sleep(Bounds().status_reconcile_seconds)
    cluster.api.calm()
    cluster.publish(cluster.add("web"), computed())
    await settle()

    assert ("Running", "", False) == shows(cluster.get("web"))


async def test_the_server_names_its_pause(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    pods = [cluster.add(f"web-{n}") for n in range(3)]
    cluster.api.plan("patch", *[Fail(ApiBusy("later", after=30.0))] * 3)
    await nursery.start(cluster.writer.run)
    for pod in pods:
        cluster.publish(pod, computed())
    await trio.sleep(29)
    assert [] == cluster.api.written
    await trio.sleep(2)
    assert 3 == len(cluster.api.written)


async def test_patch_with_a_lost_answer_is_repeated_completely(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(message="before"))
    await settle()
    cluster.seen.lags = True
    cluster.api.plan("patch", LoseAnswer())
    cluster.publish(web, computed(message="lost", ready=True))
    await settle()
    assert ("Running", "lost", True) == shows(cluster.get("web"))
    cluster.publish(web, computed(message="before"))
    await trio.sleep(60)

    assert ("Running", "before", False) == shows(cluster.get("web"))


async def test_pod_that_the_server_fails_on_delays_no_other(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster(Bounds(status_writes_max=1))
    sick, *well = [cluster.add(name) for name in ("sick", "web-1", "web-2")]
    cluster.api.plan("patch", Fail(ApiFailure("internal error")), Fail(ApiFailure("internal error")))
    await nursery.start(cluster.writer.run)
    cluster.publish(sick, computed())
    await settle()
    for pod in well:
        cluster.publish(pod, computed())
    await trio.sleep(20)

    assert ["web-1", "sick", "web-2"] == cluster.api.written or ["web-1", "web-2", "sick"] == cluster.api.written


async def test_a_server_that_says_no_is_back(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    gone = cluster.add("gone")
    cluster.seen.lags = True
    cluster.server.delete(PODS, "gone", "default", grace_seconds=0)
    cluster.api.plan("patch", Fail(ApiUnreachable("connection refused")))
    await nursery.start(cluster.writer.run)
    cluster.publish(gone, computed())
    await trio.sleep(5)

    assert ["is unreachable", "is back"] == [
        word for record in caplog.records for word in ("is unreachable", "is back") if word in record.getMessage()
    ]


async def test_missing_answer_times_out(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    cluster.api.plan("patch", Hang())
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed())
    await trio.sleep(40)

    assert ("Running", "", False) == shows(cluster.get("web"))


async def test_an_hour_without_a_server_costs_few_requests_and_the_return_no_herd(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    cluster.api.latency_seconds = 0.01
    pods = [cluster.add(f"web-{n}") for n in range(110)]
    await nursery.start(cluster.writer.run)
    cluster.api.link.down()
    for minute in range(60):
        for pod in pods:
            cluster.publish(pod, computed(message=str(minute)))
        await trio.sleep(60)
    asked, lines = cluster.api.asked["patch"], [r for r in caplog.records if "API server is" in r.getMessage()]
    assert [] == cluster.api.written
    assert asked < 3600 / 5 + 20
    assert len(lines) <= 61
    assert 110 == cluster.writer.figures().waiting + cluster.writer.figures().busy

    cluster.api.link.up()
    await trio.sleep(10)
    assert {("Running", "59", False)} == {shows(cluster.get(f"web-{n}")) for n in range(110)}
    assert 110 == cluster.api.asked["patch"] - asked - 1 or 110 == cluster.api.asked["patch"] - asked
    assert 8 == cluster.api.together_peak


# ---- the end of a pod ----


async def test_a_pod_that_ended_is_reported_and_then_removed(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    cluster.add("web")
    told: list[str] = []
    cluster.server.store.watchers.append(lambda w: told.append(w.last["status"]["phase"] if w.after else "removed"))
    await nursery.start(cluster.writer.run)
    cluster.server.delete(PODS, "web", "default")
    web = cluster.get("web")
    cluster.publish(web, computed("Failed"))
    await trio.sleep(60)
    assert "Pending" == shows(cluster.get("web"))[0]  # something may still run: neither its end nor its removal
    cluster.pod_states.stopped.add(web.metadata.uid)
    await trio.sleep(60)
    assert "Failed" == shows(cluster.get("web"))[0]  # its volumes may still be there
    cluster.finish(web)
    await settle()

    assert "removed" == told[-1]
    assert "Failed" in told
    assert [{"grace_seconds": 0, "uid": web.metadata.uid}] == cluster.api.deletions


async def test_a_pod_deleted_before_it_was_begun_goes_too(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    cluster.add("web")
    cluster.server.delete(PODS, "web", "default")
    await nursery.start(cluster.writer.run)
    await trio.sleep(60)
    assert {} == cluster.api.asked
    cluster.finish(cluster.get("web"))
    await settle()

    assert {"patch": 1, "delete": 1} == cluster.api.asked
    assert cluster.server.store.get(PODS, ("default", "web")) is None


async def test_a_pod_is_removed_once_however_late_the_informer_sees_what_was_written_of_it(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    web = cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(web, computed(ready=True))
    await settle()
    cluster.server.delete(PODS, "web", "default")
    cluster.seen.lags = True
    cluster.publish(web, computed("Failed"))
    await settle()
    cluster.finish(web)
    await settle()
    assert 1 == cluster.api.asked["delete"]
    before = cluster.server.store.version
    for version in range(before - 3, before):
        cluster.seen.see(version)
        await trio.sleep(60)

    assert 1 == cluster.api.asked["delete"]


async def test_what_the_server_writes_while_it_removes_a_pod_is_no_reason_to_remove_it_again(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    cluster.add("web", finalizers=["example.com/hold"])  # it makes the moment between the two last for ever
    cluster.server.delete(PODS, "web", "default")
    await nursery.start(cluster.writer.run)
    cluster.finish(cluster.get("web"))
    await settle()
    cluster.server.patch(PODS, "web", {"metadata": {"labels": {"new": "s"}}}, "default", kind=STRATEGIC)
    await settle()
    assert 1 == cluster.api.asked["delete"]
    await trio.sleep(60)

    assert 2 == cluster.api.asked["delete"]


async def test_a_finalizer_holds_a_pod_and_the_writer_does_not_mind(autojump_clock: MockClock, nursery: Any) -> None:
    cluster = Cluster()
    cluster.add("web", finalizers=["example.com/hold"])
    cluster.server.delete(PODS, "web", "default")
    await nursery.start(cluster.writer.run)
    cluster.finish(cluster.get("web"))
    await trio.sleep(3600)

    assert cluster.api.asked["delete"] <= 2
    assert "web" == cluster.get("web").metadata.name


async def test_a_static_pods_status_goes_to_its_mirror_which_is_never_removed_for_it(
    autojump_clock: MockClock, nursery: Any
) -> None:
    cluster = Cluster()
    cluster.add("web", annotations={CONFIG_MIRROR: "hash"})
    mirror = cluster.get("web")
    static = msgspec.structs.replace(
        mirror,
        metadata=msgspec.structs.replace(
            mirror.metadata, uid="hash", annotations={CONFIG_SOURCE: "file", CONFIG_HASH: "hash"}
        ),
    )
    await nursery.start(cluster.writer.run)
    cluster.publish(static, computed(ready=True))
    await settle()
    assert ("Running", "", True) == shows(cluster.get("web"))

    edited = msgspec.structs.replace(static, metadata=msgspec.structs.replace(static.metadata, uid="another"))
    cluster.publish(edited, computed("Failed"))
    cluster.server.delete(PODS, "web", "default")
    cluster.pod_states.finished.update(("hash", "another"))
    await trio.sleep(60)
    assert ("Running", "", True) == shows(cluster.get("web"))
    assert 0 == cluster.api.asked["delete"]


@pytest.mark.parametrize(
    ("expected", "was", "policy", "marks"),
    [
        ([("default", "web")], UNSEEN_END, "Never", {CONFIG_MIRROR: "hash"}),
        # Somebody does not want it, as a policy: another mirror would be refused as well.
        ([], UNSEEN_END, "Always", {CONFIG_MIRROR: "hash"}),
        ([], UNSEEN_END, "OnFailure", {CONFIG_MIRROR: "hash"}),
        ([], {"running": {}}, "Never", {CONFIG_MIRROR: "hash"}),
        ([], UNSEEN_END, "Never", {}),  # it is no mirror
    ],
)
async def test_a_mirror_that_shows_an_end_from_which_there_is_no_way_back_is_to_be_made_anew(
    autojump_clock: MockClock,
    nursery: Any,
    expected: list[tuple[str, str]],
    was: dict[str, Any],
    policy: str,
    marks: dict[str, str],
) -> None:
    cluster, told = Cluster(), []
    cluster.add("web", policy, annotations=marks)
    main = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": was}
    shown = {"phase": "Pending", "containerStatuses": [main]}
    cluster.server.patch(PODS, "web", {"status": shown}, "default", kind=PatchKind.MERGE, subresource="status")
    uid = status_uid(cluster.get("web"))
    meta = k8s.ObjectMeta(name="web", namespace="default", uid=uid, annotations={CONFIG_SOURCE: "file"})
    static = msgspec.structs.replace(cluster.get("web"), metadata=meta)
    cluster.api.plan("patch", *[Fail(Invalid("the container has ended for good"))] * 10)
    cluster.writer.refused_mirror.add(told.append)
    await nursery.start(cluster.writer.run)
    runs = k8s.ContainerStatus(
        name="main",
        image="i",
        image_id="",
        ready=False,
        restart_count=0,
        state=k8s.ContainerState(running=k8s.ContainerStateRunning(started_at="2026-01-01T12:00:00Z")),
    )
    cluster.publish(static, msgspec.structs.replace(computed(), container_statuses=(runs,)))
    await settle()

    assert {"patch": 1} == cluster.api.asked
    assert expected == told


# ---- everything at once ----


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_goes_wrong_no_status_is_older_than_one_written_and_the_newest_arrives(
    seed: int, autojump_clock: MockClock, nursery: Any
) -> None:
    chance = random.Random(seed)
    odds = Odds(latency_seconds=0.05, error=0.1, lost_answer=0.1, hang=0.02)
    cluster = Cluster(problems=ApiProblems(odds, random.Random(seed)), seed=seed)
    told: dict[str, list[int]] = {}

    def note(write: Any) -> None:
        message = write.last["status"].get("message")
        told.setdefault(write.key[1], []).append(int(message or 0))

    cluster.server.store.watchers.append(note)
    pods = [cluster.add(f"web-{n}") for n in range(10)]
    await nursery.start(cluster.writer.run)
    for n in range(1, 300):
        cluster.publish(chance.choice(pods), computed(message=str(n), ready=chance.random() < 0.5))
        if chance.random() < 0.1:
            cluster.seen.lags = True
        elif chance.random() < 0.1:
            cluster.seen.catch_up()
        await trio.sleep(chance.random())
    cluster.seen.catch_up()
    await trio.sleep(300)

    for pod in pods:
        newest = cluster.statuses.get(pod.metadata.uid)
        assert newest is not None
        assert shows(k8s.Pod(metadata=pod.metadata, spec=pod.spec, status=newest)) == shows(
            cluster.get(pod.metadata.name)
        )
        assert sorted(told[pod.metadata.name]) == told[pod.metadata.name]


@pytest.mark.parametrize("decision", ["due", "is_urgent"])
async def test_a_bug_that_one_pod_provokes_keeps_no_other_from_being_told(
    decision: str, autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    real = getattr(writer, decision)

    def decide(seen: k8s.Pod, *args: Any, **how: Any) -> Any:
        if seen.metadata.name == "bad":
            raise ValueError("oops")
        return real(seen, *args, **how)

    monkeypatch.setattr(writer, decision, decide)
    cluster = Cluster()
    bad, web = cluster.add("bad"), cluster.add("web")
    await nursery.start(cluster.writer.run)
    cluster.publish(bad, computed(ready=True))
    cluster.publish(web, computed(ready=True))
    await trio.sleep(600)

    assert ("Running", "", True) == shows(cluster.get("web"))
    assert 1 == sum("Pod default/bad: a bug in writing its status" in line for line in caplog.messages)
    assert 1 < cluster.writer.figures().bugs < 100

    monkeypatch.undo()
    await trio.sleep(120)
    assert ("Running", "", True) == shows(cluster.get("bad"))
