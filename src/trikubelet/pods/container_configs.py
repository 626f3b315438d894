"""Joins a container's configuration with its files: hosts file, termination message file, log directory.

``pods.container_creator`` calls this right before it creates a container; ``core.containers`` decides the content. The
sub-paths of its mounts are resolved last, because they are in volumes that containers may write to meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from trikubelet.core.containers import ContainerParts, container_config
from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.host_names import hosts_file
from trikubelet.core.containers.sandbox import log_directory
from trikubelet.core.containers.security import in_groups
from trikubelet.kit.disk import disk_in_time, takes_no_writes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import ContainerConfig
    from trikubelet.pods.references import References
    from trikubelet.pods.start_context import StartContext
    from trikubelet.ports import ContainerFiles, HostIps, RuntimeHealth, Volumes

T = TypeVar("T")
log = logging.getLogger(__name__)


class ContainerConfigs:
    """Builds containers' configurations for this node. Owns no state."""

    def __init__(
        self,
        *,
        files: ContainerFiles,
        volumes: Volumes,
        references: References,
        health: RuntimeHealth,
        facts: NodeFacts,
        host_ips: HostIps,
        node_hosts: str,
        bounds: Bounds,
    ) -> None:
        """``node_hosts``: the node's own hosts file, for pods on its network."""
        self._files = files
        self._volumes = volumes
        self._references = references
        self._health = health
        self._facts = facts
        self._host_ips = host_ips
        self._node_hosts = node_hosts
        self._bounds = bounds

    async def container(
        self, context: StartContext, container: Container, attempt: int, image: ImageInfo, target_id: str
    ) -> ContainerConfig:
        """Return the container's configuration, with its files in place; ``target_id``: the id of the container whose
        processes an ephemeral one shares, or "". Raises ConfigError and OSError."""
        pod, sandbox, volumes = context.pod, context.sandbox, context.volumes
        sources = await self._references.follow(pod, container, volumes)
        uid = pod.metadata.uid
        content = hosts_file(pod, sandbox.ips, self._facts, self._node_hosts)
        hosts_path, termination_log_path = await self._on_disk(
            partial(self._make_files, uid, container, attempt, content)
        )
        parts = ContainerParts(
            attempt=attempt,
            image=image,
            ips=sandbox.ips,
            volume_paths=volumes,
            sources=sources,
            hosts_path=hosts_path,
            termination_log_path=termination_log_path,
            users=context.config.security.namespaces.users,
            target_id=target_id,
        )
        able = self._health.supports_recursive_read_only(sandbox.runtime_handler)
        pod = in_groups(pod, self._volumes.groups(uid))
        facts = replace(self._facts, recursive_read_only=able, host_ips=self._host_ips())
        made = container_config(pod, container, parts, facts)
        directory = log_directory(pod, self._facts)
        await self._on_disk(partial(self._files.make_log_directory, directory, container.name))
        return made

    async def with_sub_paths(self, pod: Pod, container: Container, made: ContainerConfig) -> ContainerConfig:
        """Return the configuration with host paths in place of the sub-paths of its volumes, which are checked to meet
        the pod's spec. Raises PodSyncError."""
        seconds = self._bounds.runtime_call_seconds_max
        try:
            with trio.fail_after(seconds):
                return replace(made, mounts=await self._volumes.resolve(pod, container, made.mounts))
        except trio.TooSlowError as error:
            message = f"its volumes were not ready within {seconds:.0f}s"
            raise ConfigError(message, container.name) from error

    async def logged_attempts(self, pod: Pod, container: Container) -> tuple[int, ...]:
        """Return the container's attempts that left some of their logs, newest first. Raises OSError if the disk does
        not answer."""
        directory = log_directory(pod, self._facts)
        return tuple(await self._on_disk(partial(self._files.log_attempts, directory, container.name)))

    async def _make_files(self, uid: str, container: Container, attempt: int, hosts: str) -> tuple[str, str]:
        """Return the host paths of the hosts file and the termination message file. The second is "" if the disk is
        full: then the container has none."""
        hosts_path = await self._files.write_hosts(uid, hosts)
        try:
            return hosts_path, await self._files.termination_log(uid, container.name, attempt)
        except OSError as error:
            if not takes_no_writes(error):
                raise
            # Like upstream: a container without a termination message is better than none.
            said = "Container %s of pod %s starts without a file for its termination message: %s"
            log.warning(said, container.name, uid, error)
            return hosts_path, ""

    async def _on_disk(self, call: Callable[[], Awaitable[T]]) -> T:
        return await disk_in_time(self._bounds.runtime_call_seconds_max, call)
