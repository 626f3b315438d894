"""Mirror pods against an API server in memory: there when they should be, and nobody waits for them."""

from __future__ import annotations

import copy
import logging
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.status.apikit import Cluster, PodStates, computed, shows
from trikubelet.core.names import CONFIG_HASH, CONFIG_MIRROR
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import PODS, PatchKind
from trikubelet.model.api_errors import ApiBusy, ApiError, Conflict, Forbidden, ObjectMissing
from trikubelet.model.bounds import Bounds
from trikubelet.status import mirror
from trikubelet.status.mirror import MirrorPods
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_api import Fail, LoseAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock


def static(name: str = "web", uid: str = "h1") -> k8s.Pod:
    made = pod(name, uid=uid)
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, annotations={**made.metadata.annotations, CONFIG_HASH: uid}),
    )


class Bench:
    """A cluster, the static pods of a node, and their mirrors."""

    def __init__(self, *pods: k8s.Pod) -> None:
        self.cluster = Cluster()
        self.static = list(pods)
        self.node: k8s.Node | None = k8s.Node(metadata=k8s.ObjectMeta(name="n", uid="node-uid"))
        self.cluster.pod_states.stopped.add("h0")
        self.mirrors = MirrorPods(
            self.cluster.api,
            lambda: self.static,
            self.cluster.seen,
            lambda: self.node,
            self.cluster.pod_states,
            self.cluster.statuses,
            Outage("The API server"),
            Bounds(),
            random.Random(1),
        )
        self.cluster.seen.watchers.append(self.mirrors.enqueue)

    def uid(self, name: str = "web") -> str:
        """The mirror's UID; empty when there is none."""
        tree = self.cluster.server.store.get(PODS, ("default", name))
        return "" if tree is None else str(tree["metadata"]["uid"])


async def test_every_static_pod_gets_a_mirror_once(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static("web"), static("db", "h2"))
    await nursery.start(bench.mirrors.run)
    await trio.sleep(3600)

    assert bench.uid("web")
    assert bench.uid("db")
    assert {"create": 2} == bench.cluster.api.asked


