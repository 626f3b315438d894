"""``trikubelet doctor``: find this node's problems and their remedies.

The running agent examines the node, because it knows its flags. With an agent's flags after ``--`` this process
examines it, for an agent that would be started so. If no agent answers, that is the first problem, and the rest is
examined for an agent with the flags of the last one.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli import asking, blocking, interruptible
from trikubelet.cli.client import NoAgent
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.options import refuse_socket_beside_flags, split_flags
from trikubelet.cli.terminal import Colour, in_a_cell, painted
from trikubelet.cli.words.doctor import parser
from trikubelet.model.faults import one_line
from trikubelet.model.finding import Finding, Severity, error, good, warning, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.app.settings import Settings
    from trikubelet.cli.client import AgentClient

EXIT_CODES: Final = {Severity.GOOD: 0, Severity.WARNING: 3, Severity.ERROR: 1}
_COLOURS: Final = {Severity.GOOD: Colour.GREEN, Severity.WARNING: Colour.YELLOW, Severity.ERROR: Colour.RED}


class Examined(msgspec.Struct, frozen=True):
    """The answer of ``/doctor``."""

    findings: tuple[Finding, ...]


def run(argv: Sequence[str]) -> int:
    """Run ``doctor`` and return the exit code, by the worst finding. Raises CommandFailed."""
    arguments, flags = split_flags(argv)
    args = parser().parse_args(arguments)
    refuse_socket_beside_flags(args, flags)
    findings = _found(args, flags)
    shown = [one for one in findings if not args.quiet or one.severity is not Severity.GOOD]
    if args.output == "json":
        print(msgspec.json.format(msgspec.json.encode(shown), indent=4).decode())
    else:
        for finding in shown:
            _print(finding)
        if shown or not args.quiet:
            print(_summary(findings))
    return EXIT_CODES[worst(findings)]


def _print(finding: Finding) -> None:
    severity = painted(f"{finding.severity:9}", _COLOURS[finding.severity])
    print(f"{severity}{finding.check:14}{in_a_cell(finding.found)}")
    if finding.remedy:
        print(f"{'':23}{in_a_cell(finding.remedy)}")


def _summary(findings: Sequence[Finding]) -> str:
    """Return the last line: the numbers of warnings and errors."""
    counts = Counter(finding.severity for finding in findings)
    problems = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in (Severity.WARNING, Severity.ERROR)
        if counts[severity]
    ]
    return ", ".join(problems) or "no problems found"


def _found(args: argparse.Namespace, flags: Sequence[str] | None) -> Sequence[Finding]:
    if flags is not None:
        return _looked_at(args, flags)
    agent = asking.agent_of(args)
    try:
        return blocking.run(_asked, agent)
    except NoAgent:
        if args.socket:
            raise  # a user who names an agent wants no other
    return _without_an_agent(args, agent.socket_path)


async def _asked(agent: AgentClient) -> Sequence[Finding]:
    """Return the agent's findings."""
    return asking.decode(await agent.get("/doctor"), Examined).findings


def _without_an_agent(args: argparse.Namespace, socket: str) -> Sequence[Finding]:
    """Return the finding that no agent answers, and those for an agent like the last one. If that one's flags and files
    are invalid, this is a finding too, and the rest is for an agent without a cluster on the same runtime."""
    from trikubelet.app.last_start import last_start  # noqa: PLC0415 - clients do not need the agent's modules

    unable: list[Finding] = []
    if (start := last_start(asking.places_of(args).root_dir)) is not None:
        try:
            return [_nobody_answers(socket, start.known_flags, start.advice), *_looked_at(args, start.known_flags)]
        except CommandFailed as wrong:
            unable = [error("flags, files", str(wrong), "correct them: the agent does not start with these")]
    flags = _flags_instead(args)
    advice = "start one" if start is None else start.advice
    return [_nobody_answers(socket, flags, advice), *unable, *_looked_at(args, flags)]


def _nobody_answers(socket: str, flags: Sequence[str], advice: str) -> Finding:
    """Return the first finding: all others are about an agent that does not run."""
    return error(
        "agent",
        f"no agent answers at {socket}; below is what one with {shlex.join(flags)} would find",
        f"{advice}, or see why it ended; `trikubelet doctor -- FLAGS` looks at what one with other flags would find",
    )


def _flags_instead(args: argparse.Namespace) -> Sequence[str]:
    """Return the flags of an agent on the runtime of the pods in that root directory, if it is recorded."""
    from trikubelet.app.root_dir import recorded_runtime  # noqa: PLC0415 - clients do not need the agent's modules

    endpoint = ""
    with suppress(OSError):  # the checks report a disk that cannot be read
        endpoint = recorded_runtime(asking.places_of(args).root_dir)
    return ["--standalone", *([f"--container-runtime-endpoint={endpoint}"] if endpoint else [])]


def _looked_at(args: argparse.Namespace, flags: Sequence[str]) -> Sequence[Finding]:
    from trikubelet.app.doctor import examine  # noqa: PLC0415 - clients do not need the agent's modules

    settings = asking.settings_of(flags, args.root_dir)
    ignored = [
        warning("configuration", one_line(one.source, one.line, one.path, one.problem, ""), one.remedy)
        for one in settings.effective.warnings
    ]
    return [*ignored, *interruptible.run(partial(examine, running=False), settings), *_manifests(settings)]


def _manifests(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the manifest files."""
    from trikubelet.cli.validate import faults_of  # noqa: PLC0415 - a running agent has read the manifests
    from trikubelet.core.doctor.manifests import MANIFESTS, judge_manifests  # noqa: PLC0415

    path = settings.manifest_path
    if path is not None and not os.path.lexists(path):
        yield good(MANIFESTS, f"{path} does not exist, so there are no static pods")
    elif path is not None:
        yield from judge_manifests(path, faults_of([path], settings.node_name))
