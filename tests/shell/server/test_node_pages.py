"""What the pages for people say, through the node's API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from shell.nodeapikit import Bench, rules
from trikubelet.httpd.messages import Request, Response
from trikubelet.kit.klog import LogHandler, Verbosity, install, level

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trikubelet.httpd.messages import Upgrade


async def asked(bench: Bench, path: str, method: str = "GET", body: bytes = b"", **more: Any) -> tuple[int, str]:
    """Status and text of an answer that is whole."""
    path, _, query = path.partition("?")
    words = dict(one.split("=") for one in query.split("&") if one)
    request = Request(method, path, words, body=body)
    answer: Response | Upgrade = await bench.node_api(rules("AlwaysAllow", **more)).answer(request)
    assert isinstance(answer, Response)
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body.decode()


async def test_the_status_page_says_what_runs_and_since_when(tmp_path: Path) -> None:
    status, text = await asked(Bench(tmp_path), "/statusz")

    lines = text.splitlines()
    assert (200, "kubelet statusz") == (status, lines[0])
    assert {"Up: 1 hr 02 min 03 sec", "Binary version: v1.2.3"} <= set(lines)
    assert "/checkpoint /configz /containerLogs /debug /exec" in lines[-1]


async def test_the_flags_are_reported_in_order(tmp_path: Path) -> None:
    status, text = await asked(Bench(tmp_path), "/flagz")

    assert (200, ["a=1", "b=2"]) == (status, text.splitlines()[-2:])


async def test_the_profiles_are_listed_and_the_tasks_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert [200, 200] == [(await asked(bench, path))[0] for path in ("/debug/pprof", "/debug/pprof/")]
    status, text = await asked(bench, "/debug/pprof/goroutine")
    assert (200, True) == (status, "test_the_profiles_are_listed" in text)
    assert 404 == (await asked(bench, "/debug/pprof/nothing"))[0]


@pytest.mark.parametrize("seconds", ["0", "61", "x", "-1", "1.5"])
@pytest.mark.parametrize("name", ["profile", "heap"])
async def test_a_profile_takes_as_long_as_it_may(tmp_path: Path, name: str, seconds: str) -> None:
    wanted = f"seconds={seconds}: write a whole number from 1 to 60"
    assert (400, wanted) == await asked(Bench(tmp_path), f"/debug/pprof/{name}?seconds={seconds}")


@pytest.mark.parametrize(
    ("text", "field", "paths"),
    [
        ("profiling endpoint is disabled.", "enable_profiling_handler", ["/debug/pprof", "/debug/pprof/heap"]),
        ("flags endpoint is disabled.", "enable_debug_flags_handler", ["/debug/flags/v"]),
        ("logs endpoint is disabled.", "enable_system_log_handler", ["/logs", "/logs/syslog"]),
    ],
)
async def test_what_is_switched_off_says_so(tmp_path: Path, text: str, field: str, paths: list[str]) -> None:
    for path in paths:
        method = "PUT" if "flags" in path else "GET"
        assert (405, text) == await asked(Bench(tmp_path), path, method, **{field: False})


@pytest.fixture
def log_handler() -> Iterator[LogHandler]:
    """The process's log, as an agent installs it, at verbosity 0."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    handler = LogHandler(Verbosity(0, [("pleg*", 3)]))
    install(handler)
    yield handler
    root.handlers[:] = before[0]
    root.setLevel(before[1])


async def test_the_logs_verbosity_is_what_was_put_until_the_next_is(tmp_path: Path, log_handler: LogHandler) -> None:
    mine, other = logging.getLogger("trikubelet.x"), logging.makeLogRecord({"levelno": logging.DEBUG, "name": "x"})
    assert not mine.isEnabledFor(logging.DEBUG)
    log_handler.setLevel(logging.WARNING)
    told = await asked(Bench(tmp_path), "/debug/flags/v", "PUT", b"4\n")
    assert (200, "successfully set klog.logging.verbosity to 4") == told
    assert mine.isEnabledFor(logging.DEBUG)
    assert (4, logging.NOTSET) == (log_handler.verbosity.verbosity, log_handler.level)
    assert not log_handler.filter(other)  # what libraries say needs more

    assert 200 == (await asked(Bench(tmp_path), "/debug/flags/v", "PUT", b"0"))[0]
    assert not mine.isEnabledFor(logging.DEBUG)
    assert mine.isEnabledFor(level(3))  # a module's own stays


@pytest.mark.parametrize("word", [b"", b"x", b"-1", b"1.5", b"1000", "٣".encode(), b"\xff", b"9" * 60_000])
async def test_what_is_no_verbosity_changes_nothing(tmp_path: Path, log_handler: LogHandler, word: bytes) -> None:
    status, told = await asked(Bench(tmp_path), "/debug/flags/v", "PUT", word)

    assert (400, True) == (status, told.startswith("failed set klog.logging.verbosity "))
    assert len(told) < 150
    assert 0 == log_handler.verbosity.verbosity
