"""Texts about pods on the runtime that another node agent began, or that an earlier root directory had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_PODS: Final = "UnknownPodsRunning"
"""The reason of the node's event."""
END_UNKNOWN_PODS: Final = "--end-unknown-pods"
NAMED_MAX: Final = 10

MEANS: Final = f"{END_UNKNOWN_PODS} or trikubelet reset"
"""How an operator ends such pods and removes what they left."""
REMEDY: Final = f"end them with {MEANS}"


class UnknownOnRuntime(Frozen):
    """The unknown pods that a runtime has. ``running``: the namespaces and names of those that run; ``ended``: the
    number of those that only left sandboxes or containers."""

    running: Sequence[tuple[str, str]] = ()
    ended: int = 0

    @property
    def count(self) -> int:
        """The number of unknown pods."""
        return len(self.running) + self.ended

    def __bool__(self) -> bool:
        return bool(self.count)


def waits_for_unknown(namespace: str, name: str, uid: str) -> str:
    """Return why a static pod waits for an unknown pod of its name, with what to do."""
    return (
        f"pod {namespace}/{name} with the UID {uid} runs under its name and belongs to another node agent or to an "
        f"earlier root directory (end that with {MEANS})"
    )


def unknown_pods_message(unknown: UnknownOnRuntime, means: str = MEANS) -> str:
    """Return the warning about another node agent's pods, of which there is at least one, with what to do."""
    return f"{unknown_pods_found(unknown)} ({unknown_pods_remedy(unknown, means)})"


def unknown_pods_found(unknown: UnknownOnRuntime) -> str:
    """Return the same without what to do."""
    left = "is left alone" if unknown.count == 1 else "are left alone"
    return f"{_counted(unknown)}. {_belongs(unknown)} and {left}"


def unknown_pods_remedy(unknown: UnknownOnRuntime, means: str = MEANS) -> str:
    """Return how an operator gets rid of them."""
    return f"{'end' if unknown.running else 'remove'} {'it' if unknown.count == 1 else 'them'} with {means}"


def unknown_pods_end(unknown: UnknownOnRuntime, remedy: str) -> str:
    """Return the announcement that these pods, at least one, are ended and removed too, with how to avoid that."""
    one = unknown.count == 1
    end, are = ("ends", "is") if one else ("end", "are")
    what = end if unknown.running else f"{are} removed"
    return f"{_counted(unknown)}. {_belongs(unknown)}, and {what}, too ({remedy})"


def _belongs(unknown: UnknownOnRuntime) -> str:
    return (
        f"{'It belongs' if unknown.count == 1 else 'They belong'} to another node agent or to an earlier root directory"
    )


def _counted(unknown: UnknownOnRuntime) -> str:
    running, ended = unknown.running, unknown.ended
    if not running:
        return f"{ended} unknown {'pod has' if ended == 1 else 'pods have'} ended on the container runtime"
    listed = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(running)[:NAMED_MAX])
    if (more := len(running) - NAMED_MAX) > 0:
        listed += f" and {more} more"
    if ended:
        listed += f"; {ended} more {'has' if ended == 1 else 'have'} ended"
    runs = "pod runs" if len(running) == 1 else "pods run"
    return f"{len(running)} unknown {runs} on the container runtime: {listed}"
