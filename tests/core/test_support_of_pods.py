"""The registry of a pod's fields says what validation does: what is forbidden cannot stand there as if it worked.

Every field is set in turn, each in a pod that makes no sense but for it, to a value of its type. Of all that validation
has against such a pod only one thing counts: that the field, or what it stands in, is forbidden.
"""

from __future__ import annotations

import json
import re
import types
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from trikubelet.core.document import parse_documents
from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.manifest.validation import pod_problems
from trikubelet.core.structure import examine
from trikubelet.core.support.field import State
from trikubelet.core.support.pods import PODS
from trikubelet.model import k8s


def leaves(type_: type[msgspec.Struct], where: str = "") -> list[tuple[str, Any]]:
    """Every field of a pod's spec without fields of its own: its path, as the registry has it, and its type."""
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(type_):
        path, inner = f"{where}{field.encode_name}", given(field.type)
        if get_origin(inner) is tuple and is_record(get_args(inner)[0]):
            found += leaves(get_args(inner)[0], f"{path}[].")
        elif is_record(inner):
            found += leaves(inner, f"{path}.")
        else:
            found.append((path, inner))
    return found


def given(type_: Any) -> Any:
    """A field's type where it is set."""
    if get_origin(type_) in (Union, types.UnionType):
        return next(one for one in get_args(type_) if one is not type(None))
    return type_


def is_record(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def value(type_: Any) -> Any:
    """Something that can be read as of that type, and is not its default."""
    if type_ is bool:
        return True
    if type_ is int:
        return 2
    if get_origin(type_) is tuple:
        return [value(given(get_args(type_)[0]))]
    return {"a": "1"} if get_origin(type_) is dict else "1"


def made(path: str, leaf: Any) -> dict[str, Any]:
    """A pod with this field and what it stands in."""
    built = leaf
    for part in reversed(path.split(".")):
        name = part.removesuffix("[]")
        built = {name: [built] if part != name else built}
    spec = {"containers": [{"name": "c", "image": "b"}]} | built
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def forbidden(path: str, leaf: Any) -> list[str]:
    """The problems that forbid the field or what it stands in."""
    ((document,), _) = parse_documents(json.dumps(made(path, leaf)), "made")
    read = examine(document, k8s.Pod).value
    if read is None:
        return []
    said = [one for one in pod_problems(with_defaults(read), "n") if one.text.startswith("Forbidden")]
    above = f"spec.{path}"
    return [
        f"{one.path}: {one.text}"
        for one in said
        if f"{above}.".startswith(re.sub(r"\[[^]]*\]", "[]", one.path).removesuffix("[]") + ".")
        or above.startswith(re.sub(r"\[[^]]*\]", "[]", one.path) + "[]")
    ]


FIELDS = leaves(k8s.PodSpec)
LATE = "ephemeralContainers[]"  # comes to a pod that exists, and no pod is made with one


def test_what_validation_forbids_does_not_stand_there_as_what_works() -> None:
    wrong = {}
    for path, type_ in FIELDS:
        support = PODS.support_of(path)
        assert support is not None, path
        works = support.state is State.WORKS and not path.startswith(LATE)
        if works and (told := forbidden(path, value(type_))):
            wrong[path] = told
    assert {} == wrong


@pytest.mark.parametrize("path", ["containers[].readinessProbe.terminationGracePeriodSeconds"])
def test_what_stands_there_as_refused_is_forbidden(path: str) -> None:
    assert forbidden(path, value(dict(FIELDS)[path]))


@pytest.mark.parametrize(
    ("state", "path"),
    [
        (State.LIMITED, "initContainers[].livenessProbe.httpGet.path"),
        (State.LIMITED, "initContainers[].lifecycle.preStop.exec.command"),
        (State.WORKS, "containers[].livenessProbe.httpGet.path"),
        (State.LIMITED, "containers[].startupProbe.successThreshold"),
        (State.LIMITED, "containers[].livenessProbe.successThreshold"),
        (State.WORKS, "containers[].readinessProbe.successThreshold"),
        (State.REFUSED, "initContainers[].readinessProbe.terminationGracePeriodSeconds"),
        (State.LIMITED, "volumes[].emptyDir.sizeLimit"),
        (State.WORKS, "volumes[].emptyDir.medium"),
    ],
)
def test_a_limit_is_said_of_what_it_holds_for_and_of_nothing_else(state: State, path: str) -> None:
    support = PODS.support_of(path)

    assert support is not None
    assert state is support.state
