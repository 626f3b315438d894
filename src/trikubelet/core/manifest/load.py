"""From a manifest's text to static pods: the one function sources and ``trikubelet validate`` share.

A text may hold several documents, and a document a list of pods. Each pod stands or falls alone: a fault leaves out
its own pod and nothing else. What a faulty file means for the pods it gave before is decided in ``core.file_source``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trikubelet.core.document import parse_documents
from trikubelet.core.document.record import place_of
from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.manifest.origin import Origin
from trikubelet.core.manifest.problem import NOT_FOUND, forbidden
from trikubelet.core.manifest.static import api_references, static_pod
from trikubelet.core.manifest.validation import pod_problems
from trikubelet.core.names import full_name
from trikubelet.core.structure import examine
from trikubelet.model import k8s
from trikubelet.model.faults import Fault, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.document import Document
    from trikubelet.core.manifest.problem import Problem, Problems
    from trikubelet.model.k8s import Pod

_LISTS = ("PodList", "List")
_KINDS = ("Pod", *_LISTS)
_NO_API = "it lives in an API server, and a pod from a manifest must start without one"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The good pods of a text, in order, everything wrong with the others, and by full name (``core.names``) where
    each good pod stands."""

    pods: tuple[Pod, ...]
    faults: tuple[Fault, ...]
    origins: Mapping[str, Origin]


def load_manifest(text: str | bytes, source: str, node_name: str, seen: str) -> Loaded:
    """Everything in a manifest.

    ``source`` is the file's path or the URL; it is part of the pods' identity and names them in faults. ``node_name``
    is this node's; ``seen`` is now, in RFC 3339, kept in an annotation and in nothing else. Raises nothing.
    """
    documents, faults = parse_documents(text, source)
    if not text.strip():
        # Not one that is all comments: somebody wrote that, and means it.
        faults = [Fault(source, None, "", "the file is empty", "remove it if its pods shall go")]
    pods: dict[str, Pod] = {}
    origins: dict[str, Origin] = {}
    for document in documents:
        for part in _parts(document, faults):
            pod, found = _pod(part, node_name, seen)
            if pod is not None and full_name(pod) in pods:
                found = [_second(part)]
            elif pod is not None and not part.is_doubted:
                pods[full_name(pod)] = pod
                origins[full_name(pod)] = part
            faults += found
    return Loaded(tuple(pods.values()), tuple(sorted(faults, key=lambda fault: fault.line or 0)), origins)


def _parts(document: Document, faults: list[Fault]) -> Iterator[Origin]:
    """Where the document's pods are. What keeps it from having any is added to ``faults``."""
    whole = Origin(document, document.value)
    wrong = _kind_fault(whole, _KINDS)
    if wrong is not None:
        faults.append(wrong)
        return
    value = document.value
    assert isinstance(value, dict)  # or it would have no kind
    if value["kind"] == "Pod":
        yield whole
        return
    items = value.get("items")
    rest = {key: item for key, item in value.items() if key != "items"}
    faults += examine(replace(document, value=rest | {"items": []}), k8s.PodList).faults
    if not isinstance(items, list):
        faults.append(whole.fault("items", "Required value: must be a list of pods"))
        return
    # Items of a typed list need not repeat what they are.
    told: dict[str, object] = {"apiVersion": "v1", "kind": "Pod"} if value["kind"] == "PodList" else {}
    for n, item in enumerate(items):
        yield Origin(document, told | item if isinstance(item, dict) else item, f"items[{n}]")


def _kind_fault(part: Origin, kinds: tuple[str, ...]) -> Fault | None:
    """What keeps a value from being a pod or a list of them, judging by what it says it is."""
    if not isinstance(part.value, dict):
        return part.fault("", f"{shown(part.value)} where a Pod should stand", 'begin with "apiVersion: v1"')
    kind, version = part.value.get("kind"), part.value.get("apiVersion")
    if kind is None:
        return part.fault("kind", "Required value", 'write "kind: Pod"')
    if kind not in kinds:
        remedy = nearest(str(kind), kinds) or "only pods can be run from a manifest; take it out"
        return part.fault("kind", f"Unsupported value: {shown(kind)}: must be {' or '.join(kinds)}", remedy)
    if version != "v1":
        problem = "Required value" if version is None else f"Unsupported value: {shown(version)}: must be v1"
        return part.fault("apiVersion", problem, 'write "apiVersion: v1"')
    return None


def _pod(part: Origin, node_name: str, seen: str) -> tuple[Pod | None, list[Fault]]:
    """The pod of a part, or None and everything wrong with it."""
    wrong = _kind_fault(part, ("Pod",))
    if wrong is not None:
        return None, [wrong]
    examined = examine(replace(part.document, value=part.value, lines={}), k8s.Pod)
    faults = [part.fault(fault.path, fault.problem, fault.remedy) for fault in examined.faults]
    shapeless = {place_of(fault.path) for fault in examined.faults}
    faults += [
        part.fault(problem.path, problem.text, problem.remedy)
        for problem in _problems(examined.value, node_name)
        if not _is_echo(problem, shapeless) and not _is_derived(part, problem)
    ]
    if faults:
        return None, faults
    return with_defaults(static_pod(examined.value, part.document.source, node_name, seen)), []


def _problems(pod: Pod, node_name: str) -> Problems:
    yield from pod_problems(with_defaults(pod), node_name)
    for path in api_references(pod):
        yield forbidden(path, _NO_API)


def _is_echo(problem: Problem, shapeless: set[tuple[str, ...]]) -> bool:
    """Whether a problem only repeats that something, or what it stands in, has no shape; or misses what may be there
    and could not be read (``volumess:``)."""
    place = place_of(problem.path)
    if any(place[:length] in shapeless for length in range(1, len(place) + 1)):
        return True
    may_be_there = any(place[:1] == ("spec",) and (len(place) == 2 or "volumes" in place[:2]) for place in shapeless)
    return problem.text.startswith(NOT_FOUND) and may_be_there


def _is_derived(part: Origin, problem: Problem) -> bool:
    """Whether a request nobody wrote is complained about: it was derived from a limit, which has the same problem."""
    return "requests" in place_of(problem.path)[-2:-1] and not part.says(problem.path)


def _second(part: Origin) -> Fault:
    problem = f"Duplicate value: {shown(part.name)}: an earlier pod of this file has the same name and namespace"
    return part.fault("metadata.name", problem, "rename one of the two")
