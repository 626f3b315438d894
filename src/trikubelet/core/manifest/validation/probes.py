"""Probes and lifecycle hooks, and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import forbidden, invalid, named, not_negative, one_of, positive, required
from trikubelet.core.manifest.validation.rules import chosen, exactly_one
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        Container,
        ExecAction,
        HTTPGetAction,
        LifecycleHandler,
        PodSpec,
        Probe,
        SleepAction,
        TCPSocketAction,
    )

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def probe_problems(path: str, container: Container) -> Problems:
    """Yield the problems of one container's probes."""
    for field, probe in (("livenessProbe", container.liveness_probe), ("startupProbe", container.startup_probe)):
        if probe is None:
            continue
        yield from _probe(f"{path}.{field}", probe)
        if probe.success_threshold not in (None, 1):
            yield invalid(f"{path}.{field}.successThreshold", probe.success_threshold, "must be 1")
    if (probe := container.readiness_probe) is not None:
        yield from _probe(f"{path}.readinessProbe", probe)
        if probe.termination_grace_period_seconds is not None:
            where = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            yield forbidden(where, "a failed readiness probe ends nothing")


def _probe(path: str, probe: Probe) -> Problems:
    yield from exactly_one(path, chosen(probe, _PROBE_HANDLERS), "a handler type")
    yield from not_negative(f"{path}.initialDelaySeconds", probe.initial_delay_seconds)
    for field, number in (
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
        ("terminationGracePeriodSeconds", probe.termination_grace_period_seconds),
    ):
        yield from positive(f"{path}.{field}", number)
    yield from _actions(path, probe.exec, probe.http_get, probe.tcp_socket)
    if probe.grpc is not None:
        yield from _port(f"{path}.grpc.port", probe.grpc.port)


def hook_problems(path: str, container: Container, spec: PodSpec) -> Problems:
    """Yield the problems of one container's hooks."""
    lifecycle = container.lifecycle
    for field in ("postStart", "preStop"):
        hook = None
        if lifecycle is not None:
            hook = lifecycle.post_start if field == "postStart" else lifecycle.pre_stop
        if hook is not None:
            yield from _hook(f"{path}.lifecycle.{field}", hook, spec)


def _hook(path: str, hook: LifecycleHandler, spec: PodSpec) -> Problems:
    yield from exactly_one(path, chosen(hook, _HOOK_HANDLERS), "a handler type")
    yield from _actions(path, hook.exec, hook.http_get, hook.tcp_socket)
    if hook.sleep is not None:
        yield from _sleep(f"{path}.sleep.seconds", hook.sleep, spec)


def _sleep(path: str, sleep: SleepAction, spec: PodSpec) -> Problems:
    grace = spec.termination_grace_period_seconds
    if sleep.seconds < 0:
        yield invalid(path, sleep.seconds, "must be 0 or more")
    elif grace is not None and sleep.seconds > grace:
        yield invalid(path, sleep.seconds, f"must be no more than terminationGracePeriodSeconds, which is {grace}")


def _actions(
    path: str, exec_: ExecAction | None, http_get: HTTPGetAction | None, tcp_socket: TCPSocketAction | None
) -> Problems:
    if exec_ is not None and not exec_.command:
        yield required(f"{path}.exec.command")
    if http_get is not None:
        yield from _http_get(f"{path}.httpGet", http_get)
    if tcp_socket is not None:
        yield from _port(f"{path}.tcpSocket.port", tcp_socket.port)


def _http_get(path: str, action: HTTPGetAction) -> Problems:
    yield from _port(f"{path}.port", action.port)
    yield from one_of(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for n, header in enumerate(action.http_headers):
        yield from named(f"{path}.httpHeaders[{n}].name", header.name, names.probe_header_problem(header.name))


def _port(path: str, port: int | str) -> Problems:
    problem = names.port_problem(port) if isinstance(port, int) else names.port_name_problem(port)
    if port == "":
        yield required(path)
    elif problem:
        yield invalid(path, port, problem)
