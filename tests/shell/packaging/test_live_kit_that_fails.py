"""What a live test could not get to work is ended before the test is told: nobody leaves what was not entered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import agent, events, places, private_registry, throwaway

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

# Each lives on and says nothing of use.
MUTE = "#!/bin/sh\necho not yet\nexec sleep 600\n"


def program(place: Path, name: str, text: str = MUTE) -> Path:
    """An executable script of that name."""
    path = place / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def mute_agent(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    monkeypatch.setattr(agent, "START_SECONDS_MAX", 0.0)
    monkeypatch.setattr(agent.Agent, "program", (str(program(place, "mute")),))
    runtime = SimpleNamespace(directory=place, cgroup_parent="/p", endpoint="unix:///none", inside=list)
    return agent.Agent(runtime), "the agent's log ends so"


def silent_events(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    monkeypatch.setattr(events, "HEARD_SECONDS_MAX", 0.0)
    return events.EventLog(["sleep", "600"], lambda: None), "no event was heard from sleep 600: not after 0 s"


def ended_events(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    return events.EventLog([sys.executable, "-c", ""], lambda: None), "no event was heard .*: the stream ended"


def mute_registry(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    monkeypatch.setattr(private_registry, "START_SECONDS_MAX", 0.0)
    monkeypatch.setattr(places, "program", lambda name: "echo" if name == "htpasswd" else program(place, name))
    return private_registry.PrivateRegistry(place / "no-archive"), "no answer; its log"


def spoiled_copy(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    program(place, "unshare")
    monkeypatch.setattr(places, "require_machine", lambda: None)
    monkeypatch.setenv("PATH", str(place), prepend=":")
    return throwaway.Throwaway(), "no copy of this machine could be made"


@pytest.mark.parametrize("make", [mute_agent, silent_events, ended_events, mute_registry, spoiled_copy])
def test_what_does_not_get_to_work_is_ended(
    make: Callable[[Path, pytest.MonkeyPatch], tuple[Any, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[Any]] = []
    really = subprocess.Popen

    def popen(*words: Any, **more: Any) -> subprocess.Popen[Any]:
        begun.append(really(*words, **more))
        return begun[-1]

    made, told = make(tmp_path, monkeypatch)
    for module in (agent, private_registry, throwaway):
        monkeypatch.setattr(module.subprocess, "Popen", popen)
    try:
        with pytest.raises((RuntimeError, TimeoutError, AssertionError), match=told), made:
            pytest.fail("it was entered")

        assert begun
        assert [] == [process.args for process in begun if process.poll() is None]
    finally:
        for process in begun:
            process.kill()
            process.wait()
