"""Annotations with a meaning to Kubernetes itself: those that preceded fields.

All others are their authors'. AppArmor's still count (``core.containers.profiles`` reads them); seccomp's no longer
count and only their form is checked. Neither may contradict its field. (upstream: ValidatePodSpecificAnnotations, and
the two AnnotationsAndFieldsMatch of pod creation)
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from trikubelet.core.containers.profiles import (
    APPARMOR_ANNOTATION,
    LOCALHOST,
    RUNTIME_DEFAULT,
    SECCOMP_ANNOTATION,
    SECCOMP_POD_ANNOTATION,
    UNCONFINED,
)
from trikubelet.core.manifest.problem import forbidden, invalid
from trikubelet.core.manifest.validation.containers import every_container
from trikubelet.core.manifest.validation.rules import INT32_MAX
from trikubelet.core.manifest.validation.security import PROFILES
from trikubelet.core.names import CONFIG_MIRROR
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import AppArmorProfile, Pod, SeccompProfile

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_WORDS = {"runtime/default": RUNTIME_DEFAULT, "unconfined": UNCONFINED}
_OF_SECCOMP = {**_WORDS, "docker/default": RUNTIME_DEFAULT}
_LOCAL = "localhost/"
_COST = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def annotation_problems(pod: Pod) -> Problems:
    """Yield the problems of a pod's annotations that have a meaning."""
    held = pod.metadata.annotations
    if CONFIG_MIRROR in held and not pod.spec.node_name:
        yield invalid(_path(CONFIG_MIRROR), held[CONFIG_MIRROR], "the pod is not a mirror pod: it has no spec.nodeName")
    if held.get(_TOLERATIONS) and not _is_json_list(held[_TOLERATIONS]):
        yield invalid(_path(_TOLERATIONS), held[_TOLERATIONS], "must be a list of tolerations in JSON")
    if (cost := held.get(_DELETION_COST)) is not None and not _is_cost(cost):
        yield invalid(_path(_DELETION_COST), cost, "must be a whole number of 32 bits, without plus and leading zeros")
    yield from _seccomp(pod)
    yield from _apparmor(pod)


def _path(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list | None)
    except (ValueError, RecursionError):
        return False


def _is_cost(text: str) -> bool:
    return (
        len(text) <= len(str(-INT32_MAX)) and bool(_COST.fullmatch(text)) and -INT32_MAX - 1 <= int(text) <= INT32_MAX
    )


def _seccomp(pod: Pod) -> Problems:
    held = pod.metadata.annotations
    for key, value in held.items():
        if key == SECCOMP_POD_ANNOTATION or key.startswith(SECCOMP_ANNOTATION):
            name = value.removeprefix(_LOCAL)
            if value not in _OF_SECCOMP and (name == value or names.path_in_volume_problem(name)):
                yield invalid(_path(key), value, "must be runtime/default, unconfined or localhost/PATH")
    whole = pod.spec.security_context
    if whole is not None and SECCOMP_POD_ANNOTATION in held:
        field = "spec.securityContext.seccompProfile"
        yield from _contradiction(field, held[SECCOMP_POD_ANNOTATION], whole.seccomp_profile)
    for path, container in every_container(pod.spec):
        own, said = container.security_context, held.get(f"{SECCOMP_ANNOTATION}{container.name}")
        if own is not None and said is not None:
            yield from _contradiction(f"{path}.securityContext.seccompProfile", said, own.seccomp_profile)


def _apparmor(pod: Pod) -> Problems:
    held = pod.metadata.annotations
    containers = {container.name for _, container in every_container(pod.spec)}
    for key, value in held.items():
        name = key.removeprefix(APPARMOR_ANNOTATION)
        if name == key:
            continue
        if name not in containers:
            yield invalid(_path(key), name, "must be a container of this pod")
        if value and value not in _WORDS and not value.startswith(_LOCAL):
            yield invalid(_path(key), value, "must be runtime/default, unconfined or localhost/NAME")
    for path, container in every_container(pod.spec):
        own, said = container.security_context, held.get(f"{APPARMOR_ANNOTATION}{container.name}")
        if own is not None and said:
            yield from _contradiction(f"{path}.securityContext.appArmorProfile", said, own.app_armor_profile)


def _contradiction(path: str, said: str, profile: SeccompProfile | AppArmorProfile | None) -> Problems:
    """Yield a problem if an annotation contradicts its field."""
    if profile is None:
        return
    if profile.type == LOCALHOST and said.startswith(_LOCAL):
        if said.removeprefix(_LOCAL) != profile.localhost_profile:
            yield forbidden(f"{path}.localhostProfile", f"an annotation of the pod says {said}")
    elif profile.type in PROFILES and _OF_SECCOMP.get(said) != profile.type:
        yield forbidden(f"{path}.type", f"an annotation of the pod says {said}")
