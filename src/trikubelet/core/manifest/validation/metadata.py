"""A pod's name, namespace, labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import invalid, named, required
from trikubelet.model import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import ObjectMeta

ANNOTATION_BYTES_MAX = 256 * 1024


def metadata_problems(meta: ObjectMeta, node_name: str) -> Problems:
    """Everything wrong with a pod's metadata. With the name of its node behind it, its name must still be one."""
    yield from _name_problems(meta, node_name)
    if meta.namespace:
        yield from named("metadata.namespace", meta.namespace, names.label_problem(meta.namespace))
    yield from label_problems("metadata.labels", meta.labels)
    yield from _annotation_problems(meta.annotations)


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
    """Keys and values of labels, or of a selector made of them."""
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
        yield invalid(path, annotations, f"must be no more than {ANNOTATION_BYTES_MAX} bytes together")
