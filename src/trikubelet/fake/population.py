"""The pods of the fake runtime: their state, their changes, and the two big lists as bytes.

It is changed by the CRI servicers for an agent, by the HTTP page for a user, and by ``tick`` for churn. Every change
renews the list elements it concerns and notifies the listener. The benchmark uses a population by itself, without a
server, for undecoded replies.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final

from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.fake.lists import ElementList, chunked
from trikubelet.fake.pods import make_pods, next_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.fake.records import Container, Sandbox

    Tell = Callable[[str, pb.ContainerEventType, Sandbox, int], None]
    """The container's or sandbox's id, what happened to it, its sandbox, and when."""

EXITS: Final = ((0, "Completed"), (1, "Error"), (1, "Error"), (2, "Error"), (137, "OOMKilled"), (143, "Error"))
"""How churn ends containers; a crash is likelier than the rest."""

BEGAN_NS: Final = 1_780_000_000 * 10**9
"""The first time of a population without a clock; each reading is a second later."""

AGE_NS: Final = 3600 * 10**9
"""The initial pods were created within the hour before the start."""


class Population:
    """Owns every sandbox and container, and the lists of them. ``pods`` are the sandboxes by pod UID."""

    def __init__(
        self,
        pods: int = 0,
        containers_per_pod: int = 0,
        seed: int = 0,
        *,
        now_ns: Callable[[], int] | None = None,
        tell: Tell = lambda *_: None,
    ) -> None:
        """``pods`` ready pods with ``containers_per_pod`` running containers each, the same ones for the same seed.
        ``now_ns``: the time in nanoseconds since the epoch; virtual time, if there is none."""
        self.pods: dict[str, dict[str, Sandbox]] = {}
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.listed_sandboxes = ElementList(seed)
        self.listed_containers = ElementList(seed + 1)
        self._replies: dict[str, bytes] = {}
        self._chance = Random(seed)
        self.now_ns = now_ns or partial(next, count(BEGAN_NS, 10**9))
        self._tell: Tell = lambda *_: None  # no notifications of the initial pods
        for sandbox in make_pods(pods, containers_per_pod, self._chance, self.now_ns() - AGE_NS):
            self.add_sandbox(sandbox)
            for container in sandbox.containers.values():
                self.add_container(container)
        self._tell = tell

    # ---- the lists; each time in another order ----

    def sandbox_list(self) -> bytes:
        """An undecoded ``ListPodSandbox`` reply."""
        return b"".join(self.listed_sandboxes.pieces())

    def container_list(self) -> bytes:
        """An undecoded ``ListContainers`` reply."""
        return b"".join(self.listed_containers.pieces())

    def chunks(self, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        """Both lists as undecoded replies of ``StreamPodSandboxes`` and ``StreamContainers``, see ``chunked``."""
        sandboxes = [b"".join(pieces) for pieces in chunked(self.listed_sandboxes.pieces(), bytes_max)]
        return sandboxes, [b"".join(pieces) for pieces in chunked(self.listed_containers.pieces(), bytes_max)]

    def reply(self, one: Sandbox | Container) -> bytes:
        """Its serialised status reply."""
        reply = self._replies.get(one.id)
        if reply is None:
            reply = self._replies[one.id] = one.reply()
        return reply

    def prepare(self) -> None:
        """Serialise lists and statuses beforehand, so that requests cost little."""
        self.listed_sandboxes.prepare()
        self.listed_containers.prepare()
        for sandbox in self.sandboxes.values():
            self.reply(sandbox)
        for container in self.containers.values():
            self.reply(container)

    # ---- churn ----

    def tick(self, fraction: float) -> list[str]:
        """Change that fraction of the ready pods, at least one unless it is 0; their UIDs.

        In a pod without a dead container one ends; in a pod with one, its next attempt replaces it. So the lists keep
        their length, whatever the churn. In an agent's pods, containers end, and the agent restarts them.
        """
        able = [s for s in self.sandboxes.values() if s.ready and any(_changeable(s, c) for c in s.containers.values())]
        wanted = min(len(able), max(round(fraction * len(able)), 1)) if fraction > 0 else 0
        chosen = self._chance.sample(able, wanted)
        for sandbox in chosen:
            self._change(sandbox)
        return [sandbox.uid for sandbox in chosen]

    def _change(self, sandbox: Sandbox) -> None:
        dead = [c for c in sandbox.containers.values() if c.state == pb.CONTAINER_EXITED]
        if sandbox.ours and dead:
            before = self._chance.choice(dead)
            self.remove_container(before)
            self.add_container(next_attempt(before, self._chance, self.now_ns()))
        else:
            running = [c for c in sandbox.containers.values() if c.state == pb.CONTAINER_RUNNING]
            self.end_container(self._chance.choice(running), *self._chance.choice(EXITS))

    # ---- sandboxes ----

    def add_sandbox(self, sandbox: Sandbox) -> None:
        """Add a sandbox, ready."""
        self.sandboxes[sandbox.id] = sandbox
        self.pods.setdefault(sandbox.uid, {})[sandbox.id] = sandbox
        self._put_sandbox(sandbox)
        self._say(sandbox.id, pb.CONTAINER_CREATED_EVENT, sandbox)
        self._say(sandbox.id, pb.CONTAINER_STARTED_EVENT, sandbox)

    def end_sandbox(self, sandbox: Sandbox, code: int = 137, reason: str = "Error") -> None:
        """End the sandbox; its running containers exit with ``code``. Does nothing once it has ended."""
        if not sandbox.ready:
            return
        sandbox.ready = False
        for container in sandbox.containers.values():
            if container.state == pb.CONTAINER_RUNNING:
                self.end_container(container, code, reason)
        self._put_sandbox(sandbox)
        self._say(sandbox.id, pb.CONTAINER_STOPPED_EVENT, sandbox)

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Remove it with its containers; running ones are ended first."""
        self.end_sandbox(sandbox)
        for container in list(sandbox.containers.values()):
            self.remove_container(container)
        del self.sandboxes[sandbox.id], self.pods[sandbox.uid][sandbox.id]
        if not self.pods[sandbox.uid]:
            del self.pods[sandbox.uid]
        self.listed_sandboxes.remove(sandbox.id)
        self._replies.pop(sandbox.id, None)
        self._say(sandbox.id, pb.CONTAINER_DELETED_EVENT, sandbox)

    # ---- containers ----

    def add_container(self, container: Container) -> None:
        """Add a container, created or already running."""
        container.sandbox.containers[container.id] = container
        self.containers[container.id] = container
        self._put(container)
        self._say(container.id, pb.CONTAINER_CREATED_EVENT, container.sandbox)
        if container.state == pb.CONTAINER_RUNNING:
            self._say(container.id, pb.CONTAINER_STARTED_EVENT, container.sandbox)

    def start_container(self, container: Container) -> None:
        """Start a created container."""
        assert container.state == pb.CONTAINER_CREATED
        container.state, container.started_at = pb.CONTAINER_RUNNING, self.now_ns()
        self._put(container)
        self._say(container.id, pb.CONTAINER_STARTED_EVENT, container.sandbox)

    def end_container(self, container: Container, code: int, reason: str, message: str = "") -> None:
        """End a container that has not exited yet."""
        assert container.state != pb.CONTAINER_EXITED
        container.finished_at = self.now_ns()
        container.started_at = container.started_at or container.finished_at
        container.state, container.exit_code = pb.CONTAINER_EXITED, code
        container.reason, container.message = reason, message
        self._put(container)
        self._say(container.id, pb.CONTAINER_STOPPED_EVENT, container.sandbox)

    def hold_container(self, container: Container, resources: pb.LinuxContainerResources) -> None:
        """Change its limits; that is neither in lists nor in events."""
        container.resources = resources
        self._replies.pop(container.id, None)

    def remove_container(self, container: Container) -> None:
        """Remove it; a running one is ended first."""
        if container.state == pb.CONTAINER_RUNNING:
            self.end_container(container, 137, "Error")
        del self.containers[container.id], container.sandbox.containers[container.id]
        self.listed_containers.remove(container.id)
        self._replies.pop(container.id, None)
        self._say(container.id, pb.CONTAINER_DELETED_EVENT, container.sandbox)

    def _put(self, container: Container) -> None:
        self.listed_containers.put(container.id, container.entry())
        self._replies.pop(container.id, None)

    def _put_sandbox(self, sandbox: Sandbox) -> None:
        self.listed_sandboxes.put(sandbox.id, sandbox.entry())
        self._replies.pop(sandbox.id, None)

    def _say(self, id_: str, kind: pb.ContainerEventType, sandbox: Sandbox) -> None:
        self._tell(id_, kind, sandbox, self.now_ns())


def _changeable(sandbox: Sandbox, container: Container) -> bool:
    dead = container.state == pb.CONTAINER_EXITED
    return container.state == pb.CONTAINER_RUNNING or (sandbox.ours and dead)
