"""What a user reads when an object that a pod refers to is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import is_static

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod


def missing(pod: Pod, kind: str, name: str) -> str:
    """That there is none, in the API's words; to the author of a manifest also where it was looked for."""
    told = f'{kind} "{name}" not found'
    return f'{told} among the manifests, in namespace "{pod.metadata.namespace}"' if is_static(pod) else told
