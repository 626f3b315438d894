"""A person who starts an agent at a terminal is told once that it is ready, and what to type next."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.app.test_translated_settings import settings_of
from shell.pods.shellkit import Bench
from trikubelet.app import greeting
from trikubelet.app.greeting import client_command, greet, ready_line
from trikubelet.app.paths import places_for
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.app.settings import Settings
    from trikubelet.model.k8s import Pod


class Terminal(io.StringIO):
    """A standard error that is one."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


async def greeted(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    *pods: Pod,
    is_terminal: bool = True,
    latency_seconds: float = 0.002,
) -> tuple[str, float]:
    """Return the printed text, and after how many seconds."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(is_terminal=is_terminal))
    async with Bench(latency_seconds=latency_seconds).agent(*pods) as node:
        began = trio.current_time()
        await greet(node, settings)
        return terminal.getvalue(), trio.current_time() - began


async def test_the_line_comes_when_the_pods_have_begun(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_of(tmp_path, staticPodPath=str(tmp_path / "manifests"))

    line, seconds = await greeted(settings, monkeypatch, pod("web"), pod("job", container("a", ["exit", "0", "1"])))

    assert line.startswith("ready: 2 pods from manifests; in another terminal: ")
    assert line.endswith(f" get pods --root-dir={settings.root_dir}\n")
    assert 1 == line.count("\n")
    assert seconds < 5


async def test_a_pod_that_does_not_begin_holds_the_line_up_for_ten_seconds(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path, staticPodPath="/m")

    line, seconds = await greeted(settings, monkeypatch, pod("web"), latency_seconds=60)

    assert line.startswith("ready: 1 pod from /m, 1 not begun yet; in another terminal: ")
    assert 10 == pytest.approx(seconds, abs=0.3)


@pytest.mark.parametrize("reader", ["no terminal", "json", "a cluster"])
async def test_there_is_no_line_without_a_person_to_read_it(
    reader: str, autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"logging": {"format": "json"}} if reader == "json" else {}
    settings = settings_of(tmp_path, **given)
    if reader == "a cluster":
        settings = replace(settings, standalone=False)

    line, _ = await greeted(settings, monkeypatch, pod("web"), is_terminal=reader != "no terminal")

    assert "" == line


async def test_a_line_that_cannot_be_printed_costs_nothing(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise OSError("the terminal has gone")

    monkeypatch.setattr(greeting, "ready_line", broken)

    line, _ = await greeted(settings_of(tmp_path), monkeypatch)

    assert "" == line


@pytest.mark.parametrize(
    ("expected", "pods", "waiting"),
    [
        ("ready: 4 pods from m; in another terminal: t get pods", 4, 0),
        ("ready: 1 pod from m; in another terminal: t get pods", 1, 0),
        ("ready: 4 pods from m, 2 not begun yet; in another terminal: t get pods", 4, 2),
        ("ready: no pods yet, put manifests into m; in another terminal: t get pods", 0, 0),
    ],
)
def test_the_line_counts_pods_and_names_where_they_are_from(expected: str, pods: int, waiting: int) -> None:
    assert expected == ready_line(pods, waiting, "m", "t get pods")


@pytest.mark.parametrize(
    ("expected", "argv0"),
    [
        (".venv/bin/trikubelet", ".venv/bin/trikubelet"),
        ("sh", "/usr/bin/sh"),
        (f"{sys.executable} -m trikubelet", "/a/trikubelet/__main__.py"),
    ],
)
def test_the_command_is_the_program_as_it_was_called(
    expected: str, argv0: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greeting.shutil, "which", lambda name: "/usr/bin/sh" if name == "sh" else None)
    settings = settings_of(tmp_path)
    usual = places_for(os.geteuid(), os.environ, inside=settings.runtime.inside).root_dir

    assert f"{expected} get pods --root-dir={settings.root_dir}" == client_command(argv0, settings, os.environ)
    settings = replace(settings, root_dir=usual)
    assert f"{expected} get pods" == client_command(argv0, settings, os.environ)
