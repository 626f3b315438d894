"""Pods for tests and simulations, with everything defaulted that a parsed pod would have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence


def container(name: str = "main", command: Sequence[str] = ("run",), **fields: object) -> k8s.Container:
    """A container of an image that every memory runtime has."""
    given = {"image": "app:1", "image_pull_policy": "IfNotPresent", **fields}
    return k8s.Container(name=name, command=tuple(command), **given)  # type: ignore[arg-type] # fields are the type's own


def pod(
    name: str,
    *containers: k8s.Container,
    uid: str = "",
    init: Sequence[k8s.Container] = (),
    policy: str = "Always",
    grace: int = 30,
    source: str = "file",
    **fields: object,
) -> k8s.Pod:
    """A pod as a file source would bring it."""
    meta = k8s.ObjectMeta(name=name, namespace="default", uid=uid or f"uid-{name}", annotations={CONFIG_SOURCE: source})
    spec = k8s.PodSpec(
        containers=containers or (container(),),
        init_containers=tuple(init),
        restart_policy=policy,
        termination_grace_period_seconds=grace,
        **fields,  # type: ignore[arg-type] # fields are the type's own
    )
    return k8s.Pod(metadata=meta, spec=spec)
