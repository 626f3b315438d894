"""Decides from the settings whether this node serves its API over HTTPS.

With an API server: unless ``enableServer`` is false. Without one, clients cannot be reviewed, and by default they have
to be: then nothing is served, which is logged. A configuration that requests the API there must set how clients are
authorized, as upstream requires too; the error names the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trikubelet.model.kubelet_configuration import KubeletConfiguration

_ASKING: Final = frozenset(
    {
        "address",
        "authentication",
        "authorization",
        "enableServer",
        "port",
        "serverTLSBootstrap",
        "tlsCertFile",
        "tlsCipherSuites",
        "tlsCurvePreferences",
        "tlsMinVersion",
    }
)
"""Fields that are set only for the API."""


NOT_SERVED: Final = "The node's API (port 10250) is not served, as there is no cluster; docs/standalone.md has more"
"""The note where it is not served by default."""


def api_port(configuration: KubeletConfiguration, *, standalone: bool) -> int:
    """Return the port of the API; 0 if it is not served."""
    if not configuration.enable_server or (standalone and any(_impossible(configuration, {}))):
        return 0
    return configuration.port


def obstacles(
    configuration: KubeletConfiguration, provenance: Mapping[str, str], *, standalone: bool
) -> Sequence[Fault]:
    """Return why the API cannot be served although it was requested. ``provenance``: has every given field, and where
    it was set."""
    is_wanted = configuration.enable_server and any(field.partition(".")[0] in _ASKING for field in provenance)
    return list(_impossible(configuration, provenance)) if standalone and is_wanted else []


def _impossible(configuration: KubeletConfiguration, provenance: Mapping[str, str]) -> Iterator[Fault]:
    """Yield faults for settings that need an API server."""
    remedy = "or enableServer: false"
    if configuration.authentication.webhook.enabled:
        yield _fault(provenance, "authentication.webhook.enabled", "tokens", f"set it to false, {remedy}")
    if configuration.authorization.mode == "Webhook":
        yield _fault(provenance, "authorization.mode", "rights", f"set it to AlwaysAllow, {remedy}")
    if configuration.server_tls_bootstrap:
        yield _fault(provenance, "serverTLSBootstrap", "certificates", f"set it to false, {remedy}")


def _fault(provenance: Mapping[str, str], field: str, of: str, remedy: str) -> Fault:
    problem = f"it needs an API server for {of}"
    return Fault(provenance.get(field, "the default"), None, field, problem, remedy)
