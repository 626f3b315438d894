"""Where a configuration's facts meet the files it points to: hosts file, termination message file, log directory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.containers import ContainerParts, container_config, sandbox_config
from trikubelet.core.containers.dns import dns_plan
from trikubelet.core.containers.host_names import hosts_file
from trikubelet.core.containers.sandbox import log_directory
from trikubelet.core.containers.security import in_groups
from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.pods.references import References
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.ports import ContainerFiles, Events, RuntimeHealth, Volumes


class Configs:
    """Makes configurations for this node. Owns no state."""

    def __init__(
        self,
        files: ContainerFiles,
        facts: NodeFacts,
        node_hosts: str,
        references: References,
        user_ids: UserIds,
        events: Events,
        health: RuntimeHealth,
        volumes: Volumes,
    ) -> None:
        self._files = files
        self._facts = facts
        self._node_hosts = node_hosts
        self._references = references
        self._user_ids = user_ids
        self._events = events
        self._health = health
        self._volumes = volumes

    async def sandbox(self, pod: Pod, attempt: int, *, is_new: bool) -> SandboxConfig:
        """The sandbox's configuration; of one that stands (not ``is_new``) without its runtime handler, which nobody
        asks for then. Raises SandboxConfigError."""
        pod = in_groups(pod, self._volumes.groups(pod.metadata.uid))
        warning = dns_plan(pod, self._facts).warning
        if warning:
            self._events.record(object_ref(pod), "Warning", "DNSConfigForming", warning)
        if not is_new:
            return sandbox_config(pod, attempt, self._facts, self._user_ids.of_standing(pod))
        handler = await self._references.runtime_handler(pod)
        config = sandbox_config(pod, attempt, self._facts, self._user_ids.of_new(pod, handler))
        return replace(config, runtime_handler=handler)

    async def container(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        image: ImageInfo,
        sandbox: SandboxStatus,
        config: SandboxConfig,
        volumes: Mapping[str, str],
        target_id: str,
    ) -> ContainerConfig:
        """The container's configuration, with the files it points to in place; ``config`` is its sandbox's, and
        ``target_id`` the id of the container whose processes an ephemeral one shall see, or empty. Raises ConfigError
        and OSError."""
        sources = await self._references.follow(pod, container, volumes)
        uid = pod.metadata.uid
        content = hosts_file(pod, sandbox.ips, self._facts, self._node_hosts)
        parts = ContainerParts(
            attempt=attempt,
            image=image,
            ips=sandbox.ips,
            volume_paths=volumes,
            sources=sources,
            hosts_path=self._files.write_hosts(uid, content),
            termination_log_path=self._files.termination_log(uid, container.name, attempt),
            users=config.security.namespaces.users,
            target_id=target_id,
        )
        able = self._health.reads_only_below(sandbox.runtime_handler)
        pod = in_groups(pod, self._volumes.groups(uid))
        made = container_config(pod, container, parts, replace(self._facts, recursive_read_only=able))
        self._files.make_log_directory(self.log_directory(pod), container.name)
        return made

    def make_log_directory(self, config: SandboxConfig) -> None:
        """The pod's log directory, which the runtime expects to find."""
        self._files.make_log_directory(config.log_directory, "")

    def log_directory(self, pod: Pod) -> str:
        """The pod's log directory."""
        return log_directory(pod, self._facts)
