"""Shared by ``apply``, ``diff``, ``delete`` and ``rollback``: finding the directory, and taking all steps or none."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trikubelet.cli import asking, blocking
from trikubelet.cli.client import AgentSilent, NoAgent
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.manifest_directory import ManifestDirectory, locked
from trikubelet.cli.manifest_outcomes import outcome_lines
from trikubelet.cli.manifest_steps import carry_out
from trikubelet.cli.terminal import in_a_cell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator, Sequence

    from trikubelet.cli.manifest_steps import Step
    from trikubelet.model.faults import Fault


def directory(args: argparse.Namespace) -> tuple[str, str]:
    """Return the directory of manifests and the node's name. Raises CommandFailed if neither is configured, or it is a
    file."""
    if args.to:
        place, node = args.to, socket.gethostname().lower()
    else:
        try:
            note = blocking.run(asking.configuration, asking.agent_of(args))
        except (NoAgent, AgentSilent) as error:
            raise CommandFailed(f"{error}; or name the directory of manifests: --to") from error
        place, node = note.manifests, note.node_name
    if not place:
        raise CommandFailed("this agent has no directory of manifests: start it with --pod-manifest-path, or give --to")
    if os.path.exists(place) and not os.path.isdir(place):
        raise CommandFailed(f"{place} is one file: edit it, or start the agent with a directory")
    return place, node


@contextmanager
def opened(place: str, node: str) -> Iterator[ManifestDirectory]:
    """Yield the directory, which no other of these commands changes in the block. Raises CommandFailed and OSError."""
    try:
        with locked(place):
            yield ManifestDirectory(place, node)
    except TimeoutError as error:
        raise CommandFailed(f"{error}: try again") from error


def name_among(known: Collection[str], pod: str, node: str, namespace: str) -> str:
    """Return the full name of a pod. The author of a manifest knows the pod without the node's name at its end."""
    long = f"{pod}-{node}_{namespace}"
    return long if long in known else f"{pod}_{namespace}"


def without_faults(planned: tuple[Sequence[Step], Sequence[Fault]]) -> Sequence[Step]:
    """Return the steps. Raises CommandFailed if there are faults."""
    steps, faults = planned
    if faults:
        raise CommandFailed("\n".join(in_a_cell(str(fault)) for fault in faults))
    return steps


def do(directory: ManifestDirectory, planned: tuple[Sequence[Step], Sequence[Fault]], *, dry_run: bool) -> None:
    """Take every step and print it; or none, if there are faults. Raises CommandFailed and OSError."""
    steps = without_faults(planned)
    warnings = [] if dry_run else carry_out(directory.path, steps)
    for step in steps:
        for line in outcome_lines(step, dry_run=dry_run):
            print(in_a_cell(line), flush=True)
    for warning in warnings:
        print(in_a_cell(f"warning: {warning}"), file=sys.stderr)
