"""What the containers of a pod that are started in one sync have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import SandboxConfig


@dataclass(frozen=True, slots=True)
class StartContext:
    """The pod, what was observed of it before the sync, its sandbox, which stands, with the configuration it has,
    and where its volumes are: paths on the host, and ids of images, by the volumes' names."""

    pod: Pod
    observed: PodObservation
    config: SandboxConfig
    sandbox: SandboxStatus
    volumes: Mapping[str, str]
