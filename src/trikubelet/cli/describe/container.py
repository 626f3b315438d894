"""A container's part of a description: its spec, its state, and its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.cli.describe.layout import Layout
    from trikubelet.model import k8s

LEVEL = 2


def describe_container(
    out: Layout, container: k8s.Container, status: k8s.ContainerStatus | None, when: Callable[[str], str]
) -> None:
    """Lay it out below its name. ``when`` formats a time."""
    if status is not None:
        out.field(LEVEL, "Container ID", status.container_id)
    out.field(LEVEL, "Image", container.image)
    if status is not None:
        out.field(LEVEL, "Image ID", status.image_id)
    _ports(out, container)
    _texts(out, "Command", container.command)
    _texts(out, "Args", container.args)
    if status is not None:
        _state(out, "State", status.state, when)
        if status.last_state is not None and status.last_state.terminated is not None:
            _state(out, "Last State", status.last_state, when)
        out.field(LEVEL, "Ready", status.ready)
        out.field(LEVEL, "Restart Count", status.restart_count)
    _resources(out, container)
    if status is not None:
        _allocated_devices(out, status)
    for label, probe in (
        ("Liveness", container.liveness_probe),
        ("Readiness", container.readiness_probe),
        ("Startup", container.startup_probe),
    ):
        if probe is not None:
            out.field(LEVEL, label, probe_text(probe))
    _env_from(out, container.env_from)
    _env(out, container.env)
    _mounts(out, container)


def _ports(out: Layout, container: k8s.Container) -> None:
    inside = [f"{port.container_port}/{port.protocol or 'TCP'}" for port in container.ports]
    outside = [f"{port.host_port or 0}/{port.protocol or 'TCP'}" for port in container.ports]
    plural = "s" if len(inside) > 1 else ""
    out.field(LEVEL, f"Port{plural}", ", ".join(inside) or NONE)
    out.field(LEVEL, f"Host Port{plural}", ", ".join(outside) or NONE)


def _texts(out: Layout, label: str, arguments: Sequence[str]) -> None:
    """Lay out one word of a command line per line; a word of several lines takes several."""
    if arguments:
        out.title(LEVEL, label)
        out.texts(LEVEL + 1, (line for argument in arguments for line in (argument.splitlines() or [""])))


def _state(out: Layout, label: str, state: k8s.ContainerState | None, when: Callable[[str], str]) -> None:
    if state is not None and state.running is not None:
        out.field(LEVEL, label, "Running")
        if state.running.started_at:
            out.field(LEVEL + 1, "Started", when(state.running.started_at))
    elif state is not None and state.terminated is not None:
        ended = state.terminated
        out.field(LEVEL, label, "Terminated")
        if ended.reason:
            out.field(LEVEL + 1, "Reason", ended.reason)
        if ended.message:
            # Often the end of a log: it is laid out line by line, which is readable.
            out.fields(LEVEL + 1, "Message", ended.message.rstrip().splitlines())
        out.field(LEVEL + 1, "Exit Code", ended.exit_code)
        if ended.signal:
            out.field(LEVEL + 1, "Signal", ended.signal)
        for name, moment in (("Started", ended.started_at), ("Finished", ended.finished_at)):
            if moment:
                out.field(LEVEL + 1, name, when(moment))
    else:
        waiting = state.waiting if state is not None else None
        out.field(LEVEL, label, "Waiting")
        if waiting is not None and waiting.reason:
            out.field(LEVEL + 1, "Reason", waiting.reason)
        if waiting is not None and waiting.message:
            out.fields(LEVEL + 1, "Message", waiting.message.rstrip().splitlines())


def _resources(out: Layout, container: k8s.Container) -> None:
    given = container.resources
    if given is None:
        return
    for label, amounts in (("Limits", given.limits), ("Requests", given.requests)):
        _amounts(out, label, amounts)


def _amounts(out: Layout, label: str, amounts: Mapping[str, object]) -> None:
    if amounts:
        out.title(LEVEL, label)
        for name, amount in sorted(amounts.items()):
            out.field(LEVEL + 1, name, amount)


def _allocated_devices(out: Layout, status: k8s.ContainerStatus) -> None:
    if status.allocated_resources_status:
        out.title(LEVEL, "Allocated Devices")
        for one in status.allocated_resources_status:
            out.fields(LEVEL + 1, one.name, (f"{device.resource_id} ({device.health})" for device in one.resources))


def probe_text(probe: k8s.Probe) -> str:
    """Return a probe in one line: its action and its numbers."""
    numbers = {
        "delay": f"{probe.initial_delay_seconds or 0}s",
        "timeout": f"{probe.timeout_seconds or 1}s",
        "period": f"{probe.period_seconds or 10}s",
        "#success": probe.success_threshold or 1,
        "#failure": probe.failure_threshold or 3,
    }
    return " ".join([_action(probe), *(f"{name}={value}" for name, value in numbers.items())])


def _action(probe: k8s.Probe) -> str:
    if probe.exec is not None:
        return f"exec [{' '.join(probe.exec.command)}]"
    if probe.http_get is not None:
        get = probe.http_get
        path = get.path if get.path.startswith("/") else f"/{get.path}"
        return f"http-get {(get.scheme or 'HTTP').lower()}://{get.host}:{get.port}{path}"
    if probe.tcp_socket is not None:
        return f"tcp-socket {probe.tcp_socket.host}:{probe.tcp_socket.port}"
    if probe.grpc is not None:
        return f"grpc <pod>:{probe.grpc.port} {probe.grpc.service}".rstrip()
    return "unknown"


def _env_from(out: Layout, sources: Sequence[k8s.EnvFromSource]) -> None:
    if not sources:
        return
    out.title(LEVEL, "Environment Variables from")
    for source in sources:
        prefix = f" with prefix '{source.prefix}'" if source.prefix else ""
        ref = source.config_map_ref or source.secret_ref
        kind = "ConfigMap" if source.config_map_ref is not None else "Secret"
        if ref is not None:
            out.field(LEVEL + 1, ref.name, f"{kind}{prefix}  Optional: {bool(ref.optional)}")


def _env(out: Layout, variables: Sequence[k8s.EnvVar]) -> None:
    if not variables:
        out.field(LEVEL, "Environment", NONE)
        return
    out.title(LEVEL, "Environment")
    for variable in variables:
        text = variable.value if variable.value_from is None else _source(variable.value_from)
        out.fields(LEVEL + 1, variable.name, text.splitlines() or [""])


def _source(source: k8s.EnvVarSource) -> str:
    if source.field_ref is not None:
        return f" ({source.field_ref.api_version or 'v1'}:{source.field_ref.field_path})"
    if source.resource_field_ref is not None:
        return f" ({source.resource_field_ref.resource} of {source.resource_field_ref.container_name or 'itself'})"
    if source.secret_key_ref is not None:
        ref = source.secret_key_ref
        return f"<key '{ref.key}' of secret '{ref.name}'>  Optional: {bool(ref.optional)}"
    if source.config_map_key_ref is not None:
        key = source.config_map_key_ref
        return f"<key '{key.key}' of config map '{key.name}'>  Optional: {bool(key.optional)}"
    if source.file_key_ref is not None:
        return f"<key '{source.file_key_ref.key}' of file '{source.file_key_ref.path}'>"
    return ""


def _mounts(out: Layout, container: k8s.Container) -> None:
    mounts = sorted(container.volume_mounts, key=lambda mount: mount.mount_path)
    lines = []
    for mount in mounts:
        path = mount.sub_path_expr or mount.sub_path
        flags = ",".join(["ro" if mount.read_only else "rw", *([f'path="{path}"'] if path else [])])
        lines.append(f"{mount.mount_path} from {mount.name} ({flags})")
    if lines:
        out.title(LEVEL, "Mounts")
        out.texts(LEVEL + 1, lines)
    else:
        out.field(LEVEL, "Mounts", NONE)
    if container.volume_devices:
        out.title(LEVEL, "Devices")
        out.texts(LEVEL + 1, (f"{device.device_path} from {device.name}" for device in container.volume_devices))
