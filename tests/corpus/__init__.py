"""Pods, right and wrong, about which the agent and the real API server must agree.

    written.yaml   by hand, beside the rules of core/rulekit.py     right.yaml     right ones, which
    cases()        all of them, by name                             mutated.py     changes by seeds
    verdicts.py    what was said of each, here and there            explained.py   where that is not the same, and why

``tests/recorded/verdicts.json`` is what an API server said, so that ``make test`` needs none; a live test asks again.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from core.rulekit import CONTAINER, POD, SPEC, VOLUME
from corpus.mutated import RIGHT, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = range(400)
NAME_CHARS_MAX = 110
_HERE = Path(__file__).parent


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Every pod of the corpus, by a name that tells what is special about it and changes with the pod."""
    return dict(_named())


def _named() -> Iterator[tuple[str, dict[str, Any]]]:
    for pod in RIGHT:
        yield f"right {pod['metadata']['name']} {_digest(pod)}", pod
    written = yaml.safe_load((_HERE / "written.yaml").read_text())
    for section, rules in (("pod", POD), ("spec", SPEC), ("container", CONTAINER), ("volume", VOLUME)):
        for said in (*(yaml.safe_load(rule) for rule, _ in rules), *written[section]):
            yield from ((_name(kind, said), make(said)) for kind, make in _MAKERS[section].items())
    for kind, said, pod in _long():
        yield f"long {kind} {said}", pod
    for seed in SEEDS:
        pod = mutated(seed)
        yield f"mutated {seed} {_digest(pod)}", pod


def _name(kind: str, said: dict[str, Any]) -> str:
    text = json.dumps(said, ensure_ascii=False)
    return f"{kind} {text}" if len(text) <= NAME_CHARS_MAX else f"{kind} {text[:NAME_CHARS_MAX]}… {_digest(said)}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _of_pod(said: dict[str, Any]) -> dict[str, Any]:
    # No token: the volume the API server would add is nobody's mistake.
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "a"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec} | said


def _of_spec(said: dict[str, Any]) -> dict[str, Any]:
    pod = _of_pod({})
    pod["spec"] = pod["spec"] | {"volumes": [{"name": "dir"}]} | said
    return pod


def _of_container(said: dict[str, Any]) -> dict[str, Any]:
    return _of_spec({"containers": [{"name": "tested", "image": "a"} | said]})


def _of_sidecar(said: dict[str, Any]) -> dict[str, Any]:
    return _of_spec({"initContainers": [{"name": "tested", "image": "a", "restartPolicy": "Always"} | said]})


def _of_volume(said: dict[str, Any]) -> dict[str, Any]:
    return _of_spec({"volumes": [{"name": "dir"}, {"name": "tested"} | said]})


_MAKERS = {
    "pod": {"pod": _of_pod},
    "spec": {"spec": _of_spec},
    "container": {"container": _of_container, "sidecar": _of_sidecar},
    "volume": {"volume": _of_volume},
}


def _long() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """What is too long to be written: a kind of length, the length, and the pod."""
    for length in (253, 254):
        yield "name", length, _of_pod({"metadata": {"name": "a" * length}})
    for length in (63, 64):
        yield "label", length, _of_pod({"metadata": {"name": "a", "labels": {"a" * length: "b" * length}}})
        yield "container's name", length, _of_container({"name": "a" * length})
        yield "volume's name", length, _of_volume({"name": "a" * length})
        yield "hostname", length, _of_spec({"hostname": "a" * length})
    for length in (64, 65):
        yield "hostnameOverride", length, _of_spec({"hostnameOverride": "a" * length})
    for length in (262143, 262144):
        yield "annotation", length, _of_pod({"metadata": {"name": "a", "annotations": {"a": "b" * length}}})
    for count in (10, 11):
        search = ".".join(["a" * 63, "b" * 63, "c" * 63])
        yield "searches", count, _of_spec({"dnsConfig": {"searches": [search] * count}})
    for count in (32, 33):
        yield "short searches", count, _of_spec({"dnsConfig": {"searches": ["a"] * count}})
    for count in (3, 4):
        yield "nameservers", count, _of_spec({"dnsConfig": {"nameservers": ["1.1.1.1"] * count}})
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
    for count in (20, 21):
        yield "rules", count, _of_container({"restartPolicy": "Never", "restartPolicyRules": [rule] * count})
    for count in (255, 256):
        codes = {"operator": "", "values": [1] * count}
        many = {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": codes}]}
        yield "exit codes", count, _of_container(many)
    for length in (4095, 4096):
        profile = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * length}}
        yield "profile", length, _of_container({"securityContext": profile})
