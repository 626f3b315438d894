"""Limits for the number of things in one pod: above any pod of an API server, whose objects are 1.5 MB at most, and low
enough that validating and running the pod does not block others. These rules come before the others, so that a pod of a
hundred thousand containers is not checked container by container.
Asked before the other rules: a pod of a hundred thousand containers is not looked through container by container.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.manifest.problem import Problem
from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Pod, PodSpec

CONTAINERS_MAX = 1_000
"""The limit for all three kinds together."""
VOLUMES_MAX = 2_000
ITEMS_MAX = 10_000
"""The limit for all lists, or maps, of one kind together: variables of all containers, or terms of all affinities."""


def count_problems(pod: Pod) -> Problems:
    """Yield the exceeded limits. If there are too many containers or volumes, their contents are not counted."""
    few = True
    for problem in (*_containers(pod.spec), *_volumes(pod.spec)):
        few = False
        yield problem
    if few:
        yield from _items(pod)


def _containers(spec: PodSpec) -> Problems:
    count = 0
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        count += len(containers)
        if count > CONTAINERS_MAX:
            yield _too_many(f"spec.{field}", f"{CONTAINERS_MAX} containers, of all kinds together")
            return


def _volumes(spec: PodSpec) -> Problems:
    if len(spec.volumes) > VOLUMES_MAX:
        yield _too_many("spec.volumes", f"{VOLUMES_MAX}")


def _items(pod: Pod) -> Problems:
    counts: Counter[str] = Counter()
    for kind, path, length in (*_lengths("metadata", "metadata", pod.metadata), *_lengths("spec", "spec", pod.spec)):
        before = counts[kind]
        counts[kind] += length
        if before <= ITEMS_MAX < counts[kind]:
            yield _too_many(path, f"{ITEMS_MAX} in all {kind} together")


def _lengths(kind: str, path: str, value: object) -> Iterator[tuple[str, str, int]]:
    """Yield each list and map in a value: its kind, which is its path without the indices, its path, and its length."""
    if isinstance(value, msgspec.Struct):
        for name, attribute in attributes(type(value)).items():
            yield from _lengths(f"{kind}.{name}", f"{path}.{name}", getattr(value, attribute))
    elif isinstance(value, (list, tuple)):
        yield kind, path, len(value)
        for n, item in enumerate(value):
            if not isinstance(item, str | int):
                yield from _lengths(kind, f"{path}[{n}]", item)
    elif isinstance(value, dict):
        yield kind, path, len(value)


def _too_many(path: str, what: str) -> Problem:
    return Problem(path, f"Too many: must not have more than {what}", "make several pods of it")
