"""Whose word counts about the cgroup driver: the runtime's where it gives one in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from trikubelet.app import cgroup_driver, compose
from trikubelet.app.cgroup_driver import ASK_SECONDS_MAX, Driver, ask_driver, confirm_driver
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.cri.runtime import CriRuntime
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


class Says:
    """A runtime with these answers, one after another, the last for good; None: it is not there."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)

    async def cgroup_driver(self) -> str:
        """The next answer."""
        await trio.lowlevel.checkpoint()
        told = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if told is None:
            raise RuntimeUnavailable("not there")
        return told


async def asked(*answers: str | None, configured: str = "cgroupfs") -> Driver:
    return await ask_driver(cast(Any, Says(*answers)), configured)


@pytest.mark.parametrize(
    ("expected", "answers", "configured"),
    [
        (Driver("systemd"), ("systemd",), "cgroupfs"),
        (Driver("cgroupfs"), ("cgroupfs",), "systemd"),
        (Driver("systemd"), ("",), "systemd"),
        (Driver("systemd"), (None, None, "systemd"), "cgroupfs"),
        (Driver("systemd", assumed=True), (None,), "systemd"),
    ],
)
async def test_the_runtimes_word_counts_before_the_configurations(
    autojump_clock: object, expected: Driver, answers: tuple[str | None, ...], configured: str
) -> None:
    assert expected == await asked(*answers, configured=configured)


async def test_one_that_is_away_is_not_waited_for_for_long_and_told_of(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    begun = trio.current_time()
    await asked(None)

    assert ASK_SECONDS_MAX == trio.current_time() - begun
    assert "cgroupfs, as configured: the container runtime does not answer" in caplog.text


async def test_that_the_configuration_says_something_else_is_reported(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await asked("systemd")

    assert "Cgroup driver: systemd, as the container runtime reports; cgroupDriver is cgroupfs" in caplog.text


AWAY = (None,) * 20
"""For longer than is waited at the start."""


@pytest.mark.parametrize("told", ["cgroupfs", ""])
async def test_a_late_runtime_with_the_driver_that_was_assumed_changes_nothing(
    autojump_clock: object, told: str
) -> None:
    runtime = cast(Any, Says(*AWAY, told))
    driver = await ask_driver(runtime, "cgroupfs")
    assert Driver("cgroupfs", assumed=True) == driver
    await confirm_driver(runtime, driver.name)


@pytest.mark.parametrize(("assumed", "told"), [("cgroupfs", "systemd"), ("systemd", "cgroupfs")])
async def test_a_late_runtime_with_another_driver_ends_the_agent_which_says_so(
    autojump_clock: object, assumed: str, told: str
) -> None:
    runtime = cast(Any, Says(*AWAY, told))
    driver = await ask_driver(runtime, assumed)
    with pytest.raises(StartFailed, match=f"has {told}, and this agent began with {assumed}: start it again"):
        await confirm_driver(runtime, driver.name)


async def test_agent_ends_if_a_late_runtime_has_another_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = Says(None, "systemd")

    class Late(CriRuntime):
        """One that nobody serves, but for its driver."""

        async def cgroup_driver(self) -> str:
            return await says.cgroup_driver()

    monkeypatch.setattr(cgroup_driver, "ASK_SECONDS_MAX", 0.1)  # less than until it is asked again
    flags = ["--standalone", f"--root-dir={tmp_path / 'root'}", "--healthz-port=0", "--hostname-override=node"]
    flags += ["--cgroups-per-qos=false", "--enforce-node-allocatable=none"]
    flags += [f"--container-runtime-endpoint=unix://{tmp_path / 'none'}"]
    settings = load_settings(parse_agent_flags(flags), Surroundings(0, {}, "node"))
    word = pytest.RaisesExc(StartFailed, match="has systemd, and this agent began with cgroupfs")
    with trio.fail_after(60), pytest.RaisesGroup(word, flatten_subgroups=True):
        await compose.run(settings, lambda: None, None, make_runtime=Late)
