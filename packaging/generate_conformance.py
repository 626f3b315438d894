"""Writes docs/conformance.md out of what `make conformance` and `make node-conformance` recorded.

    python packaging/generate_conformance.py [--check]

``--check`` compares and ends with 1 when the page is not what tests/recorded says (conformance.json and
node_conformance.json).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE: Final = Path(__file__).resolve().parent.parent
RECORD: Final = HERE / "tests" / "recorded" / "conformance.json"
NODE_RECORD: Final = HERE / "tests" / "recorded" / "node_conformance.json"
PAGE: Final = HERE / "docs" / "conformance.md"
LISTED_MAX: Final = 20
"""Of one reason more are only counted: the record names them."""
COLUMNS: Final = ("passed", "failed", "skipped", "left out")

HEAD: Final = """\
# Upstream's conformance tests

What Kubernetes {upstream} asks by its own end-to-end suite, `e2e.test`, built from upstream's source with nothing
changed, and what became of each spec that upstream calls `[Conformance]`, on a cluster of one node: trikubelet on
containerd {containerd}, beside the API server, controllers and scheduler of the same version. `make conformance` runs
them and makes this page of what it wrote into `tests/recorded/conformance.json`; `make lint` compares.

**{passed} of the {ran} specs that were run passed.**

The cluster has no kube-proxy, no DNS server and no second node. No registry is asked: the suite's images are made on
the spot under upstream's names and pulled from loopback. agnhost and nonewprivs in them are upstream's programs, built
from its source; the userland is this machine's busybox and bash. nginx, kitten and nautilus are stand-ins that share
with upstream's no more than the names and the files that specs read.

## By group
"""
TABLE: Final = """
| Group | Passed | Failed | Skipped by the suite | Left out |
|---|---:|---:|---:|---:|
"""

NODE_HEAD: Final = """
## Upstream's node suite

`make node-conformance` runs `e2e_node.test`, built from upstream's source with nothing changed, on the agent: the suite
starts etcd, an API server and the kubelet by itself. It runs every spec that has no label Serial, Flaky or Disruptive
and, except for NodeConformance and Conformance, no label of a feature. The baseline is upstream's kubelet of the same
release on the same kind of machine, with the same images and the same containerd. Each result is written into
`tests/recorded/node_conformance.json`, of which this part is made. A spec that fails is run three more times; it is
called a flake where it then passes, and the counts of upstream's kubelet stand next to those of the agent.

| Kubernetes | containerd | Specs that upstream's kubelet passes | Run on the agent | Passed | Flaky | Not passed |
|---|---|---:|---:|---:|---:|---:|
"""
NODE_LIST: Final = """
### Specifications that upstream's kubelet passes and the agent does not

| Spec | Kubernetes | Result |
|---|---|---|
"""
NODE_NONE: Final = "\nThe agent passes every spec that was run and that upstream's kubelet passes.\n"
NODE_CELL_CHARS_MAX: Final = 300
"""A failure's message is cut there: the suite prints whole objects."""


def page(told: dict[str, str], upstream: str, containerd: str) -> str:
    """The page, for the verdict on each spec: ``passed``, or one of the other `COLUMNS` and, after a colon, why."""
    groups: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, said in told.items():
        groups[_group(name)][_column(said)] += 1
    whole = sum(groups.values(), Counter[str]())
    ran = whole["passed"] + whole["failed"]
    text = HEAD.format(upstream=upstream, containerd=containerd, passed=whole["passed"], ran=ran) + TABLE
    for group, counted in [*sorted(groups.items()), ("all", whole)]:
        text += f"| {group} | {' | '.join(str(counted[column]) for column in COLUMNS)} |\n"
    for column in COLUMNS[1:]:
        text += _reasons(column, {name: said for name, said in told.items() if _column(said) == column})
    return text


def node_part(recorded: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the part of the page about the node suite; ``recorded`` has the results by minor version."""
    text, rows = NODE_HEAD, []
    for minor, release in sorted(recorded.items()):
        wanted = {name for name, said in release["upstream"].items() if said == "passed"}
        ran = {name: said for name, said in release["agent"].items() if name in wanted}
        counted = Counter(_node_column(said) for said in ran.values())
        numbers = [len(wanted), len(ran), *(counted[column] for column in ("passed", "flaky", "failed"))]
        text += f"| {release['release']} | {release['containerd']} | {' | '.join(map(str, numbers))} |\n"
        rows += [(name, minor, said) for name, said in ran.items() if said != "passed"]
    if not rows:
        return text + NODE_NONE
    return (
        text
        + NODE_LIST
        + "".join(f"| {_cell(name)} | {minor} | {_cell(said)} |\n" for name, minor, said in sorted(rows))
    )


def _node_column(said: str) -> str:
    state = said.partition(":")[0]
    return state if state in ("passed", "flaky") else "failed"


def _cell(text: str) -> str:
    """Return a text as it can stand in a cell of a table."""
    words = " ".join(text.split())
    cut = words if len(words) <= NODE_CELL_CHARS_MAX else f"{words[:NODE_CELL_CHARS_MAX]}…"
    return cut.replace("|", "\\|").replace("<", "&lt;")


def _reasons(column: str, told: dict[str, str]) -> str:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, said in told.items():
        by_reason[said.partition(": ")[2]].append(name)
    text = f"\n## {column.capitalize()}\n" if told else ""
    for reason, names in sorted(by_reason.items()):
        listed = ":\n\n" + "".join(f"- {name}\n" for name in names) if len(names) <= LISTED_MAX else ".\n"
        text += f"\n{len(names)} specs: {reason or 'no reason was given'}{listed}"
    return text


def _column(said: str) -> str:
    state = said.partition(":")[0]
    return state if state in COLUMNS else "failed"


def _group(name: str) -> str:
    """Of sig-node and sig-storage what is tried, by the capitals its name begins with; of others who answers for it."""
    sig, rest = re.fullmatch(r"\[(sig-\w+(?:-\w+)*)\] (.*)", name).groups()  # type: ignore[union-attr]
    if sig not in ("sig-node", "sig-storage"):
        return str(sig)
    first, *words = rest.split()
    return f"{sig}: {' '.join([first, *takewhile(lambda word: word[0].isupper(), words)])}"


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    recorded = json.loads(RECORD.read_text())
    wanted = page(recorded["specs"], recorded["upstream"], recorded["containerd"])
    wanted += node_part(json.loads(NODE_RECORD.read_text()))
    if not asked.check:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    sys.stderr.write("docs/conformance.md is not what was recorded: run packaging/generate_conformance.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
