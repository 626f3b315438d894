"""Requests for the node's own logs: reads them from a query and builds the commands that answer them.

    ?query=kubelet&query=containerd&sinceTime=…&untilTime=…&tailLines=N&pattern=WORD&boot=-1

A query with a slash is one file below /var/log, any other a service. Names, options and their bounds are upstream's
NodeLogQuery (upstream-behaviour.md §1.21; kubernetes.io, "System logs", "Log query"). A value cannot become another
option of journalctl: values are attached to their options, and names of services are limited to systemd's characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.core.query import whole
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVICES_MAX: Final = 4
TAIL_LINES_MAX: Final = 100_000
PATTERN_CHARS_MAX: Final = 1024
_SERVICE: Final = re.compile(r"[A-Za-z0-9_.:@\\][A-Za-z0-9_.:@\\-]{0,255}", re.ASCII)
_BOOT: Final = re.compile(r"0|-\d{1,6}", re.ASCII)
OPTIONS: Final = ("query", "sinceTime", "untilTime", "tailLines", "pattern", "boot")


@dataclass(frozen=True, slots=True)
class NodeLogQuery:
    """The requested logs: services, or one file below /var/log. Times are seconds since the epoch, None for no
    limit."""

    services: tuple[str, ...] = ()
    file: str = ""
    since: float | None = None
    until: float | None = None
    tail_lines: int | None = None
    pattern: str = ""
    boot: int | None = None


def node_log_query(query: Mapping[str, str], asked: Sequence[str]) -> NodeLogQuery:
    """Return the query; ``asked``: all values of ``query``. Raises ValueError with what is accepted."""
    services = tuple(name for name in asked if "/" not in name and "\\" not in name)
    files = [name for name in asked if name not in services]
    if files and (services or len(files) > 1):
        raise ValueError("query: give one file, or services")
    if not asked or len(services) > SERVICES_MAX:
        raise ValueError(f"query: give one to {SERVICES_MAX} services, or one file below /var/log")
    for name in services:
        if not _SERVICE.fullmatch(name):
            raise ValueError(f"query={name!r} is no name of a service")
    since, until = (_moment(query, name) for name in ("sinceTime", "untilTime"))
    if since is not None and until is not None and since > until:
        raise ValueError("untilTime: give a time after sinceTime")
    boot, pattern = query.get("boot", ""), query.get("pattern", "")
    if boot and not _BOOT.fullmatch(boot):
        raise ValueError(f"boot={boot}: write 0, or -1 for the boot before this one, and so on")
    if len(pattern) > PATTERN_CHARS_MAX or "\n" in pattern or "\0" in pattern:
        raise ValueError(f"pattern: write one line of at most {PATTERN_CHARS_MAX} characters")
    tail_lines = whole(query, "tailLines", 1, TAIL_LINES_MAX)
    found = NodeLogQuery(
        services, files[0] if files else "", since, until, tail_lines, pattern, int(boot) if boot else None
    )
    if found.file and (found.since, found.until, found.boot) != (None, None, None):
        raise ValueError("sinceTime, untilTime and boot are for services; of a file there are tailLines and pattern")
    return found


def journal_command(query: NodeLogQuery) -> list[str]:
    """Return the journalctl command for the query."""
    command = ["journalctl", "--utc", "--no-pager", "--output=short-precise"]
    command += [f"--unit={name}" for name in query.services]
    if query.since is not None:
        command.append(f"--since=@{query.since:.6f}")
    if query.until is not None:
        command.append(f"--until=@{query.until:.6f}")
    if query.tail_lines is not None:
        command.append(f"--lines={query.tail_lines}")
    if query.pattern:
        command.append(f"--grep={query.pattern}")
    if query.boot is not None:
        command.append(f"--boot={query.boot}")
    return command


def filter_command(query: NodeLogQuery) -> list[str]:
    """Return the filter for a file; empty for the whole file. It is grep(1) because its time grows only with the file,
    whatever the pattern."""
    grep = ["grep", "--text", "--extended-regexp", f"--regexp={query.pattern}"]
    tail = ["tail", f"--lines={query.tail_lines}"]
    if query.pattern and query.tail_lines is not None:
        return ["sh", "-c", 'grep --text --extended-regexp "$1" | tail "$2"', "sh", grep[-1], tail[-1]]
    if query.pattern:
        return grep
    return tail if query.tail_lines is not None else []


def service_files(service: str) -> tuple[str, ...]:
    """Return the files below /var/log in which a service that does not use the journal may log."""
    return (service, f"{service}.log", f"{service}/{service}.log")


def _moment(query: Mapping[str, str], name: str) -> float | None:
    word = query.get(name, "")
    if not word:
        return None
    try:
        return parse_rfc3339(word) / SECOND_NS
    except ValueError as error:
        raise ValueError(f"{name}={word}: write a time such as 2026-11-21T07:01:02Z") from error
