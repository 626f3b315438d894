"""The configuration of one container: the content of ``CreateContainer``.

``pods.container_configs`` prepares the parts that are not in the spec and calls ``container_config`` right before the
container is created, so addresses and paths are those of this attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.core import names
from trikubelet.core.container_hash import container_hash
from trikubelet.core.containers.allowance import Allowance, of_container
from trikubelet.core.containers.environment import EnvSources, environment
from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.expansion import expand
from trikubelet.core.containers.mounts import devices, mounts
from trikubelet.core.containers.resources import container_resources
from trikubelet.core.containers.security import container_security
from trikubelet.core.go_json import go_json
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_config import ContainerConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import IdRange

# By position; the numbers are the CRI's, not the kernel's.
SIGNALS = (
    "",
    *(f"SIG{name}" for name in (
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL",
        "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1",
        "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN",
    )),
    *(f"SIGRTMIN+{n}" for n in range(1, 16)),
    *(f"SIGRTMAX-{n}" for n in range(14, 0, -1)),
    "SIGRTMAX",
)  # fmt: skip


class ContainerParts(Frozen):
    """The parts prepared before a container is configured: its attempt, its image, the pod's addresses, the host paths
    of its volumes (for an image volume, the image) by volume name, the hosts file and the termination message file ("":
    none), the sources of its variables, the mapping of the pod's own user namespace (None: it has none), and for an
    ephemeral container the id of the container whose processes it shares."""

    attempt: int
    image: ImageInfo
    ips: tuple[str, ...] = ()
    volume_paths: Mapping[str, str] = field(default_factory=dict)
    hosts_path: str = ""
    termination_log_path: str = ""
    sources: EnvSources = field(default_factory=EnvSources)
    users: IdRange | None = None
    target_id: str = ""


def container_config(pod: Pod, container: Container, parts: ContainerParts, facts: NodeFacts) -> ContainerConfig:
    """Return the content of ``CreateContainer``. Raises ConfigError."""
    allowance = of_container()
    envs = environment(pod, container, parts.ips, facts, parts.sources, parts.volume_paths, allowance)
    values = dict(envs)
    return ContainerConfig(
        name=container.name,
        attempt=parts.attempt,
        image=parts.image.id,
        user_specified_image=container.image,
        command=_expanded(container, "command", container.command, values, allowance),
        args=_expanded(container, "args", container.args, values, allowance),
        working_dir=container.working_dir,
        envs=envs,
        mounts=mounts(
            pod,
            container,
            parts.volume_paths,
            facts,
            values,
            allowance,
            hosts_path=parts.hosts_path,
            termination_log_path=parts.termination_log_path,
        ),
        devices=devices(pod, container, parts.volume_paths),
        labels=names.container_labels(pod, container.name),
        annotations=_annotations(pod, container, parts.attempt),
        log_path=names.log_path(container.name, parts.attempt),
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdin_once),
        tty=bool(container.tty),
        resources=container_resources(pod, container, facts),
        security=container_security(pod, container, parts.image, facts, parts.users, parts.target_id),
        stop_signal=_stop_signal(container),
    )


def _expanded(
    container: Container, field_path: str, words: Iterable[str], values: Mapping[str, str], allowance: Allowance
) -> tuple[str, ...]:
    try:
        return tuple(expand(word, values, allowance, f"{field_path}[{n}]") for n, word in enumerate(words))
    except ValueError as error:
        raise ConfigError(str(error), container.name) from error


def _stop_signal(container: Container) -> int:
    """Return the CRI's number of the spec's stop signal; 0 if there is none, for the image's or the runtime's default.
    Raises ConfigError."""
    asked = container.lifecycle.stop_signal if container.lifecycle else ""
    if asked and asked not in SIGNALS:
        raise ConfigError(f"lifecycle.stopSignal {asked!r} is not a signal the runtime knows", container.name)
    return SIGNALS.index(asked) if asked else 0


def _annotations(pod: Pod, container: Container, attempt: int) -> dict[str, str]:
    """Return the facts about the container that a later kubelet needs when the pod's spec is gone."""
    found = {
        names.CONTAINER_HASH: container_hash(container),
        names.CONTAINER_RESTART_COUNT: str(attempt),
        names.CONTAINER_TERMINATION_PATH: container.termination_message_path,
        names.CONTAINER_TERMINATION_POLICY: container.termination_message_policy,
    }
    graces = (
        (names.POD_DELETION_GRACE, pod.metadata.deletion_grace_period_seconds),
        (names.POD_TERMINATION_GRACE, pod.spec.termination_grace_period_seconds),
    )
    found.update({name: str(seconds) for name, seconds in graces if seconds is not None})
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[names.CONTAINER_PRE_STOP] = go_json(container.lifecycle.pre_stop)
    if container.ports:
        found[names.CONTAINER_PORTS] = go_json(container.ports)
    return found
