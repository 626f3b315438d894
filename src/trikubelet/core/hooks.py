"""Lifecycle hooks: the parts that need no run of the hook (upstream: lifecycle/handlers.go).

A postStart hook's failure is shown in the container's waiting state; a preStop hook's goes to the agent's log. Events
report only that a hook failed, because its output may hold a secret and more people read events than statuses.
``pods/hooks.py`` runs the hooks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.handlers import HttpTarget
    from trikubelet.model.k8s import Container, LifecycleHandler, Pod
    from trikubelet.model.runtime import ExecResult

POST_START_ERROR: Final = "PostStartHookError"
OUTPUT_BYTES_MAX: Final = 10 * 1024
"""The limit for each output stream of a failed command in the event's message, as for probes."""


def exec_error(command: Sequence[str], result: ExecResult) -> str:
    """Return why a hook's command failed; "" if it succeeded."""
    if result.exit_code == 0:
        return ""
    return f"command '{' '.join(command)}' exited with {result.exit_code}: {_text(result.stderr)}"


def failure(pod: Pod, container: Container, handler: LifecycleHandler, error: str, output: bytes = b"") -> str:
    """Return upstream's message for a failed hook. ``output``: the output of its command."""
    meta = pod.metadata
    about = (
        f'for Container "{container.name}" in Pod "{meta.name}_{meta.namespace}({meta.uid})" failed - error: {error}'
    )
    if handler.exec is not None:
        message = msgspec.json.encode(_text(output)).decode()
        return f"Exec lifecycle hook ([{' '.join(handler.exec.command)}]) {about}, message: {message}"
    if handler.http_get is not None:
        return f"HTTP lifecycle hook ({handler.http_get.path}) {about}"
    return f"Cannot run handler: invalid handler: {error}"


def without_tls(target: HttpTarget) -> HttpTarget:
    """Return the target to try if the server does not speak HTTPS: without headers that need encryption."""
    headers = tuple((name, value) for name, value in target.headers if name.lower() != "authorization")
    return replace(target, scheme="http", headers=headers)


def _text(output: bytes) -> str:
    return output[:OUTPUT_BYTES_MAX].decode(errors="replace")
