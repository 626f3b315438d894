"""The API's defaults of a container: pull policy, ports, probes, hooks, environment, requests.

They are the same for init, regular and ephemeral containers. Only ``defaults`` calls this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from trikubelet.core.image_names import default_pull_policy

if TYPE_CHECKING:
    from trikubelet.model.k8s import (
        Container,
        ContainerPort,
        EnvVar,
        EphemeralContainer,
        HTTPGetAction,
        Lifecycle,
        LifecycleHandler,
        ObjectFieldSelector,
        Probe,
        ResourceRequirements,
    )

AnyContainer = TypeVar("AnyContainer", "Container", "EphemeralContainer")

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
PROBE_TIMEOUT_SECONDS = 1
PROBE_PERIOD_SECONDS = 10
PROBE_SUCCESSES = 1
PROBE_FAILURES = 3


def with_container_defaults(container: AnyContainer) -> AnyContainer:
    """Return the container as the API server would have stored it."""
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or default_pull_policy(container.image),
        termination_message_path=container.termination_message_path or TERMINATION_MESSAGE_PATH,
        termination_message_policy=container.termination_message_policy or "File",
        ports=tuple(_port(port) for port in container.ports),
        env=tuple(_variable(variable) for variable in container.env),
        resources=_resources(container.resources),
        lifecycle=_lifecycle(container.lifecycle),
        liveness_probe=_probe(container.liveness_probe),
        readiness_probe=_probe(container.readiness_probe),
        startup_probe=_probe(container.startup_probe),
    )


def with_host_ports(container: Container) -> Container:
    """Set host ports in the host's network, where a container's port is the host's port."""
    ports = tuple(port if port.host_port else replace(port, host_port=port.container_port) for port in container.ports)
    return replace(container, ports=ports)


def field_selector(ref: ObjectFieldSelector | None) -> ObjectFieldSelector | None:
    """Return a reference to a field of the pod, with its version."""
    return None if ref is None else replace(ref, api_version=ref.api_version or "v1")


def _port(port: ContainerPort) -> ContainerPort:
    return replace(port, protocol=port.protocol or "TCP")


def _variable(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None:
        return variable
    file_ref = source.file_key_ref
    if file_ref is not None and file_ref.optional is None:
        file_ref = replace(file_ref, optional=False)
    return replace(
        variable, value_from=replace(source, field_ref=field_selector(source.field_ref), file_key_ref=file_ref)
    )


def _resources(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    """Set missing requests to the limits."""
    if resources is None:
        return None
    return replace(resources, requests={**resources.limits, **resources.requests})


def _http_get(action: HTTPGetAction | None) -> HTTPGetAction | None:
    return None if action is None else replace(action, path=action.path or "/", scheme=action.scheme or "HTTP")


def _lifecycle(lifecycle: Lifecycle | None) -> Lifecycle | None:
    if lifecycle is None:
        return None
    return replace(lifecycle, post_start=_handler(lifecycle.post_start), pre_stop=_handler(lifecycle.pre_stop))


def _handler(handler: LifecycleHandler | None) -> LifecycleHandler | None:
    return None if handler is None else replace(handler, http_get=_http_get(handler.http_get))


def _probe(probe: Probe | None) -> Probe | None:
    if probe is None:
        return None
    return replace(
        probe,
        timeout_seconds=probe.timeout_seconds or PROBE_TIMEOUT_SECONDS,
        period_seconds=probe.period_seconds or PROBE_PERIOD_SECONDS,
        success_threshold=probe.success_threshold or PROBE_SUCCESSES,
        failure_threshold=probe.failure_threshold or PROBE_FAILURES,
        http_get=_http_get(probe.http_get),
    )
