"""Pods and observations in a few words, for the tables of the core's tests.

A status builder takes a container's name and gives the record a runtime would have of it; its id is the name followed
by the attempt, so that an expectation can be read. ``observe`` fills in the hash each container should have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trikubelet.core.actions import PodActions
from trikubelet.core.container_hash import container_hash
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus

SECOND = 1_000_000_000
STARTED_AT, FINISHED_AT = 1_000 * SECOND, 1_060 * SECOND
BOX = SandboxStatus(
    id="box", uid="12345678", name="pod", namespace="default", attempt=0, state=SandboxState.READY, created_at=1,
    ips=("10.0.0.1",),
)  # fmt: skip
DEAD_BOX = replace(BOX, state=SandboxState.NOTREADY)

CREATED, RUNNING, EXITED, UNKNOWN = (
    ContainerState.CREATED,
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.UNKNOWN,
)


def container(name: str, policy: str = "", *rules: k8s.ContainerRestartRule, **fields: Any) -> k8s.Container:
    """A container with its own restart policy, if any, and rules."""
    fields.setdefault("image", "image:1")
    return k8s.Container(name=name, restart_policy=policy, restart_policy_rules=rules, **fields)


def rule(action: str, operator: str, *codes: int) -> k8s.ContainerRestartRule:
    """A restart rule on exit codes."""
    return k8s.ContainerRestartRule(
        action=action, exit_codes=k8s.ContainerRestartRuleOnExitCodes(operator=operator, values=codes)
    )


def sidecar(name: str, *rules: k8s.ContainerRestartRule, **fields: Any) -> k8s.Container:
    """An init container that stays."""
    return container(name, "Always", *rules, **fields)


def pod(
    *containers: k8s.Container | str,
    policy: str = "Always",
    init: tuple[k8s.Container | str, ...] = (),
    ephemeral: tuple[k8s.EphemeralContainer | str, ...] = (),
    status: k8s.PodStatus | None = None,
    meta: dict[str, Any] | None = None,
    **fields: Any,
) -> k8s.Pod:
    """A pod; a string stands for a plain container of that name."""

    def whole(c: k8s.Container | str) -> k8s.Container:
        return container(c) if isinstance(c, str) else c

    return k8s.Pod(
        metadata=k8s.ObjectMeta(**{"name": "pod", "namespace": "default", "uid": "12345678", **(meta or {})}),
        spec=k8s.PodSpec(
            containers=tuple(map(whole, containers or ("foo1", "foo2", "foo3"))),
            init_containers=tuple(map(whole, init)),
            ephemeral_containers=tuple(
                k8s.EphemeralContainer(name=c, image="debug:1") if isinstance(c, str) else c for c in ephemeral
            ),
            restart_policy=policy,
            **fields,
        ),
        status=status,
    )


def _status(name: str, state: ContainerState, attempt: int, **fields: Any) -> ContainerStatus:
    fields.setdefault("id", f"{name}-{attempt}")
    fields.setdefault("created_at", 10 + attempt)
    return ContainerStatus(name=name, attempt=attempt, state=state, image="image:1", **fields)


def running(name: str, attempt: int = 0, **fields: Any) -> ContainerStatus:
    """It runs."""
    return _status(name, RUNNING, attempt, started_at=STARTED_AT, **fields)


def exited(name: str, code: int = 0, attempt: int = 0, **fields: Any) -> ContainerStatus:
    """It ended with that exit code."""
    fields.setdefault("finished_at", FINISHED_AT)
    return _status(name, EXITED, attempt, exit_code=code, started_at=STARTED_AT, **fields)


def created(name: str, attempt: int = 0, **fields: Any) -> ContainerStatus:
    """It was made and never started."""
    return _status(name, CREATED, attempt, **fields)


def unknown(name: str, attempt: int = 0, **fields: Any) -> ContainerStatus:
    """The runtime cannot tell."""
    return _status(name, UNKNOWN, attempt, **fields)


def observe(
    of: k8s.Pod, *statuses: ContainerStatus, sandboxes: tuple[SandboxStatus, ...] = (BOX,), **fields: Any
) -> PodObservation:
    """Return the runtime's observation of the pod; a status without a hash gets the right one."""
    spec = of.spec
    hashes = {c.name: container_hash(c) for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)}
    seen = tuple(s if s.hash else replace(s, hash=hashes.get(s.name, "")) for s in statuses)
    newest_first = tuple(sorted(seen, key=lambda s: -s.created_at))
    ips = sandboxes[0].ips if sandboxes else ()
    return PodObservation(
        uid=of.metadata.uid, ips=fields.pop("ips", ips), sandboxes=sandboxes, containers=newest_first, **fields
    )


def all_running(of: k8s.Pod) -> tuple[ContainerStatus, ...]:
    """Every regular container runs."""
    return tuple(running(c.name) for c in of.spec.containers)


def summary(actions: PodActions) -> dict[str, Any]:
    """A plan in comparable words: only what is not empty, kills and resets by container name."""
    words = {
        "kill_pod": actions.kill_pod,
        "create": actions.create_sandbox,
        "attempt": actions.attempt if actions.kill_pod or actions.create_sandbox else 0,
        "kill": {kill.status.name for kill in actions.to_kill},
        "ephemeral": actions.ephemeral_to_start,
        "init": actions.init_to_start,
        "start": actions.to_start,
        "reset": [(reset.status.name, reset.kill) for reset in actions.to_reset],
    }
    return {word: value for word, value in words.items() if value}
