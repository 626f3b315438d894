"""The memory API server's store: every object, one version for each write, and the newest writes to look back on.

As in etcd there is one counter for all objects; an object's resource version is the counter's value at its last write.
Trees are never changed once they are stored, so an old version of the store is made by undoing the writes after it, as
far as they are kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.model.api_errors import Expired

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.api import Resource
    from trikubelet.testing.apiserver.patches import Tree

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one object. ``before`` is None for a new one. ``after`` is None when it was removed; ``last`` is
    then its last state, with the removal's version."""

    version: int
    resource: Resource
    key: Key
    before: Tree | None
    after: Tree | None
    last: Tree


class Store:
    """Owns every object of the server and the newest ``writes_kept_max`` writes. Calls each of ``watchers`` with every
    write, after it."""

    def __init__(self, writes_kept_max: int = 1000) -> None:
        self.version = 100  # a real server has written objects of its own before any client
        self.watchers: list[Callable[[Write], None]] = []
        self._objects: dict[Resource, dict[Key, Tree]] = {}
        self._writes: deque[Write] = deque(maxlen=writes_kept_max)
        self._forgotten = self.version

    def get(self, resource: Resource, key: Key) -> Tree | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get(key)

    def put(self, resource: Resource, key: Key, tree: Tree) -> Tree:
        """Store an object; what is stored."""
        before = self.get(resource, key)
        after = self._stamped(tree)
        self._objects.setdefault(resource, {})[key] = after
        self._remember(Write(self.version, resource, key, before, after, after))
        return after

    def remove(self, resource: Resource, key: Key) -> None:
        """Remove an existing object."""
        before = self._objects[resource].pop(key)
        last = self._stamped(before)
        self._remember(Write(self.version, resource, key, before, None, last))

    def at(self, resource: Resource, version: int) -> dict[Key, Tree]:
        """The objects as they were at a version, in the order of their keys. Raises Expired when that is compacted, or
        in the future."""
        objects = dict(self._objects.get(resource, {}))
        for write in reversed(self.since(version)):
            if write.resource != resource:
                continue
            if write.before is None:
                del objects[write.key]
            else:
                objects[write.key] = write.before
        return dict(sorted(objects.items()))

    def since(self, version: int) -> list[Write]:
        """The writes after a version, oldest first. Raises Expired as ``at`` does."""
        if version < self._forgotten:
            raise Expired(f"too old resource version: {version} ({self._forgotten})", "Expired")
        if version > self.version:
            raise Expired(f"Too large resource version: {version}, current: {self.version}", "Timeout")
        return [write for write in self._writes if write.version > version]

    def forget(self) -> None:
        """Forget all writes, as a server does that compacts or restarts. The objects stay."""
        self._writes.clear()
        self._forgotten = self.version

    def _stamped(self, tree: Tree) -> Tree:
        self.version += 1
        return tree | {"metadata": tree["metadata"] | {"resourceVersion": str(self.version)}}

    def _remember(self, write: Write) -> None:
        if len(self._writes) == self._writes.maxlen:
            self._forgotten = self._writes[0].version
        self._writes.append(write)
        for watcher in tuple(self.watchers):
            watcher(write)