async def test_a_mirror_needs_the_node_and_a_look_at_what_is_there(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    node, bench.node = bench.node, None
    bench.cluster.seen.has_synced = False
    await nursery.start(bench.mirrors.run)
    await trio.sleep(60)
    bench.node = node
    await trio.sleep(60)
    assert {} == bench.cluster.api.asked
    bench.cluster.seen.has_synced = True
    bench.mirrors.enqueue_all()
    await trio.sleep(0.01)
    assert bench.uid()


async def test_deleted_mirror_pod_is_recreated(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    first = bench.uid()
    bench.cluster.server.delete(PODS, "web", "default")
    await trio.sleep(1)

    assert bench.uid() not in ("", first)


async def test_mirror_pod_with_a_rejected_status_is_recreated_once(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    first = bench.uid()
    bench.mirrors.remake(("default", "web"))
    bench.mirrors.remake(("default", "never-heard-of"))
    await trio.sleep(1)
    second = bench.uid()
    await trio.sleep(3600)

    assert second not in ("", first)
    assert second == bench.uid()
    assert {"create": 2, "delete": 1} == bench.cluster.api.asked


async def test_mirror_pod_deleted_before_its_turn_is_recreated_once(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    first = bench.uid()
    bench.mirrors.remake(("default", "web"))
    bench.cluster.server.delete(PODS, "web", "default", grace_seconds=0)
    await trio.sleep(3600)

    assert bench.uid() not in ("", first)
    assert {"create": 2} == bench.cluster.api.asked


async def test_the_mirror_of_a_static_pod_that_is_ending_is_not_made_anew_and_shows_its_end(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    bench.static = []
    bench.mirrors.remake(("default", "web"))
    await trio.sleep(60)

    assert bench.uid()
    assert {"create": 1} == bench.cluster.api.asked


async def test_mirror_of_a_pod_with_a_moved_uid_is_deleted_after_its_end_was_shown(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(static("web"))
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    monkeypatch.setattr(bench.cluster.pod_states, "is_to_begin_again", lambda uid: uid == "h1")
    bench.static = [static("shop")]
    await trio.sleep(60)
    assert ("", True) == (bench.uid("shop"), bool(bench.uid("web")))
    monkeypatch.undo()
    await trio.sleep(60)

    assert (True, "") == (bool(bench.uid("shop")), bench.uid("web"))


async def test_a_name_that_is_forgotten_meanwhile_is_not_to_be_made_anew_any_more(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench()
    await nursery.start(bench.mirrors.run)
    bench.mirrors.remake(("default", "web"))
    await trio.sleep(60)
    bench.static = [static()]
    theirs = bench.cluster.add("web", annotations={CONFIG_MIRROR: "h1"})  # as a server has it that was set back
    await trio.sleep(60)

    assert theirs.metadata.uid == bench.uid()
    assert {} == bench.cluster.api.asked


async def test_a_static_pod_is_not_kept_waiting_for_what_was_said_of_an_earlier_one_of_its_name(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    bench.cluster.api.plan("create", *[Fail(Forbidden("not yours"))] * 1000)
    await nursery.start(bench.mirrors.run)
    await trio.sleep(3600)
    (web,), bench.static = bench.static, []
    await trio.sleep(Bounds().housekeeping_period_seconds)
    bench.cluster.api.calm()
    bench.static = [web]
    bench.mirrors.enqueue_all()
    await trio.sleep(0.01)

    assert bench.uid()


async def test_a_mirror_that_is_gone_hides_none_of_a_restored_backup(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    store = bench.cluster.server.store
    mirror_of_then = copy.deepcopy(store.get(PODS, ("default", "web")))
    assert mirror_of_then is not None
    bench.static = []
    bench.cluster.pod_states.stopped.add("h1")
    await trio.sleep(3 * Bounds().housekeeping_period_seconds)
    assert not bench.uid()
    store.version = 100  # that of the backup
    store.put(PODS, ("default", "web"), mirror_of_then)
    await trio.sleep(3 * Bounds().housekeeping_period_seconds)

    assert not bench.uid()


async def test_two_agents_of_one_name_do_not_fight_over_a_mirror_for_long(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(static())
    pod_states = PodStates()
    pod_states.stopped.add("h1")
    rival = MirrorPods(
        bench.cluster.api,
        list,
        bench.cluster.seen,
        lambda: bench.node,
        pod_states,
        bench.cluster.statuses,
        Outage("The API server"),
        Bounds(),
        random.Random(2),
    )
    bench.cluster.seen.watchers.append(rival.enqueue)
    await nursery.start(bench.mirrors.run)
    await nursery.start(rival.run)
    await trio.sleep(60)
    assert bench.cluster.api.asked.total() < 40
    before = bench.cluster.api.asked.total()
    await trio.sleep(3600)

    assert bench.cluster.api.asked.total() - before <= 2 * 3600 / 60
    said = [
        one.getMessage() for one in caplog.records if "Does another agent use this node's name?" in one.getMessage()
    ]
    assert 2 <= len(said) <= 2 * 7


async def test_a_mirror_that_was_undone_often_is_made_at_once_again_after_a_calm(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    for _ in range(12):
        await trio.sleep(200)  # a removal and a creation, and the longest rest after each
        assert bench.uid()
        bench.cluster.server.delete(PODS, "web", "default")
    await trio.sleep(1)
    assert not bench.uid()
    await trio.sleep(600)
    bench.cluster.server.delete(PODS, "web", "default")
    await trio.sleep(1)

    assert bench.uid()


async def test_an_edited_manifest_gets_a_mirror_of_its_own_when_the_older_pod_has_ended(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    first = bench.uid()
    bench.static = [static(uid="h2")]
    await trio.sleep(10)
    assert first == bench.uid()
    bench.cluster.pod_states.stopped.add("h1")
    await trio.sleep(3)
    assert bench.uid() not in ("", first)


@pytest.mark.parametrize("error", [ObjectMissing("not found"), Conflict("another UID")], ids=["gone", "another"])
async def test_mirror_pod_deleted_by_another_client_is_not_logged_as_removed(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture, error: ApiError
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    bench.cluster.api.plan("delete", Fail(error))
    bench.static = []
    bench.cluster.pod_states.stopped.add("h1")

    def said() -> list[str]:
        return [line for line in caplog.messages if "removed" in line]

    await trio.sleep(60)
    assert ([], 1) == (said(), bench.cluster.api.asked["delete"])
    label = {"metadata": {"labels": {"a": "b"}}}  # the informer sees that it is there
    bench.cluster.server.patch(PODS, "web", label, "default", kind=PatchKind.MERGE)
    await trio.sleep(3)
    assert ["The mirror of static pod default/web is removed"] == said()


async def test_mirror_pod_is_deleted_once_while_the_informer_lags(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    bench.cluster.seen.lags = True
    bench.static = []
    bench.cluster.pod_states.stopped.add("h1")
    await trio.sleep(600)
    assert (1, []) == (bench.cluster.api.asked["delete"], caplog.messages)
    bench.cluster.seen.catch_up()
    bench.static = [static()]
    bench.mirrors.enqueue([("default", "web")])
    await trio.sleep(0.01)

    assert bench.uid()


async def test_a_mirror_that_is_there_again_after_the_server_was_set_back_is_removed_again(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(1)
    store = bench.cluster.server.store
    backup = store.version, copy.deepcopy(store._objects)
    bench.cluster.seen.lags = True
    bench.static = []
    bench.cluster.pod_states.stopped.add("h1")
    await trio.sleep(60)
    assert not bench.uid()
    store.version, store._objects = backup
    assert bench.uid()
    bench.mirrors.forget_answers()
    await trio.sleep(1)

    assert not bench.uid()


async def test_a_comparison_goes_through_the_static_pods_once_however_many_there_are(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(*(static(f"p{number}", f"h{number}") for number in range(200)))
    looks = 0

    class Counted(list[k8s.Pod]):
        def __iter__(self) -> Iterator[k8s.Pod]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    bench.static = Counted(bench.static)
    bench.mirrors.enqueue_all()
    bench.mirrors.enqueue([("default", f"p{number}") for number in range(200)])

    assert 2 == looks


async def test_a_mirror_goes_with_its_manifest_once_the_pod_has_ended(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    await nursery.start(bench.mirrors.run)
    await nursery.start(bench.cluster.writer.run)
    await trio.sleep(1)
    (it,) = bench.static
    bench.static = []
    bench.cluster.publish(it, computed(message="ending"))
    await trio.sleep(10)
    assert ("Running", "ending", False) == shows(bench.cluster.get("web"))
    bench.cluster.pod_states.stopped.add("h1")
    await trio.sleep(3)
    assert not bench.uid()


async def test_a_mirrors_status_is_that_of_its_static_pod_from_the_first_moment(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(static())
    await nursery.start(bench.cluster.writer.run)
    bench.cluster.publish(bench.static[0], computed(ready=True))
    await nursery.start(bench.mirrors.run)
    await trio.sleep(0.01)

    assert ("Running", "", True) == shows(bench.cluster.get("web"))


async def test_a_server_that_is_away_is_asked_rarely_and_the_mirror_is_there_when_it_is_back(
    autojump_clock: MockClock, nursery: Any
) -> None:
    bench = Bench(*(static(f"web-{n}", f"h{n + 1}") for n in range(20)))
    bench.cluster.api.link.down()
    await nursery.start(bench.mirrors.run)
    await trio.sleep(3600)
    assert bench.cluster.api.asked["create"] < 3600 / 5 + 20
    bench.cluster.api.link.up()
    await trio.sleep(10)
    assert all(bench.uid(f"web-{n}") for n in range(20))


async def test_a_server_that_says_no_is_reported_once_and_asked_again(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(static())
    bench.cluster.api.plan("create", Fail(ApiBusy("later")), *[Fail(Forbidden("no node yet"))] * 5, LoseAnswer())
    await nursery.start(bench.mirrors.run)
    await trio.sleep(3600)

    assert bench.uid()
    assert 1 == sum("no node yet" in record.getMessage() for record in caplog.records)
    assert 7 == bench.cluster.api.asked["create"]


async def test_an_informer_that_lags_is_no_news_and_a_name_that_is_taken_elsewhere_is(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(static())
    bench.cluster.seen.lags = True
    await nursery.start(bench.mirrors.run)
    await trio.sleep(15)
    bench.cluster.seen.catch_up()
    await trio.sleep(60)
    assert [] == caplog.records
    bench.cluster.seen.lags = True
    bench.cluster.seen.objects.clear()  # as an informer of this node sees a pod of another
    await trio.sleep(600)
    assert 1 == sum("already exists" in record.getMessage() for record in caplog.records)


async def test_name_of_another_nodes_pod_is_left_alone(autojump_clock: MockClock, nursery: Any) -> None:
    bench = Bench(static())
    theirs = bench.cluster.add("web")
    await nursery.start(bench.mirrors.run)
    bench.mirrors.remake(("default", "web"))  # which was said of a mirror that was there before
    await trio.sleep(3600)

    assert {} == bench.cluster.api.asked
    assert theirs.metadata.uid == bench.uid()


async def test_a_bug_that_one_static_pod_provokes_keeps_no_other_from_its_mirror(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = mirror.mirror_due

    def decide(wanted: k8s.Pod | None, *args: Any) -> Any:
        if wanted is not None and wanted.metadata.name == "bad":
            raise ValueError("oops")
        return real(wanted, *args)

    monkeypatch.setattr(mirror, "mirror_due", decide)
    bench = Bench(static("bad", "h1"), static("web", "h2"))
    await nursery.start(bench.mirrors.run)
    await trio.sleep(600)

    assert bench.uid("web")
    assert ["Static pod default/bad: a bug in keeping its mirror; it is retried with backoff"] == [
        record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    ]

    monkeypatch.undo()
    await trio.sleep(60)
    assert bench.uid("bad")


async def test_a_bug_in_the_middle_of_writing_a_mirror_is_met_with_pauses(
    autojump_clock: MockClock, nursery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, asked = Bench(static("bad")), list[str]()

    async def create(*_: Any, **__: Any) -> None:
        asked.append("create")
        raise ValueError("oops")

    monkeypatch.setattr(bench.cluster.api, "create", create)
    await nursery.start(bench.mirrors.run)
    await trio.sleep(600)

    assert 1 < len(asked) < 100
