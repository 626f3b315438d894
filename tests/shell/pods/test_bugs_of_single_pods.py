"""What one pod provokes in the tasks that serve all: it is told, and the others are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, until
from trikubelet.pods import evaluation, unsupported_reports
from trikubelet.sources import mux
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from types import ModuleType

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.k8s import Pod

BAD, WEB = pod("bad", container("bad")), pod("web", container("web"))


def breaks_for_bad(monkeypatch: pytest.MonkeyPatch, module: ModuleType, decision: str) -> None:
    """The pure function fails for the pod that is called bad, as one with a bug would."""
    real = getattr(module, decision)

    def decide(one: Pod, *args: Any, **how: Any) -> Any:
        if one.metadata.name == "bad":
            raise ValueError("oops")
        return real(one, *args, **how)

    monkeypatch.setattr(module, decision, decide)


def told_of_bad(node: Node) -> set[str]:
    """The messages of the events about the bad pod that say that something did not go on."""
    return {event.message for event in node.events.all() if event.about.name == "bad" and event.reason == "FailedSync"}


async def test_pod_is_run_despite_a_bug_in_finding_unsupported_fields(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_for_bad(monkeypatch, unsupported_reports, "unsupported_fields")
    bench = Bench()
    async with bench.agent(BAD, WEB) as node:
        await until(lambda: bench.running() == ["bad", "web"])

        assert {"a bug in the node's agent: ValueError: oops"} == told_of_bad(node)


async def test_a_pod_that_cannot_be_evaluated_waits_and_is_evaluated_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    breaks_for_bad(monkeypatch, evaluation, "admit")
    bench = Bench()
    async with bench.agent(BAD, WEB) as node:
        await until(lambda: bench.running() == ["web"])
        await trio.sleep(60)
        assert ["web"] == bench.running()
        assert {"a bug in the node's agent: ValueError: oops"} == told_of_bad(node)
        assert 1 == sum("a bug in its admission" in line for line in caplog.messages)

        monkeypatch.undo()
        await until(lambda: bench.running() == ["bad", "web"])


async def test_a_pod_that_cannot_be_taken_up_is_taken_up_with_its_next_change(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.agent(BAD, WEB) as node:
        await until(lambda: bench.running() == ["bad", "web"])
        real = node.workers.sync

        def sync(one: Pod, **how: Any) -> None:
            if one.metadata.name == "bad":
                raise ValueError("oops")
            real(one, **how)

        monkeypatch.setattr(node.workers, "sync", sync)
        node.slots["file"].put(Snapshot((edited(BAD, "1"), edited(WEB, "1"))))
        await until(lambda: node.workers.worker("uid-web").pod.metadata.labels == {"edit": "1"})
        assert {"a bug in the node's agent: ValueError: oops"} == told_of_bad(node)
        assert {} == node.workers.worker("uid-bad").pod.metadata.labels

        monkeypatch.undo()
        node.slots["file"].put(Snapshot((edited(BAD, "2"), edited(WEB, "1"))))
        await until(lambda: node.workers.worker("uid-bad").pod.metadata.labels == {"edit": "2"})


async def test_a_pod_that_cannot_be_compared_holds_up_no_news_of_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_for_bad(monkeypatch, mux, "difference")
    bench = Bench()
    async with bench.agent(BAD, WEB) as node:
        await until(lambda: bench.running() == ["bad", "web"])
        node.slots["file"].put(Snapshot((edited(BAD, "1"), edited(WEB, "1"))))
        await until(lambda: node.workers.worker("uid-web").pod.metadata.labels == {"edit": "1"})

        assert {"a bug in the node's agent: ValueError: oops"} == told_of_bad(node)
        assert {} == node.workers.worker("uid-bad").pod.metadata.labels


def edited(one: Pod, label: str) -> Pod:
    """Return the same pod with another label."""
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, labels={"edit": label}))
