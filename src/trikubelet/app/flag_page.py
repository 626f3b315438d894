"""The agent's flags and their values, as ``/flagz`` shows them: the effective ones, whether or not they were given on
the command line. Flags hold no secrets; the headers of a manifest's URL, which may, are masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.app.flag_table import FLAGS
from trikubelet.core.configuration.written import written

if TYPE_CHECKING:
    from trikubelet.app.settings import Settings


def flag_values(settings: Settings) -> dict[str, str]:
    """Return each flag that has an effect, by its name without dashes."""
    configuration = written(settings.configuration)
    own = {
        "root-dir": str(settings.root_dir),
        "cert-dir": str(settings.cert_dir),
        "kubeconfig": settings.kubeconfig,
        "bootstrap-kubeconfig": settings.bootstrap_kubeconfig,
        "hostname-override": settings.node_name,
        "node-ip": [*settings.node_ips, *filter(None, [settings.node_ip_family])],
        "node-labels": dict(settings.node_labels),
        "standalone": settings.standalone,
        "lock-file": str(settings.lock_file or ""),
        "exit-on-lock-contention": settings.exit_on_lock_contention,
    }
    values = {flag.name: _at(configuration, flag.field) for flag in FLAGS.values() if flag.field and flag.effect}
    return {name: _text(value) for name, value in (values | own).items() if value is not None}


def _at(configuration: Any, field: str) -> Any:
    """Return the value of a field; None if it has none."""
    for name in field.split("."):
        configuration = configuration.get(name) if isinstance(configuration, dict) else None
    return configuration


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
