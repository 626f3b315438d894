"""A sandbox's configuration for this node, with the parts that need I/O: its runtime handler, user ids and groups.

An existing sandbox keeps its choices: its user ids are the noted ones, and its handler is left out, because it has no
further use. ``pods.sandboxes`` calls this; ``core.containers`` decides the content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.containers import sandbox_config
from trikubelet.core.containers.dns import dns_plan
from trikubelet.core.containers.security import in_groups
from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.references import References
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.ports import Events, Volumes


class SandboxConfigs:
    """Builds sandboxes' configurations for this node. Owns no state."""

    def __init__(
        self, volumes: Volumes, references: References, user_ids: UserIds, events: Events, facts: NodeFacts
    ) -> None:
        self._volumes = volumes
        self._references = references
        self._user_ids = user_ids
        self._events = events
        self._facts = facts

    async def sandbox(self, pod: Pod, attempt: int, *, is_new: bool) -> SandboxConfig:
        """Return the sandbox's configuration; for an existing one (not ``is_new``) without its runtime handler. Raises
        SandboxConfigError."""
        pod = in_groups(pod, self._volumes.groups(pod.metadata.uid))
        for warning in dns_plan(pod, self._facts).warnings:
            self._events.record(object_ref(pod), "Warning", warning.reason, warning.message)
        if not is_new:
            return sandbox_config(pod, attempt, self._facts, self._user_ids.of_standing(pod))
        handler = await self._references.runtime_handler(pod)
        config = sandbox_config(pod, attempt, self._facts, self._user_ids.of_new(pod, handler))
        return replace(config, runtime_handler=handler)
