"""The checks of a device plugin that registers, with upstream's texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.devices import API_VERSION
from trikubelet.model.names import qualified_name_problem

if TYPE_CHECKING:
    from trikubelet.model.devices import Registering
    from trikubelet.model.plugins import PluginInfo


def registering_problem(request: Registering) -> str:
    """Return why a plugin that calls Register cannot be used; "" if it can."""
    if request.version != API_VERSION:
        supported = f'Supported version is ["{API_VERSION}"]'
        return f'requested API version "{request.version}" is not supported by kubelet. {supported}'
    if not is_extended_resource(request.resource):
        return f"the ResourceName {_quoted(request.resource)} is invalid"
    # It becomes a part of a path, and plugins are containers.
    if "/" in request.endpoint or request.endpoint in {"", ".", ".."}:
        return f"the endpoint {_quoted(request.endpoint)} is invalid: it must be a file name in the plugin directory"
    return ""


def watched_problem(plugin: PluginInfo) -> str:
    """Return why a plugin that the plugin watcher found cannot be used; "" if it can."""
    if API_VERSION not in plugin.versions:
        versions = " ".join(plugin.versions)
        return f"manager version, {API_VERSION}, is not among plugin supported versions [{versions}]"
    if not is_extended_resource(plugin.name):
        return f"invalid name of device plugin socket: the ResourceName {_quoted(plugin.name)} is invalid"
    return ""


def is_extended_resource(name: str) -> bool:
    """True for the name of a resource that is not Kubernetes' own, such as a vendor's devices."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name_problem(f"requests.{name}")


def _quoted(text: str) -> str:
    return f'"{text}"'
