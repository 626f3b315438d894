"""The facts that the containers of a pod share when they are started in one sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import SandboxConfig


class StartContext(Frozen):
    """The pod, its observation from before the sync, its existing sandbox with its configuration, and its volumes:
    paths on the host, and ids of images, by the volumes' names."""

    pod: Pod
    observed: PodObservation
    config: SandboxConfig
    sandbox: SandboxStatus
    volumes: Mapping[str, str]
