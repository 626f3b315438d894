"""Applying patches as an API server does: the JSON merge patch and the strategic merge patch.

The second merges some lists element by element. ``kinds`` has the table: the path of such a list, and its merge key (""
where the elements are plain values). Every other list is replaced as a whole. The arguments are not changed; the result
shares parts with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

Tree = dict[str, Any]
"""An object as JSON has it."""

_ORDER: Final = "$setElementOrder/"
_GONE: Final = "$deleteFromPrimitiveList/"
_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"


class PatchBroken(Exception):
    """The patch is invalid: an element without its merge key, or an unknown directive."""


def merge(target: object, patch: object) -> Any:
    """The target after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic_merge(target: Tree, patch: Tree, keys: Mapping[str, str], path: str = "") -> Tree:
    """The target after a strategic merge patch; ``keys`` are the lists that are merged. Raises PatchBroken."""
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive != "merge":
        raise PatchBroken(f"{path or 'the patch'}: unknown directive {directive!r}")
    retained = patch.get(_RETAIN)
    result = {key: value for key, value in target.items() if retained is None or key in retained}
    for name in dict.fromkeys(_member(key) for key in patch if key not in (_DIRECTIVE, _RETAIN)):
        inner = f"{path}.{name}" if path else name
        if name in patch and patch[name] is None:
            result.pop(name, None)
        elif inner in keys:
            result[name] = _merged_list(result.get(name) or [], patch, name, keys, inner)
        elif isinstance(patch[name], dict):
            old = result.get(name)
            result[name] = strategic_merge(old if isinstance(old, dict) else {}, patch[name], keys, inner)
        else:
            result[name] = patch[name]
    return result


def _member(key: str) -> str:
    return key.removeprefix(_ORDER).removeprefix(_GONE)


def _merged_list(old: Sequence[Any], patch: Tree, name: str, keys: Mapping[str, str], path: str) -> list[Any]:
    wanted: list[Any] = patch.get(name, [])
    order: list[Any] = patch.get(_ORDER + name, wanted)
    if not keys[path]:
        gone = patch.get(_GONE + name, [])
        kept = [value for value in old if value not in gone]
        return _ordered([*kept, *(value for value in wanted if value not in kept)], order, old, _itself)
    if any(element.get(_DIRECTIVE) == "replace" for element in wanted):
        return [element for element in wanted if _DIRECTIVE not in element]

    def identity(element: Tree) -> Hashable:
        try:
            value: Hashable = element[keys[path]]
        except KeyError:
            raise PatchBroken(f"{path}: an element has no {keys[path]}") from None
        return value

    merged = list(old)
    for element in wanted:
        place = next((n for n, known in enumerate(merged) if identity(known) == identity(element)), None)
        if element.get(_DIRECTIVE) == "delete":
            merged = [known for known in merged if identity(known) != identity(element)]
        elif place is None:
            merged.append(strategic_merge({}, element, keys, path))
        else:
            merged[place] = strategic_merge(merged[place], element, keys, path)
    return _ordered(merged, order, old, identity)


def _itself(value: Hashable) -> Hashable:
    return value


def _ordered(
    merged: Sequence[Any], order: Sequence[Any], old: Sequence[Any], identity: Callable[[Any], Hashable]
) -> list[Any]:
    """Return the elements in the patch's order; each of the others at its place in the old list: before the first of
    the named ones that came after it there."""
    asked = {identity(element): n for n, element in reversed(list(enumerate(order)))}
    was = {identity(element): n for n, element in reversed(list(enumerate(old)))}
    named = sorted((e for e in merged if identity(e) in asked), key=lambda e: asked[identity(e)])
    result: list[Any] = []
    for element in merged:
        if identity(element) in asked:
            continue
        while named and was.get(identity(named[0]), -1) <= was[identity(element)]:
            result.append(named.pop(0))
        result.append(element)
    return result + named
