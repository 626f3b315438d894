"""What is written to a log that nobody reads, and comes when somebody does."""

from __future__ import annotations

import logging
import os
import pty
import threading
from typing import TYPE_CHECKING, TextIO

import pytest

from trikubelet.kit.klog import DRAIN_SECONDS_MAX, LogHandler, Verbosity
from trikubelet.kit.patient_stream import ROOM_BYTES, PatientStream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE = "x" * 999 + "\n"
WAIT = 60  # a failure, not a pause


class Pipe:
    """A pipe, and what was read of it."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.stream: TextIO = os.fdopen(writing, "w")

    def fill(self) -> int:
        """Leave no room in it; with how many bytes."""
        os.set_blocking(self.stream.fileno(), False)
        filled = 0
        try:
            while True:
                filled += os.write(self.stream.fileno(), b"." * 4096)
        except BlockingIOError:
            os.set_blocking(self.stream.fileno(), True)
            return filled

    def read(self, count: int) -> str:
        found = b""
        while len(found) < count:
            found += os.read(self.reading, count - len(found))
        return found.decode()

    def close(self) -> None:
        os.close(self.reading)
        self.stream.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_what_has_room_is_written_at_once(pipe: Pipe) -> None:
    patient = PatientStream(pipe.stream)

    print("one", file=patient)

    assert "one\n" == pipe.read(4)
    assert (pipe.stream.fileno(), False, "utf-8") == (patient.fileno(), patient.isatty(), patient.encoding)


@pytest.mark.parametrize("blocks", [True, False])
def test_what_has_none_waits_and_keeps_its_order(pipe: Pipe, blocks: bool) -> None:
    patient, filled = PatientStream(pipe.stream), pipe.fill()
    os.set_blocking(pipe.stream.fileno(), blocks)
    said = [f"{number} {LINE}" for number in range(300)]

    for one in said:
        patient.write(one)
    assert "." * filled == pipe.read(filled)
    assert "".join(said) == pipe.read(len("".join(said)))

    patient.drain(WAIT)
    patient.write("and on\n")
    assert "and on\n" == pipe.read(7)


def test_no_more_than_so_much_waits_and_how_much_is_lost_is_said(pipe: Pipe) -> None:
    patient, filled = PatientStream(pipe.stream, waiting_bytes_max=2500), pipe.fill()
    handler = LogHandler(Verbosity(0), stream=patient)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    for number in range(5):
        handler.handle(logging.LogRecord("trikubelet", logging.INFO, "", 0, f"{number} {LINE[:-1]}", None, None))
    assert "the log is not being read: lines are lost" == handler.problem
    assert "3 texts lost" in repr(patient)

    pipe.read(filled)
    said = pipe.read(2 * len(f"INFO 0 {LINE}"))
    assert ["INFO 0", "INFO 1"] == [line[:6] for line in said.splitlines()]
    patient.drain(WAIT)
    handler.handle(logging.LogRecord("trikubelet", logging.INFO, "", 0, "again", None, None))
    wanted = "WARNING 3 log lines were lost here: the reader was too slow\nINFO again\n"
    assert (wanted, None) == (pipe.read(len(wanted)), handler.problem)


def test_end_waits_only_for_output_that_is_read(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trikubelet.kit.klog.DRAIN_SECONDS_MAX", 0.01)
    patient, filled = PatientStream(pipe.stream), pipe.fill()
    patient.write("last words\n")

    LogHandler(Verbosity(0), stream=patient).close()  # nobody reads

    assert pipe.read(filled + 11).endswith("last words\n")
    patient.drain(WAIT)
    assert "0 bytes queued" in repr(patient)


def test_a_reader_that_has_gone_is_an_error_now_or_with_the_next_line(pipe: Pipe) -> None:
    patient, _ = PatientStream(pipe.stream), pipe.fill()
    handler = LogHandler(Verbosity(0), stream=patient)
    patient.write(LINE)
    os.close(pipe.reading)
    patient.drain(WAIT)
    for _ in range(2):
        handler.handle(logging.LogRecord("trikubelet", logging.INFO, "", 0, "x", None, None))
        assert handler.problem is not None
        assert "Broken pipe" in handler.problem
    pipe.reading = os.open(os.devnull, os.O_RDONLY)  # to be closed


def test_a_terminal_is_never_waited_for() -> None:
    """In its usual mode it says that it is ready when it takes less than a line."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        patient = PatientStream(stream, waiting_bytes_max=50_000)
        for _ in range(200):
            patient.write(LINE)

        assert patient.isatty()
        assert patient.problem is not None, "it is not read, and no task waits"
        said = b""
        while said.count(b"\r\n") < 50_000 // len(LINE):
            said += os.read(ours, 65536)
        patient.drain(WAIT)
        assert LINE[:-1] == said.decode().split("\r\n")[0]
    os.close(ours)


def test_ending_the_log_drains_it(pipe: Pipe) -> None:
    class Drained(PatientStream):
        seconds: float | None = None

        def drain(self, seconds_max: float) -> None:
            self.seconds = seconds_max

    patient = Drained(pipe.stream)
    LogHandler(Verbosity(0), stream=patient).close()
    assert DRAIN_SECONDS_MAX == patient.seconds


def test_a_file_is_written_whatever_its_length(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        PatientStream(stream).write(LINE * 50)
        assert LINE * 50 == (tmp_path / "log").read_text()


def test_of_a_long_line_no_more_is_written_at_once_than_a_pipe_takes_that_has_room(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, lengths = os.write, []

    def note(descriptor: int, data: bytes) -> int:
        if threading.current_thread() is threading.main_thread():
            lengths.append(len(data))
            data = data[:ROOM_BYTES]  # a pipe with less room would block
        return write(descriptor, data)

    patient, filled = PatientStream(pipe.stream), pipe.fill()
    pipe.read(ROOM_BYTES)
    monkeypatch.setattr("trikubelet.kit.patient_stream.os.write", note)
    patient.write(20 * LINE)

    assert ([ROOM_BYTES], "." * (filled - ROOM_BYTES)) == (lengths, pipe.read(filled - ROOM_BYTES))
    assert 20 * LINE == pipe.read(20 * len(LINE))
    patient.drain(WAIT)


def test_what_has_no_thread_to_wait_in_waits_for_the_next_line(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    patient, filled = PatientStream(pipe.stream), pipe.fill()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        patient.write("one\n")
        patient.write("two\n")
    assert "8 bytes queued" in repr(patient)
    assert not patient._is_writing, "nobody would wait for what nobody writes"
    patient.write("three\n")

    assert patient._is_writing
    assert "." * filled == pipe.read(filled)
    assert "one\ntwo\nthree\n" == pipe.read(14)
    patient.drain(WAIT)
