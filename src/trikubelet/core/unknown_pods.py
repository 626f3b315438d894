"""The words about pods on the runtime that another node agent began, or that an earlier root directory had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_PODS: Final = "UnknownPodsRunning"
"""The reason of the node's event."""
END_UNKNOWN_PODS: Final = "--end-unknown-pods"
NAMED_MAX: Final = 10


REMEDY: Final = f"end them with {END_UNKNOWN_PODS} or trikubelet reset"


def waits_for_unknown(namespace: str, name: str, uid: str) -> str:
    """Return why a static pod waits for an unknown pod of its name, with what to do."""
    return (
        f"pod {namespace}/{name} with the UID {uid} runs under its name and belongs to another node agent or to an "
        f"earlier root directory (end that with {END_UNKNOWN_PODS} or trikubelet reset)"
    )


def unknown_pods_message(names: Sequence[tuple[str, str]]) -> str:
    """Return the warning about running pods of another node agent, with what to do. ``names``: their namespaces and
    names, at least one."""
    return f"{unknown_pods_found(names)} ({REMEDY})"


def unknown_pods_found(names: Sequence[tuple[str, str]]) -> str:
    """The same without what to do."""
    return f"{_counted(names)}. They belong to another node agent or to an earlier root directory and are left alone"


def unknown_pods_end(names: Sequence[tuple[str, str]], remedy: str) -> str:
    """Return the announcement that these pods end, too, and how they would not. ``names``: at least one."""
    return (
        f"{_counted(names)}. They belong to another node agent or to an earlier root directory, and end, too ({remedy})"
    )


def _counted(names: Sequence[tuple[str, str]]) -> str:
    listed = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(names)[:NAMED_MAX])
    if (more := len(names) - NAMED_MAX) > 0:
        listed += f" and {more} more"
    pods = "1 pod runs" if len(names) == 1 else f"{len(names)} pods run"
    return f"{pods} on the container runtime and not in this root directory: {listed}"
