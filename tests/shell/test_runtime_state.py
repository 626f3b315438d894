"""What the agent says of its container runtime, and how often."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import trio

from trikubelet.model.bounds import Bounds
from trikubelet.model.objects import ObjectRef
from trikubelet.model.runtime import RuntimeHandler, RuntimeInfo
from trikubelet.node.runtime_state import RuntimeState
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    import pytest

NODE = ObjectRef("Node", "here", uid="here")


class Says:
    """A runtime that is ``info``."""

    def __init__(self) -> None:
        self.told = RuntimeInfo("said", "1", "v1")

    async def info(self) -> RuntimeInfo:
        """Return what a test set."""
        await trio.lowlevel.checkpoint()
        return self.told


async def test_lists_that_do_not_fit_in_one_message_are_an_event_when_that_changes(
    autojump_clock: object, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    runtime, events = Says(), EventRecorder(VirtualClock(), 10)
    state = RuntimeState(cast(Any, runtime), events, NODE, Bounds())
    await nursery.start(state.run)
    for warning in ("", "by state", "by state", "by pod", ""):
        runtime.told = replace(runtime.told, list_warning=warning)
        await trio.sleep(20)

    assert [(NODE, "RuntimeListTooLarge", text, 1) for text in ("by state", "by pod")] == [
        (event.about, event.reason, event.message, event.count) for event in events.all()
    ]
    assert 1 == caplog.text.count("in one message again")


async def test_whether_a_runtime_gives_groups_strictly_is_unknown_until_it_has_spoken(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    runtime = Says()
    state = RuntimeState(cast(Any, runtime), EventRecorder(VirtualClock(), 10), NODE, Bounds())
    assert None is state.supports_strict_groups()
    await nursery.start(state.run)
    for says in (None, False, True):
        runtime.told = replace(runtime.told, supplemental_groups_policy=says)
        await trio.sleep(20)
        assert bool(says) is state.supports_strict_groups()


async def test_what_a_runtime_handler_can_do_is_what_the_runtime_last_said_of_it(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    runtime = Says()
    state = RuntimeState(cast(Any, runtime), EventRecorder(VirtualClock(), 10), NODE, Bounds())
    assert not state.supports_user_namespaces("")
    await nursery.start(state.run)
    assert not state.supports_user_namespaces("")

    runtime.told = replace(runtime.told, handlers=(RuntimeHandler("a", True, False), RuntimeHandler("b", False, True)))
    await trio.sleep(20)

    assert [True, False, False] == [state.supports_recursive_read_only(name) for name in ("a", "b", "c")]
    assert [False, True, False] == [state.supports_user_namespaces(name) for name in ("a", "b", "c")]
