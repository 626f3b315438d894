"""Log lines in the format of Kubernetes' components, from Python's ``logging``.

    I1121 07:01:02.123456    1234 pleg.py:152] Relist failed: …              text, klog's header
    {"ts":1763708462123.456,"caller":"pleg/pleg.py:152","msg":"…","v":0}     json, like component-base

``-v`` N shows records of verbosity N and below. Verbosities map to levels of Python: INFO is 0 and DEBUG is 4, so
``log.info`` is for messages that an operator should see and ``log.debug`` for details; ``level(n)`` returns the others.
``--vmodule`` sets N for source files by pattern. Messages of libraries below a warning appear from verbosity 8 on.

A record is one line: control characters in a message are escaped, so that a container's output cannot forge a line.
Only the traceback of an exception follows on its own lines.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TextIO

from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.kit.patient_stream import PatientStream

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEVELS: Final = (logging.INFO, 18, 16, 13, logging.DEBUG, 9, 8, 7, 6, 5, 4)
"""The Python level of each verbosity."""
_LIBRARIES_FROM: Final = 8
_OWN: Final = "trikubelet"
DRAIN_SECONDS_MAX: Final = 1.0
_CHARS_MAX: Final = 16 * 1024
"""The length of one message; log collectors cut longer ones."""
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: "\t", 10: "\\n", 13: "\\r"}
_ESCAPES_OF_TRACEBACKS: Final = {code: text for code, text in _ESCAPES.items() if code != 10}


def level(verbosity: int) -> int:
    """Return the Python level of a verbosity; those above 10 count as 10."""
    return _LEVELS[max(0, min(verbosity, len(_LEVELS) - 1))]


def verbosity_of(levelno: int) -> int:
    """Return the verbosity of a Python level; 0 for INFO and everything more severe."""
    return next((n for n, threshold in enumerate(_LEVELS) if threshold <= levelno), len(_LEVELS) - 1)


class Verbosity:
    """Decides which records are logged. ``modules``: patterns of source files and their verbosity; the first match
    counts. A pattern with a slash matches the path (``pods/*``), any other the file's name without its extension
    (``pleg*``)."""

    def __init__(self, verbosity: int = 0, modules: Sequence[tuple[str, int]] = ()) -> None:
        self.verbosity = verbosity
        self._modules = tuple(modules)

    @property
    def lowest_level(self) -> int:
        """Return the lowest Python level that can pass, for the root logger."""
        return level(max([self.verbosity, *(verbosity for _, verbosity in self._modules)]))

    def __call__(self, record: logging.LogRecord) -> bool:
        """True if the record passes."""
        if record.levelno >= logging.WARNING:
            return True
        allowed = self._allowed(record)
        if record.name.split(".", 1)[0] != _OWN and allowed < _LIBRARIES_FROM:
            return False
        return verbosity_of(record.levelno) <= allowed

    def _allowed(self, record: logging.LogRecord) -> int:
        path = record.pathname.removesuffix(".py")
        for pattern, verbosity in self._modules:
            if "/" in pattern:
                if fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}"):
                    return verbosity
            elif fnmatchcase(record.module, pattern):
                return verbosity
        return self.verbosity


class TextFormat(logging.Formatter):
    """klog's text format. Caches the formatted date of the last second, in local time like klog's, because many lines
    share it."""

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._date = ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback if there is one."""
        letter = _letter(record.levelno)
        second, micros = divmod(int(record.created * 1_000_000), 1_000_000)
        if second != self._second:
            self._second, self._date = second, datetime.fromtimestamp(second).strftime("%m%d %H:%M:%S")
        line = (
            f"{letter}{self._date}.{micros:06d} {os.getpid():7d} {record.filename}:{record.lineno}] {_message(record)}"
        )
        traceback = self._traceback(record)
        return f"{line}\n{traceback.translate(_ESCAPES_OF_TRACEBACKS)}" if traceback else line

    def _traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


class JsonFormat(logging.Formatter):
    """component-base's JSON format: ``ts`` in milliseconds since the epoch; ``v`` for records below an error; ``err``
    and ``stack`` for an exception. Warnings, which upstream does not mark, have ``"severity":"warning"``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object."""
        folder = os.path.basename(os.path.dirname(record.pathname))
        entry: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{folder}/{record.filename}:{record.lineno}",
            "msg": _message(record, escape=False),
        }
        if record.levelno < logging.ERROR:
            entry["v"] = verbosity_of(record.levelno)
        if record.levelno == logging.WARNING:
            entry["severity"] = "warning"
        if record.exc_info and (error := record.exc_info[1]) is not None:
            entry["err"] = f"{type(error).__name__}: {error}"
            entry["stack"] = self.formatException(record.exc_info)
        elif record.levelno >= logging.ERROR:
            entry["err"] = None
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


class LogHandler(logging.StreamHandler["TextIO | PatientStream"]):
    """Owns the state of the log's stream; the log's health check reads ``problem``."""

    def __init__(
        self,
        verbosity: Verbosity,
        form: Literal["text", "json"] = "text",
        stream: TextIO | PatientStream | None = None,
    ) -> None:
        super().__init__(sys.stderr if stream is None else stream)
        self._problem: str | None = None
        self.verbosity = verbosity
        self.setFormatter(TextFormat() if form == "text" else JsonFormat())
        self.addFilter(verbosity)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line. Raises nothing."""
        self._problem = None
        if isinstance(self.stream, PatientStream) and (lost := self.stream.take_lost()):
            said = f"{lost} log lines were lost here: the reader was too slow"
            super().emit(logging.LogRecord(_OWN, logging.WARNING, __file__, 0, said, None, None))
        super().emit(record)

    @property
    def problem(self) -> str | None:
        """The reason why the last line could not be written, or None."""
        return self._problem or (self.stream.problem if isinstance(self.stream, PatientStream) else None)

    def close(self) -> None:
        """Wait a moment for pending lines: the last ones report why a process ends."""
        if isinstance(self.stream, PatientStream):
            self.stream.drain(DRAIN_SECONDS_MAX)
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Remember the error for the health check; it cannot be logged."""
        error = sys.exc_info()[1]
        self._problem = f"cannot write a log line: {error}"


class AcceptFailures(logging.Filter):
    """Owns which errors of accepting a connection were logged. Without a free descriptor Trio retries ten times a
    second for each listener and logs a traceback each time, which would fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._limits: defaultdict[str, LogRateLimit] = defaultdict(LogRateLimit)

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is to be logged, as one line. Called by Trio's thread."""
        record.exc_info = None
        return self._limits[record.getMessage()].may_log()


def install(handler: LogHandler) -> None:
    """Make this the process's only log handler."""
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.getLogger("trio.serve_listeners").filters[:] = [AcceptFailures()]
    root.setLevel(handler.verbosity.lowest_level)


def make_patient() -> None:
    """Make writes to standard error non-blocking, for the log and for the process's last messages."""
    with suppress(OSError, ValueError):  # stderr is closed, or replaced by a test
        sys.stderr = PatientStream(sys.stderr)  # implements the part of TextIO that is used


def turn_to(verbosity: int) -> None:
    """Set the verbosity of the process's log from now on; ``--vmodule`` takes precedence."""
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, LogHandler):
            handler.verbosity.verbosity = verbosity
            handler.setLevel(logging.NOTSET)  # some commands set a level above verbosity 0
            root.setLevel(handler.verbosity.lowest_level)


def _letter(levelno: int) -> str:
    if levelno >= logging.CRITICAL:
        return "F"
    if levelno >= logging.ERROR:
        return "E"
    return "W" if levelno >= logging.WARNING else "I"


def _message(record: logging.LogRecord, *, escape: bool = True) -> str:
    message = record.getMessage()
    if len(message) > _CHARS_MAX:
        message = f"{message[:_CHARS_MAX]}… ({len(message) - _CHARS_MAX} more characters)"
    return message.translate(_ESCAPES) if escape else message
