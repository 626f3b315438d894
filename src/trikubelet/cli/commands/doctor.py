"""``trikubelet doctor``: what is wrong with this node, and how to mend it.

Asked of the running agent, which knows with what it was started. With an agent's flags behind ``--`` this process
looks for itself, at what an agent would find that was started so. Where no agent answers, that is the first thing that
is wrong, and what is looked at instead is what one would find without a cluster, on the runtime that the last one had.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli import asking, interruptible
from trikubelet.cli.arguments import Parser
from trikubelet.cli.client import AgentClient, NoAgent
from trikubelet.cli.terminal import Colour, in_a_cell, painted
from trikubelet.core.doctor.finding import Severity, error, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.doctor.finding import Finding

EXIT_CODES: Final = {Severity.GOOD: 0, Severity.WARNING: 3, Severity.ERROR: 1}
_COLOURS: Final = {Severity.GOOD: Colour.GREEN, Severity.WARNING: Colour.YELLOW, Severity.ERROR: Colour.RED}


def parser() -> argparse.ArgumentParser:
    """The arguments of ``doctor``."""
    made = Parser(
        prog="trikubelet doctor",
        usage="trikubelet doctor [-o json] [-q] [-- agent's flags]",
        description="Look at the container runtime, cgroups, swap, sysctls, clock, disks, ports, certificates and the "
        "API server, and say what is wrong and what to do. Exit code 1 with an error, 3 with warnings only.",
    )
    made.add_argument("-o", "--output", choices=("json",), help="another form")
    made.add_argument("-q", "--quiet", action="store_true", help="only what is wrong")
    asking.add_agent_options(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``doctor``; the exit code, by the worst that was found. Raises CommandFailed."""
    arguments, flags = asking.split_flags(argv)
    args = parser().parse_args(arguments)
    asking.refuse_socket_beside_flags(args, flags)
    findings = interruptible.run(_found, args, flags)
    shown = [one for one in findings if not args.quiet or one.severity is not Severity.GOOD]
    if args.output == "json":
        print(msgspec.json.format(msgspec.json.encode(shown), indent=4).decode())
    else:
        for finding in shown:
            _print(finding)
    return EXIT_CODES[worst(findings)]


def _print(finding: Finding) -> None:
    severity = painted(f"{finding.severity:9}", _COLOURS[finding.severity])
    print(f"{severity}{finding.check:14}{in_a_cell(finding.found)}")
    if finding.remedy:
        print(f"{'':23}{in_a_cell(finding.remedy)}")


async def _found(args: argparse.Namespace, flags: Sequence[str] | None) -> Sequence[Finding]:
    if flags is not None:
        return await _looked_at(args, flags)
    socket = asking.socket_path(args)
    try:
        return await asking.findings(AgentClient(socket))
    except NoAgent:
        if args.socket:
            raise  # whoever names it asks about no other
    instead = _flags_instead(args)
    return [_nobody_answers(socket, instead), *await _looked_at(args, instead)]


def _nobody_answers(socket: str, instead: Sequence[str]) -> Finding:
    """All that follows it is about an agent that there is not."""
    return error(
        "agent",
        f"no agent answers at {socket}; below is what one with {' '.join(instead)} would find",
        "start it, or see why it ended; `trikubelet doctor -- FLAGS` looks at what one with other flags would find",
    )


def _flags_instead(args: argparse.Namespace) -> Sequence[str]:
    """The flags of an agent like the one that ran there, as far as it left them: the runtime its pods are on."""
    from trikubelet.app.root_dir import recorded_runtime  # noqa: PLC0415 - who asks an agent does not wait for it

    endpoint = ""
    with suppress(OSError):  # the checks say so of a disk that cannot be read
        endpoint = recorded_runtime(asking.places_of(args).root_dir)
    return ["--standalone", *([f"--container-runtime-endpoint={endpoint}"] if endpoint else [])]


async def _looked_at(args: argparse.Namespace, flags: Sequence[str]) -> Sequence[Finding]:
    from trikubelet.app.doctor import examine  # noqa: PLC0415 - who asks an agent does not wait for it

    return await examine(asking.settings_of(flags, args.root_dir), running=False)
