"""Turns a manifest's text into static pods and the objects they read; sources and ``trikubelet validate`` share it.

A text may hold several documents, and a document a list. Each pod and each object is judged by itself: a fault leaves
out only its own. ``core.file_source`` decides what a faulty file means for its earlier pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trikubelet.core.document import Document, as_text, parse_documents
from trikubelet.core.document.shown import shown
from trikubelet.core.field_path import place_of
from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.manifest.kinds import (
    COMPOSE,
    COMPOSE_PROBLEM,
    COMPOSE_REMEDY,
    is_compose_file,
    unsupported_kind,
)
from trikubelet.core.manifest.objects import TYPES, object_name, object_problems, stored
from trikubelet.core.manifest.origin import Origin
from trikubelet.core.manifest.problem import NOT_FOUND, Problem, forbidden
from trikubelet.core.manifest.static import api_references, null_characters, static_pod
from trikubelet.core.manifest.validation import pod_problems
from trikubelet.core.names import full_name
from trikubelet.core.structure import examine
from trikubelet.model import k8s
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trikubelet.core.manifest.objects import ManifestObject
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Pod

_ITEMS = {"PodList": ("Pod",), "List": ("Pod", *TYPES)}
_KINDS = ("Pod", *TYPES, *_ITEMS)
T = TypeVar("T", bound=msgspec.Struct)

NO_API = "it lives in an API server, and a pod from a manifest must start without one"

NULL_CHARACTER = "Invalid value: it has a null character (\\0), and no process or file can be given one"


class Loaded(Frozen):
    """The content of the text of ``source``: its good pods and objects in order, the faults of the others, and the
    place of each good one, by a pod's full name (``core.names``) or an object's (``core.manifest.objects``).
    ``is_blank``: the text is empty, or has only comments."""

    source: str
    pods: tuple[Pod, ...]
    faults: tuple[Fault, ...]
    origins: Mapping[str, Origin]
    objects: tuple[ManifestObject, ...] = ()
    is_blank: bool = False


def load_manifest(text: str | bytes, source: str, node_name: str, seen: str) -> Loaded:
    """Return everything in a manifest.

    ``source`` is the file's path or the URL; it is part of the pods' identity and names them in faults. ``node_name``
    is this node's; ``seen`` is now, in RFC 3339, and is only kept in an annotation. Raises nothing.
    """
    documents, faults = parse_documents(text, source)
    is_blank = not documents and not faults
    written = text.removeprefix("\ufeff") if isinstance(text, str) else as_text(text)
    if not written.strip():
        # A file with only comments is no fault, because its author intended it.
        faults = [Fault(source, None, "", "the file is empty", "remove it if its pods shall go")]
    pods: dict[str, Pod] = {}
    objects: dict[str, ManifestObject] = {}
    origins: dict[str, Origin] = {}
    uids: set[str] = set()
    for document in documents:
        for part, kind, is_named_right in _parts(document, faults):
            is_kept = is_named_right and not part.is_doubted
            if kind in TYPES:
                held, found = _object(part, TYPES[kind])
                name = "" if held is None else object_name(held)
                if name in objects:
                    found = [_second(part, "metadata.name", part.name, "name and namespace", "rename one of the two")]
                elif held is not None and is_kept:
                    objects[name], origins[name] = held, part
                faults += found
                continue
            pod, found = _pod(part, node_name, seen)
            if pod is not None and full_name(pod) in pods:
                found = [_second(part, "metadata.name", part.name, "name and namespace", "rename one of the two")]
            elif pod is not None and pod.metadata.uid in uids:
                found = [_second(part, "metadata.uid", pod.metadata.uid, "UID", "leave it out: each pod is given one")]
            elif pod is not None and is_kept:
                pods[full_name(pod)] = pod
                origins[full_name(pod)] = part
                uids.add(pod.metadata.uid)
            faults += found
    in_order = tuple(sorted(faults, key=lambda fault: fault.line or 0))
    return Loaded(source, tuple(pods.values()), in_order, origins, tuple(objects.values()), is_blank)


def _parts(document: Document, faults: list[Fault]) -> Iterator[tuple[Origin, str, bool]]:
    """Yield the place of each pod and object of the document, its kind, and True if the kind is given: otherwise the
    part is only read to find more faults. Faults that disqualify a part are added to ``faults``."""
    whole = Origin(document, document.value)
    kind, wrong = _kind_of(whole, _KINDS)
    faults += wrong
    value = document.value
    if kind not in _ITEMS:
        if kind:
            yield whole, kind, not wrong
        return
    assert isinstance(value, dict)  # or it would have no kind
    items = value.get("items")
    rest = {key: item for key, item in value.items() if key != "items"}
    faults += examine(replace(document, value=rest | {"items": []}), k8s.PodList).faults
    if not isinstance(items, list):
        what = "pods" if kind == "PodList" else "pods, ConfigMaps and Secrets"
        faults.append(whole.fault("items", f"Required value: must be a list of {what}"))
        return
    # Items of a typed list need not repeat their type.
    implied: dict[str, object] = {"apiVersion": "v1", "kind": "Pod"} if kind == "PodList" else {}
    for n, item in enumerate(items):
        part = Origin(document, implied | item if isinstance(item, dict) else item, f"items[{n}]")
        of_item, wrong = _kind_of(part, _ITEMS[kind])
        faults += wrong
        if of_item:
            yield part, of_item, not wrong


def _kind_of(part: Origin, kinds: tuple[str, ...]) -> tuple[str, list[Fault]]:
    """Return which of these kinds a value is, as stated or by its look, "" for none; and the faults of the
    statement."""
    value = part.value
    if not isinstance(value, dict):
        return "", [part.fault("", f"{shown(value)} where a Pod should stand", 'begin with "apiVersion: v1"')]
    if is_compose_file(value):
        return "", [part.fault(COMPOSE, COMPOSE_PROBLEM, COMPOSE_REMEDY)]
    kind, version, spec = (value.get(key) for key in ("kind", "apiVersion", "spec"))
    if kind is not None and kind not in kinds:
        return "", [part.fault("kind", *unsupported_kind(value, kinds))]
    faults = []
    if kind is None:
        faults.append(part.fault("kind", "Required value", 'write "kind: Pod"'))
        if not (isinstance(spec, dict) and "containers" in spec):
            return "", faults  # its kind is unknown
    if version != "v1":
        problem = "Required value" if version is None else f"Unsupported value: {shown(version)}: must be v1"
        faults.append(part.fault("apiVersion", problem, 'write "apiVersion: v1"'))
    return kind or "Pod", faults


def _pod(part: Origin, node_name: str, seen: str) -> tuple[Pod | None, list[Fault]]:
    """Return the pod of a part, or None and all its faults."""
    pod, faults = _read(part, k8s.Pod, lambda pod: _problems(pod, node_name, part.value))
    if pod is None:
        return None, faults
    return with_defaults(static_pod(pod, part.document.source, node_name, seen)), []


def _object(part: Origin, type_: type[ManifestObject]) -> tuple[ManifestObject | None, list[Fault]]:
    """Return the object of a part, or None and all its faults."""
    held, faults = _read(part, type_, object_problems)
    return None if held is None else stored(held), faults


def _read(part: Origin, type_: type[T], problems: Callable[[T], Problems]) -> tuple[T | None, list[Fault]]:
    """Return the value of a part, or None and all its faults."""
    whole = part.document
    at = place_of(part.prefix)
    examined = examine(Document(part.value, whole.source, whole.index, written=whole.written, at=at), type_)
    faults = [
        part.fault(fault.path, _shape_problem(type_, fault), fault.remedy)
        for fault in examined.faults
        if part.could_be_read(fault.path)
    ]
    shapeless = {place_of(fault.path) for fault in examined.faults}
    may_miss = any(_may_be_what_is_missing(place) for place in shapeless)
    found = list(problems(examined.value))
    paths = {problem.path for problem in found}
    faults += [
        part.fault(problem.path, problem.text, problem.remedy)
        for problem in found
        if part.could_be_read(problem.path)
        and not _is_echo(problem, shapeless)
        and not (may_miss and problem.text.startswith(NOT_FOUND))
        and not _is_derived(part, problem.path, paths)
    ]
    return (None, faults) if faults else (examined.value, [])


def _shape_problem(type_: type[msgspec.Struct], fault: Fault) -> str:
    """Return the problem without the value, because a number or a word that should be a string may be a secret."""
    place = place_of(fault.path)
    if type_ is not k8s.Secret or place[:1] not in (("data",), ("stringData",)):
        return fault.problem
    return f"Invalid value: <contents redacted>: must be {'an object' if len(place) == 1 else 'a string'}"


def _problems(pod: Pod, node_name: str, written: object) -> Problems:
    """Yield all problems of a pod whose manifest has the value ``written``."""
    reported = set()
    for problem in pod_problems(with_defaults(pod), node_name):
        reported.add(place_of(problem.path))
        yield problem
    for path in api_references(pod):
        yield forbidden(path, NO_API, "remove it")
    spec = written.get("spec") if isinstance(written, dict) else None
    for path in null_characters(spec, "spec"):
        if place_of(path) not in reported:
            yield Problem(path, NULL_CHARACTER)


def _is_echo(problem: Problem, shapeless: set[tuple[str, ...]]) -> bool:
    """True if a problem only repeats that a value, or an enclosing one, has the wrong shape."""
    place = place_of(problem.path)
    return any(place[:length] in shapeless for length in range(1, len(place) + 1))


def _may_be_what_is_missing(place: tuple[str, ...]) -> bool:
    """True if an unknown field here may be the missing one that a problem is about (``volumess:``)."""
    return place[:1] == ("spec",) and (len(place) == 2 or "volumes" in place[:2])


def _is_derived(part: Origin, path: str, wrong: set[str]) -> bool:
    """True if a problem is about a request that was derived from a limit, which is ``wrong`` itself."""
    above, requests, resource = path.rpartition(".requests[")
    return bool(requests) and f"{above}.limits[{resource}" in wrong and not part.says(path)


def _second(part: Origin, path: str, value: str, same: str, remedy: str) -> Fault:
    problem = f"Duplicate value: {shown(value)}: an earlier one in this file has the same {same}"
    return part.fault(path, problem, remedy)
