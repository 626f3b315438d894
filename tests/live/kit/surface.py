"""A pod as a cluster and a runtime see it, in a form that two kubelets can be compared by: pure, without a node.

`status`, `events` and `requests` each take what was seen and leave out what differs from run to run: names of machines
and directories, ids, addresses, times. `differences` compares two results. ``surface_run.py`` records them, and
``test_surface.py`` compares the agent's with those of upstream's kubelet.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Value = Any
"""A value of JSON."""

_TEXTS: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b(?!/\d)"), "IP"),
    (re.compile(r"\b\d+(\.\d+)?(ms|µs|s)\b(?= \()"), "DURATION"),
    (re.compile(r"(?<=\()\d+(\.\d+)?(ms|µs|s)(?= including waiting)"), "DURATION"),
    (re.compile(r"(?<=kube-api-access-)[a-z0-9]{5}\b"), "RANDOM"),
    (re.compile(r"(?<=/containers/)([^/]+)/[^/]+$"), r"\1/FILE"),
    (re.compile(r"(?<=Image size: )\d+"), "SIZE"),
)
"""Texts that are another in each run, in the order in which they are replaced."""
_MACHINE: Final = frozenset({"dns_config", "oom_score_adj", "imageID"})
"""Fields that follow from the machine: its resolver, its memory, the compiler of the tests' images."""
_EMPTY: Final = (None, "", [], {}, False, 0, "0")


def normalized(value: Value, names: Mapping[str, str]) -> Value:
    """Return a value without anything that differs between two runs. ``names`` are texts of this run (the node's name,
    the kubelet's directories) and what stands in their place."""
    match value:
        case str():
            for text in sorted(names, key=len, reverse=True):
                value = value.replace(text, names[text])
            for pattern, word in _TEXTS:
                value = pattern.sub(word, value)
            return value
        case dict():
            found = {key: _field(key, one, names) for key, one in sorted(value.items())}
            return {normalized(key, names): one for key, one in found.items() if one not in _EMPTY}
        case list():
            return [normalized(one, names) for one in value]
    return value


def _field(key: str, value: Value, names: Mapping[str, str]) -> Value:
    if key in _MACHINE:
        return "MACHINE"
    if key == "envs":  # upstream's come in a random order, those of services among them
        return {one["key"]: normalized(b64decode(one.get("value", "")).decode(), names) for one in value}
    return normalized(value, names)


def status(pod: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Return a pod's status with its conditions in the order of their types, because the API promises none."""
    found = dict(pod.get("status", {}))
    if "conditions" in found:
        found["conditions"] = sorted(found["conditions"], key=lambda one: str(one["type"]))
    return dict(normalized(found, names))


def events(told: Iterable[Mapping[str, Value]], names: Mapping[str, str]) -> list[str]:
    """Return the events of a pod, a line each: those about the pod itself first, then those about each container in
    the order in which they came. The same event counts once, because how often it comes depends on time."""
    by_object = sorted(told, key=lambda one: str(one["involvedObject"].get("fieldPath", "")))
    lines = (
        f"{one['involvedObject'].get('fieldPath') or 'pod'}: {one['type']} {one['reason']}: {one['message'].strip()}"
        for one in by_object
    )
    return list(dict.fromkeys(normalized(line, names) for line in lines))


def requests(sent: Iterable[tuple[str, str, Mapping[str, Value]]], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the CRI requests of a pod, by method and container, and the order of each container's. ``sent`` has
    method, container and fields. The first of repeated requests counts; a container's later attempts are left out."""
    calls: dict[str, Value] = {}
    for method, container, fields in sent:
        calls.setdefault(f"{method} {container}".strip(), normalized(dict(fields), names))
    return {"calls": calls, "order": sorted(calls, key=lambda call: call.partition(" ")[2])}


def differences(expected: Value, found: Value, at: str = "") -> Iterator[str]:
    """Yield a line for each place where two values differ, in the order of ``expected``."""
    match expected, found:
        case dict(), dict():
            for key in sorted({*expected, *found}):
                yield from differences(expected.get(key), found.get(key), f"{at}.{key}" if at else str(key))
        case list(), list() if all(isinstance(one, str) for one in (*expected, *found)):
            yield from (f"{at}: missing {one!r}" for one in expected if one not in found)
            yield from (f"{at}: extra {one!r}" for one in found if one not in expected)
            if sorted(expected) == sorted(found) and expected != found:
                yield f"{at}: another order: {expected!r} → {found!r}"
        case list(), list():
            for number in range(max(len(expected), len(found))):
                mine, theirs = (side[number] if number < len(side) else None for side in (expected, found))
                yield from differences(mine, theirs, f"{at}[{number}]")
        case _ if expected != found:
            yield f"{at}: {expected!r} → {found!r}"
