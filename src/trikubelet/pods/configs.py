"""Where a configuration's facts meet the files it points to: hosts file, termination message file, log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers import ContainerParts, container_config, sandbox_config
from trikubelet.core.containers.dns import dns_plan
from trikubelet.core.containers.hosts import hosts_file
from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.ports import Events, PodFiles


class Configs:
    """Makes configurations for this node. Owns no state."""

    def __init__(self, files: PodFiles, facts: NodeFacts, node_hosts: str, events: Events) -> None:
        self._files = files
        self._facts = facts
        self._node_hosts = node_hosts
        self._events = events

    def sandbox(self, pod: Pod, attempt: int) -> SandboxConfig:
        """The sandbox's configuration. Raises ConfigError."""
        warning = dns_plan(pod, self._facts).warning
        if warning:
            self._events.record(object_ref(pod), "Warning", "DNSConfigForming", warning)
        return sandbox_config(pod, attempt, self._facts)

    def container(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        image: ImageInfo,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
    ) -> ContainerConfig:
        """The container's configuration, with the files it points to in place. Raises ConfigError."""
        uid = pod.metadata.uid
        content = hosts_file(pod, sandbox.ips, self._facts, self._node_hosts)
        parts = ContainerParts(
            attempt=attempt,
            image=image,
            ips=sandbox.ips,
            volume_paths=volumes,
            hosts_path=self._files.write_hosts(uid, content),
            termination_log_path=self._files.termination_log(uid, container.name, attempt),
        )
        made = container_config(pod, container, parts, self._facts)
        self._files.make_log_directory(self.log_directory(pod), container.name)
        return made

    def make_log_directory(self, config: SandboxConfig) -> None:
        """The pod's log directory, which the runtime expects to find."""
        self._files.make_log_directory(config.log_directory, "")

    def log_directory(self, pod: Pod) -> str:
        """The pod's log directory."""
        return sandbox_config(pod, 0, self._facts).log_directory
