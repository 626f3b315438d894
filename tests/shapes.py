"""What metrics a text of Prometheus has: of each its type, its labels and its bounds."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? \S+")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Shape(NamedTuple):
    """``labels`` are those that all samples have, without ``le``, whose values are the ``bounds``."""

    kind: str
    labels: frozenset[str]
    bounds: tuple[float, ...] = ()


def shapes(text: str) -> dict[str, Shape]:
    """Those of every metric, by its name."""
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    labels: dict[str, set[frozenset[str]]] = defaultdict(set)
    bounds: dict[str, set[float]] = defaultdict(set)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        name = match[1] if match[1] in kinds else re.sub(r"_(bucket|sum|count)$", "", match[1])
        pairs = dict(_LABEL.findall(match[2] or ""))
        if "le" in pairs:
            bound = pairs.pop("le")
            assert not bound.endswith(".0"), f"Go would not write it so, and dashboards ask for its word: {line}"
            bounds[name].add(float(bound))
        labels[name].add(frozenset(pairs))
    found = {}
    for name, kind in kinds.items():
        (same,) = labels[name]
        found[name] = Shape(kind, same, tuple(sorted(bounds[name] - {float("inf")})))
    return found
