"""A container's own fields, and the iteration over all containers of a pod.

The restrictions of init containers are here too: nothing else starts until one has ended, so only a sidecar, which runs
on, may have hooks and probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.container import SIGNALS
from trikubelet.core.manifest.problem import duplicate, forbidden, invalid, named, one_of, required, too_many
from trikubelet.core.manifest.validation.environment import environment_problems
from trikubelet.core.manifest.validation.mounts import mount_problems
from trikubelet.core.manifest.validation.ports import host_port_problems, port_problems
from trikubelet.core.manifest.validation.probes import hook_problems, probe_problems
from trikubelet.core.manifest.validation.resources import container_resource_problems
from trikubelet.core.manifest.validation.security import container_security_problems
from trikubelet.core.manifest.validation.spec import RESTART_POLICIES
from trikubelet.model import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Container, PodSpec, Volume

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
RULES_MAX = 20
EXIT_CODES_MAX = 255


def container_problems(spec: PodSpec) -> Problems:
    """Yield the problems of a pod's containers. Ephemeral ones are rejected as a whole, see ``spec``."""
    if not spec.containers:
        yield required("spec.containers", "a pod needs at least one container")
    seen: set[str] = set()
    volumes = {volume.name: volume for volume in reversed(spec.volumes)}  # the first of a name counts
    for path, container in every_container(spec):
        yield from named(f"{path}.name", container.name, names.label_problem(container.name))
        if container.name and container.name in seen:
            yield duplicate(f"{path}.name", container.name)
        seen.add(container.name)
        yield from _own_problems(path, container, spec, volumes)
    yield from host_port_problems(spec)


def every_container(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Yield each container that is not ephemeral, with its path."""
    for n, container in enumerate(spec.containers):
        yield f"spec.containers[{n}]", container
    for n, container in enumerate(spec.init_containers):
        yield f"spec.initContainers[{n}]", container


def _own_problems(path: str, container: Container, spec: PodSpec, volumes: Mapping[str, Volume]) -> Problems:
    yield from _image(path, container)
    yield from one_of(
        f"{path}.terminationMessagePolicy", container.termination_message_policy, ("File", "FallbackToLogsOnError")
    )
    yield from _restarts(path, container)
    if path.startswith("spec.initContainers") and container.restart_policy != "Always":
        yield from _runs_to_its_end(path, container)
    else:
        yield from probe_problems(path, container)
        yield from hook_problems(path, container, spec)
    yield from _signal(path, container, spec)
    yield from port_problems(path, container, spec)
    yield from environment_problems(path, container, spec, volumes)
    yield from mount_problems(path, container, spec, volumes)
    yield from container_resource_problems(path, container, spec)
    yield from container_security_problems(path, container, spec)


def _image(path: str, container: Container) -> Problems:
    image = container.image
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not begin or end with blanks")
    yield from one_of(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)


def _restarts(path: str, container: Container) -> Problems:
    yield from one_of(f"{path}.restartPolicy", container.restart_policy, RESTART_POLICIES)
    rules = container.restart_policy_rules
    if rules and not container.restart_policy:
        yield required(f"{path}.restartPolicy", "the policy for exits that no rule matches")
    if len(rules) > RULES_MAX:
        yield too_many(f"{path}.restartPolicyRules", RULES_MAX)
    for n, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{n}]"
        if not rule.action:
            yield required(f"{here}.action")
        yield from one_of(f"{here}.action", rule.action, ("Restart", "RestartAllContainers"))
        codes = rule.exit_codes
        if codes is None:
            yield required(f"{here}.exitCodes")
            continue
        if not codes.operator:
            yield required(f"{here}.exitCodes.operator")
        yield from one_of(f"{here}.exitCodes.operator", codes.operator, ("In", "NotIn"))
        if len(codes.values) > EXIT_CODES_MAX:
            yield too_many(f"{here}.exitCodes.values", EXIT_CODES_MAX)


def _runs_to_its_end(path: str, container: Container) -> Problems:
    detail = "an init container may have it only with restartPolicy: Always"
    if container.lifecycle is not None:
        yield forbidden(f"{path}.lifecycle", detail)
    for field, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None:
            yield forbidden(f"{path}.{field}", detail)


def _signal(path: str, container: Container, spec: PodSpec) -> Problems:
    signal = container.lifecycle.stop_signal if container.lifecycle else ""
    if not signal:
        return
    yield from one_of(f"{path}.lifecycle.stopSignal", signal, [known for known in SIGNALS if known])
    if spec.os is None:
        yield forbidden(f"{path}.lifecycle.stopSignal", "may be set only where spec.os.name is")
