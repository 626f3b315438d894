"""Log lines in klog's text and in JSON, and which records become one."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from trikubelet.kit.klog import LogHandler, Verbosity, install, level, verbosity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock


def record(
    message: str,
    levelno: int = logging.INFO,
    *,
    name: str = "trikubelet.pleg.pleg",
    path: str = "/x/trikubelet/pleg/pleg.py",
) -> logging.LogRecord:
    made = logging.LogRecord(name, levelno, path, 152, message, (), None)
    made.created = 1763708462.123456
    return made


def line_of(made: logging.LogRecord, form: str = "text") -> str:
    stream = io.StringIO()
    LogHandler(Verbosity(10), "json" if form == "json" else "text", stream).handle(made)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("levelno", "letter"),
    [(logging.DEBUG, "I"), (logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "F")],
)
def test_a_line_has_klogs_header(levelno: int, letter: str) -> None:
    line = line_of(record("Relist failed", levelno))

    assert re.fullmatch(
        rf"{letter}\d{{4}} \d\d:\d\d:\d\d\.123456 +{os.getpid()} pleg\.py:152\] Relist failed\n", line
    ), line


def test_the_process_id_is_padded_to_seven_columns() -> None:
    assert f" {os.getpid():7d} pleg.py" in line_of(record("x"))


def test_a_message_cannot_forge_a_line() -> None:
    line = line_of(record("first\nI1121 fake] \x1b[31mred\r"))

    assert line.endswith("] first\\nI1121 fake] \\x1b[31mred\\r\n")
    assert 1 == line.count("\n")


def test_an_endless_message_is_cut() -> None:
    assert len(line_of(record("x" * 100_000))) < 20_000


def test_a_traceback_follows_on_its_own_lines() -> None:
    made = record("broken", logging.ERROR)
    try:
        raise ValueError("why\x07")
    except ValueError:
        made.exc_info = sys.exc_info()

    lines = line_of(made).splitlines()
    assert lines[0].endswith("] broken")
    assert "ValueError: why\\x07" == lines[-1]


def test_json_is_one_object_per_line_as_component_base_has_it() -> None:
    line = line_of(record("two\nlines", logging.DEBUG), "json")

    assert {"ts": 1763708462123.456, "caller": "pleg/pleg.py:152", "msg": "two\nlines", "v": 4} == json.loads(line)
    assert 1 == line.count("\n")


def test_json_tells_errors_and_warnings() -> None:
    made = record("broken", logging.ERROR)
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    entry = json.loads(line_of(made, "json"))

    assert ("ValueError: why", False) == (entry["err"], "v" in entry)
    assert "Traceback" in entry["stack"]
    assert "warning" == json.loads(line_of(record("careful", logging.WARNING), "json"))["severity"]


@pytest.mark.parametrize("verbosity", range(11))
def test_levels_and_verbosities_are_each_others_inverse(verbosity: int) -> None:
    assert verbosity == verbosity_of(level(verbosity))


def test_a_verbosity_lets_through_what_is_at_most_as_talkative() -> None:
    two = Verbosity(2)

    assert two(record("x", logging.INFO))
    assert two(record("x", level(2)))
    assert not two(record("x", level(3)))
    assert two(record("x", logging.WARNING))
    assert Verbosity(4)(record("x", logging.DEBUG))


def test_the_first_module_pattern_that_fits_counts() -> None:
    some = Verbosity(0, [("pleg*", 5), ("pods/*", 4), ("*", 1)])

    assert some(record("x", level(5)))
    assert some(record("x", level(4), path="/x/trikubelet/pods/worker.py"))
    assert not some(record("x", level(2), path="/x/trikubelet/status/memory.py"))
    assert level(5) == some.lowest_level


def test_libraries_are_heard_when_they_warn_and_from_verbosity_eight_on() -> None:
    assert not Verbosity(7)(record("x", logging.INFO, name="hpack.hpack"))
    assert Verbosity(8)(record("x", logging.INFO, name="hpack.hpack"))
    assert Verbosity(0)(record("x", logging.WARNING, name="hpack.hpack"))


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = before[0], before[1]
    root.setLevel(before[1])


def test_installed_it_is_the_only_handler_and_quiet_records_are_never_made(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    install(LogHandler(Verbosity(2), stream=stream))
    log = logging.getLogger("trikubelet.somewhere")
    log.info("heard")
    log.debug("not heard")

    assert "] heard\n" in stream.getvalue()
    assert "not heard" not in stream.getvalue()
    assert not log.isEnabledFor(logging.DEBUG)


def test_a_stream_that_takes_no_more_is_problem_until_it_does_again() -> None:
    class Full(io.StringIO):
        full = True

        def write(self, text: str, /) -> int:
            if self.full:
                raise OSError("no space left")
            return super().write(text)

    stream = Full()
    handler = LogHandler(Verbosity(0), stream=stream)
    handler.handle(record("x"))
    assert "cannot write a log line: no space left" == handler.problem

    stream.full = False
    handler.handle(record("x"))
    assert handler.problem is None


@pytest.fixture
def trios_own() -> Iterator[logging.Logger]:
    """Trio's logger of connections it cannot accept, with the handler of a process installed."""
    root, own = logging.getLogger(), logging.getLogger("trio.serve_listeners")
    before = root.handlers[:], root.level, own.filters[:]
    yield own
    root.handlers[:], own.filters[:] = before[0], before[2]
    root.setLevel(before[1])


async def test_without_a_free_descriptor_it_is_said_once_a_minute_that_no_connection_is_accepted(
    trios_own: logging.Logger, mock_clock: MockClock
) -> None:
    stream = io.StringIO()
    install(LogHandler(Verbosity(0), "text", stream))

    for error in (errno.EMFILE, errno.EMFILE, errno.ENFILE, errno.EMFILE):
        try:
            raise OSError(error, "no more")
        except OSError:
            trios_own.error("accept returned %s; retrying", errno.errorcode[error], exc_info=True)
    mock_clock.jump(61)
    trios_own.error("accept returned %s; retrying", "EMFILE")

    said = [line.partition("] ")[2] for line in stream.getvalue().splitlines()]
    assert [f"accept returned {name}; retrying" for name in ("EMFILE", "ENFILE", "EMFILE")] == said
