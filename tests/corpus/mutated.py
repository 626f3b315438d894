"""Pods that were right until a seeded hand changed one to three things in them.

What is changed keeps its type, since what a wrong type means is no question of validation: members go, items come
twice, words and numbers become others, and members that were never there are taken from the other right pods, where
many exclude one another or refer to what is not there. The same seed is the same pod on every machine.
"""

from __future__ import annotations

import random
import typing
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from trikubelet.model import k8s
from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

RIGHT: tuple[dict[str, Any], ...] = tuple(yaml.safe_load_all((Path(__file__).parent / "right.yaml").read_text()))
WORDS = (
    *("", "a", "A", "a_b", "-a", "a.b", "a/b", "/a", "../a", "a b", "5", "a" * 64, "a" * 254),
    *("Always", "Never", "Exists", "In", "NoExecute", "HTTP", "UDP", "Memory", "Localhost", "Strict", "None"),
)
NUMBERS = (-1, 0, 1, 2, 100, 511, 512, 65535, 65536, 2**31 - 1, 2**31)
AMOUNTS = ("0", "1", "-1", "500m", "1m", "1.5", "2Mi", "3Ki", "1e3")
CHANGES_MAX = 3


@dataclass(frozen=True)
class _Member:
    """One member of an object: the object, the member's name, and its type."""

    holder: dict[str, Any]
    name: str
    hint: Any


def mutated(seed: int) -> dict[str, Any]:
    """The pod of this seed; it may be right by chance."""
    chance = random.Random(seed)
    pod = deepcopy(chance.choice(RIGHT))
    for _ in range(chance.randint(1, CHANGES_MAX)):
        there = [member for member in _members(k8s.PodSpec, pod["spec"]) if member.name in member.holder]
        chance.choice((_remove, _repeat, _replace, _replace, _graft, _graft))(chance, there, pod)
    return pod


def _remove(chance: random.Random, there: list[_Member], pod: dict[str, Any]) -> None:
    member = chance.choice(there)
    del member.holder[member.name]


def _repeat(chance: random.Random, there: list[_Member], pod: dict[str, Any]) -> None:
    items = chance.choice(
        [found for member in there if (found := member.holder[member.name]) and isinstance(found, list)]
    )
    items.append(deepcopy(chance.choice(items)))


def _replace(chance: random.Random, there: list[_Member], pod: dict[str, Any]) -> None:
    member = chance.choice([one for one in there if _record(one.hint) is None])
    member.holder[member.name] = _other(chance, member.hint, member.holder[member.name])


def _graft(chance: random.Random, there: list[_Member], pod: dict[str, Any]) -> None:
    absent = [one for one in _members(k8s.PodSpec, pod["spec"]) if one.name not in one.holder and one.hint in _STOCK]
    member = chance.choice(absent)
    member.holder[member.name] = deepcopy(chance.choice(_STOCK[member.hint]))


def _other(chance: random.Random, hint: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_other(chance, hint, item) for item in value] if value and chance.random() < 0.8 else []
    if isinstance(value, dict):
        changed = {key: value[key] for key in value}
        key = chance.choice(sorted(changed)) if changed else "a"
        if chance.random() < 0.5:
            changed[chance.choice(WORDS)] = changed.pop(key, "a")
        else:
            changed[key] = chance.choice(AMOUNTS if k8s.Quantity in typing.get_args(hint) else WORDS)
        return changed
    if isinstance(value, bool):
        return not value
    return chance.choice(NUMBERS if isinstance(value, int) else WORDS)


@cache
def _record(hint: Any) -> type[msgspec.Struct] | None:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next(filter(None, map(_record, typing.get_args(hint))), None)


@cache
def _hints(record: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of a record's members, by their API names."""
    hints = typing.get_type_hints(record, vars(k8s))
    return {name: hints[attribute] for name, attribute in attributes(record).items()}


def _members(record: type[msgspec.Struct], value: dict[str, Any]) -> Iterator[_Member]:
    """Every member of every object, those that are not there among them."""
    for name, hint in _hints(record).items():
        yield _Member(value, name, hint)
        inner, held = _record(hint), value.get(name)
        if inner is not None and held is not None:
            for item in held if isinstance(held, list) else [held]:
                yield from _members(inner, item)


def _stock() -> dict[Any, list[Any]]:
    """What the right pods have, by its type; only of types that mean something by themselves."""
    found: dict[Any, list[Any]] = {bool | None: [True, False]}
    for pod in RIGHT:
        for member in _members(k8s.PodSpec, deepcopy(pod["spec"])):
            if member.name in member.holder and _record(member.hint) is not None:
                found.setdefault(member.hint, []).append(member.holder[member.name])
    return found


_STOCK = _stock()
