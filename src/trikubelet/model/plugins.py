"""Plugins of this node, whatever they offer: how they introduce themselves, and how asking them fails."""

from __future__ import annotations

from typing import Final

from trikubelet.model.frozen import Frozen


class PluginInfo(Frozen):
    """The introduction of a plugin. ``endpoint``: where its own services listen, never empty."""

    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]


_UNCERTAIN: Final = frozenset({"Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"})
_INFEASIBLE: Final = frozenset({"InvalidArgument", "OutOfRange", "NotFound"})


class PluginFailed(Exception):
    """A plugin could not be asked, or refused. ``code`` is gRPC's status by its Go name, as upstream's texts have it.
    ``is_final``: the plugin certainly has not done it and does not go on trying; ``is_infeasible``: it never will;
    ``is_for_in_use``: not while it is in use (upstream's lists of codes)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code = code
        self.is_final = code not in _UNCERTAIN
        self.is_infeasible = code in _INFEASIBLE
        self.is_for_in_use = code == "FailedPrecondition"
