"""The pod network that containerd reports in a verbose ``Status``: the record ``ConfigResult`` of Go's go-cni, as JSON.

The doctor reads it, because containerd reports ``NetworkReady`` even if the plugins of its configuration are missing;
then every pod with its own network fails to start. CRI-O reports no such record.
"""

from __future__ import annotations

import msgspec

from trikubelet.model.decoding import decode_object
from trikubelet.model.runtime import NetworkSetup

KEY = "cniconfig"
"""The key in ``StatusResponse.info``."""


class _Type(msgspec.Struct):
    type: str = ""


class _Plugin(_Type):
    ipam: _Type = msgspec.field(default_factory=_Type)


class _PluginConfiguration(msgspec.Struct):
    network: _Plugin = msgspec.field(name="Network")


class _NetworkConfiguration(msgspec.Struct):
    plugins: list[_PluginConfiguration] = msgspec.field(name="Plugins", default_factory=list)


class _Network(msgspec.Struct):
    config: _NetworkConfiguration = msgspec.field(name="Config")


class _ConfigResult(msgspec.Struct):
    plugin_dirs: list[str] = msgspec.field(name="PluginDirs")
    configuration_dir: str = msgspec.field(name="PluginConfDir")
    networks: list[_Network] = msgspec.field(name="Networks", default_factory=list)


def read_network_setup(record: str) -> NetworkSetup | None:
    """Parse the record; None if it is invalid."""
    try:
        result = decode_object(record.encode(), _ConfigResult)
    except msgspec.DecodeError:
        return None
    plugins = [one.network for network in result.networks for one in network.config.plugins]
    types = [name for plugin in plugins for name in (plugin.type, plugin.ipam.type) if name]
    return NetworkSetup(result.configuration_dir, tuple(result.plugin_dirs), tuple(dict.fromkeys(types)))
