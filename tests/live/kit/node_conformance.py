"""Which specs of upstream's node suite are run, which of them are run again, and the record of the results.

``python -m live.kit node-conformance`` (`make node-conformance`) runs the specs, and writes each result into
``tests/recorded/node_conformance.json``, of which ``packaging/generate_conformance.py`` makes a part of
``docs/conformance.md``. A spec that upstream's kubelet passes and the agent does not is run `REPEATS` more times, and
on upstream's kubelet as well before it is recorded as a flake. The command fails where the agent loses a spec that the
page does not list yet.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import node_suite, places
from .conformance import name_of, verdict
from .node_suite import NodeSuite, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RECORD: Final = Path(__file__).resolve().parents[2] / "recorded" / "node_conformance.json"
REPEATS: Final = 3
PROCESSES: Final = 10
"""The suite's processes, side by side: most of the time they wait."""
CHOSEN: Final = "!Flaky && !Disruptive && (NodeConformance || Conformance || !/^Feature:/)"
SIDE_BY_SIDE: Final = f"!Serial && {CHOSEN}"
SERIAL: Final = f"Serial && {CHOSEN}"

AGENT: Final = "agent"
UPSTREAM: Final = "upstream"


@dataclass
class Release:
    """The results on one release of Kubernetes: for each kubelet the verdict on each spec."""

    release: str
    containerd: str
    agent: dict[str, str] = field(default_factory=dict)
    upstream: dict[str, str] = field(default_factory=dict)

    def lost(self, verdicts: Mapping[str, str]) -> list[str]:
        """Return the specs among ``verdicts`` that did not pass, except those that upstream's kubelet fails or skips
        on this machine, too."""
        failed = (name for name, said in verdicts.items() if said != "passed" and not said.startswith("skipped"))
        return [name for name in failed if self.upstream.get(name, "passed") == "passed"]


def main(words: Sequence[str]) -> int:
    """Run what the command line asks for; the exit code is 1 where the agent loses a spec that the record does not name
    as lost."""
    parser = argparse.ArgumentParser(prog="node-conformance", description="Run upstream's node suite on the agent.")
    versions = places.node_suite_versions()
    parser.add_argument("--version", choices=versions, default=versions[-1], help="the Kubernetes version of the suite")
    parser.add_argument("--focus", default="", metavar="PATTERN", help="run only specs whose name matches")
    parser.add_argument("--serial", action="store_true", help="run the specs that must run alone instead of the others")
    parser.add_argument("--kubelet", choices=(AGENT, UPSTREAM), default=AGENT, help="the kubelet that is tested")
    parser.add_argument("--kept", type=Path, default=Path("/tmp/trikubelet-node-conformance"), metavar="DIRECTORY")
    asked = parser.parse_args(words)
    labels, processes = (SERIAL, 1) if asked.serial else (SIDE_BY_SIDE, PROCESSES)
    with node_suite.prepared(asked.version) as suite:
        release = load(suite.release, asked.version)
        selection = Selection(focus=asked.focus, labels=labels, processes=processes)
        verdicts = _run(suite, asked.kubelet, selection, asked.kept)
        if asked.kubelet == AGENT:
            verdicts |= _repeated(suite, release.lost(verdicts), verdicts, labels, asked.kept)
    lost = release.lost(verdicts) if asked.kubelet == AGENT else []
    known = release.lost(release.agent)
    save(asked.version, release, asked.kubelet, verdicts, whole=not (asked.focus or asked.serial))
    for name in lost:
        print(f"{name}{' (known)' if name in known else ''}\n  {verdicts[name]}", file=sys.stderr)
    passed = sum(said == "passed" for said in verdicts.values())
    print(f"{asked.kubelet}: {passed} of {len(verdicts)} specs of {release.release} passed; logs are in {asked.kept}")
    if asked.kubelet == AGENT:
        print(
            f"upstream's kubelet passes {len(lost)} of the others or has not run them; {len(known)} were known before"
        )
    return 1 if set(lost) - set(known) else 0


def settled(first: str, ours: Sequence[str], upstreams: Sequence[str]) -> str:
    """Return the verdict on a spec that did not pass at first: the first one, or "flaky" with the counts where it
    passed when it was repeated. ``ours`` and ``upstreams`` are the verdicts of the repetitions."""
    failed = 1 + sum(said != "passed" for said in ours)
    if failed == 1 + len(ours):
        return first
    theirs = sum(said != "passed" for said in upstreams)
    count = f"fails {failed} of {1 + len(ours)} times, with upstream's kubelet {theirs} of {len(upstreams)}"
    return f"flaky: {count}: {first.partition(': ')[2]}"


def load(release: str, minor: str) -> Release:
    """Return the recorded results for a minor version, without those of another patch release or containerd."""
    recorded = json.loads(RECORD.read_text()).get(minor, {}) if RECORD.exists() else {}
    found = Release(**recorded) if recorded else Release(release, places.CONTAINERD_VERSION)
    return found if found.release == release else Release(release, places.CONTAINERD_VERSION)


def save(minor: str, release: Release, kubelet: str, verdicts: Mapping[str, str], *, whole: bool) -> None:
    """Write new results into the record. ``whole``: they replace all older ones of that kubelet."""
    known = release.agent if kubelet == AGENT else release.upstream
    if whole:
        known.clear()
    known.update(verdicts)
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    recorded[minor] = {
        "release": release.release,
        "containerd": places.CONTAINERD_VERSION,
        UPSTREAM: dict(sorted(release.upstream.items())),
        AGENT: dict(sorted(release.agent.items())),
    }
    RECORD.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n")


def pattern(names: Iterable[str]) -> str:
    """Return the pattern, in Go's words, that matches exactly these names, and longer ones that contain them."""
    return "|".join(re.sub(r"([^\w\s/:=,'\"<>-])", r"\\\1", name) for name in names)


def _run(suite: NodeSuite, kubelet: str, selection: Selection, kept: Path) -> dict[str, str]:
    command = node_suite.AGENT if kubelet == AGENT else suite.upstream
    specs = suite.run(command, selection, kept)
    verdicts = {name_of(spec).strip(): verdict(spec) for spec in specs}
    return {name: said for name, said in sorted(verdicts.items()) if not said.startswith("left out")}


def _repeated(
    suite: NodeSuite, lost: Sequence[str], verdicts: Mapping[str, str], labels: str, kept: Path
) -> dict[str, str]:
    """Return the settled verdicts on the specs that were lost at first."""
    if not lost:
        return {}
    ours = [_again(suite, AGENT, lost, labels, kept / f"again-{number}") for number in range(1, REPEATS + 1)]
    unsteady = [name for name in lost if any(run.get(name) == "passed" for run in ours)]
    theirs: list[dict[str, str]] = []
    if unsteady:
        numbers = range(1, REPEATS + 1)
        theirs = [_again(suite, UPSTREAM, unsteady, labels, kept / f"upstream-{number}") for number in numbers]
    return {
        name: settled(verdicts[name], [run.get(name, "") for run in ours], [run.get(name, "") for run in theirs])
        for name in lost
    }


def _again(suite: NodeSuite, kubelet: str, names: Sequence[str], labels: str, kept: Path) -> dict[str, str]:
    processes = 1 if labels == SERIAL else min(PROCESSES, len(names))
    return _run(suite, kubelet, Selection(focus=pattern(names), labels=labels, processes=processes), kept)
