"""The command of a probe's exec handler.

``$(VAR)`` in it stands for a variable of the container that has a literal value. Those that come from elsewhere are not
looked up for a probe and stand for nothing (upstream: ExpandContainerCommandOnlyStatic). The command of a hook is not
expanded at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.expansion import expand

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, ExecAction


def probe_command(action: ExecAction, container: Container) -> tuple[str, ...]:
    """The words to run in the container."""
    values = {variable.name: variable.value for variable in container.env}
    return tuple(expand(word, values) for word in action.command)
