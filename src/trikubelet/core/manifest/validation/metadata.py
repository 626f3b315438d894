"""An object's name, namespace, UID, times, labels, annotations, owners and finalizers; a pod's name has more rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import invalid, named, required, too_long
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.model import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import ObjectMeta, OwnerReference

ANNOTATION_BYTES_MAX = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def metadata_problems(meta: ObjectMeta, node_name: str) -> Problems:
    """Yield the problems of a pod's metadata. Its name must still be valid with the node's name appended."""
    yield from _name_problems(meta, node_name)
    yield from _other_problems(meta)


def object_metadata_problems(meta: ObjectMeta) -> Problems:
    """Yield the problems of the metadata of an object that is no pod: its name stays as it is."""
    yield from named("metadata.name", meta.name, names.subdomain_problem(meta.name))
    yield from _other_problems(meta)


def _other_problems(meta: ObjectMeta) -> Problems:
    if meta.namespace:
        yield from named("metadata.namespace", meta.namespace, names.label_problem(meta.namespace))
    if meta.uid:
        yield from named("metadata.uid", meta.uid, names.uid_problem(meta.uid))
    for field, time in (
        ("creationTimestamp", meta.creation_timestamp),
        ("deletionTimestamp", meta.deletion_timestamp),
    ):
        yield from _time_problems(f"metadata.{field}", time)
    yield from label_problems("metadata.labels", meta.labels)
    yield from _annotation_problems(meta.annotations)
    yield from _owner_problems(meta.owner_references)
    for n, finalizer in enumerate(meta.finalizers):
        yield from _finalizer_problems(f"metadata.finalizers[{n}]", finalizer)


def _name_problems(meta: ObjectMeta, node_name: str) -> Problems:
    path, name = "metadata.name", meta.name
    if not name:
        detail = "generateName is for API servers; a pod in a file needs a name" if meta.generate_name else ""
        yield required(path, detail)
    elif problem := names.subdomain_problem(name):
        yield invalid(path, name, problem)
    elif len(name) + 1 + len(node_name) > names.SUBDOMAIN_CHARS_MAX:
        room = names.SUBDOMAIN_CHARS_MAX - 1 - len(node_name)
        yield invalid(path, name, f'must be no more than {room} characters, because "-{node_name}" is added to it')


def label_problems(path: str, labels: Mapping[str, str]) -> Problems:
    """Yield the problems of keys and values of labels, or of a selector made of them."""
    for key, value in labels.items():
        if problem := names.qualified_name_problem(key):
            yield invalid(path, key, f"a label's key {problem}")
        if problem := names.label_value_problem(value):
            yield invalid(f"{path}[{key}]", value, problem)


def _annotation_problems(annotations: Mapping[str, str]) -> Problems:
    path = "metadata.annotations"
    for key in annotations:
        if problem := names.qualified_name_problem(key.lower()):
            yield invalid(path, key, f"an annotation's key {problem}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATION_BYTES_MAX:
        yield too_long(path, ANNOTATION_BYTES_MAX, "bytes together")


def _time_problems(path: str, time: str) -> Problems:
    try:
        if time:
            parse_rfc3339(time)
    except ValueError as wrong:
        yield invalid(path, time, str(wrong))


def _owner_problems(owners: Iterable[OwnerReference]) -> Problems:
    """Yield the problems of owners: each must be complete, and at most one is the controller."""
    controller = ""
    for n, owner in enumerate(owners):
        here = f"metadata.ownerReferences[{n}]"
        for field, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                yield required(f"{here}.{field}")
        if owner.controller and controller:
            yield invalid(f"{here}.controller", value=True, detail=f"{controller} is the controller already")
        elif owner.controller:
            controller = f"{owner.kind} {owner.name}"


def _finalizer_problems(path: str, name: str) -> Problems:
    if problem := names.qualified_name_problem(name):
        yield invalid(path, name, f"a finalizer's name {problem}")
    elif "/" not in name and name not in _STANDARD_FINALIZERS:
        yield invalid(path, name, "must have a domain, as in example.com/name, or be one of Kubernetes' own")
