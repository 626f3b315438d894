"""The configuration files one containerd of the live tests is started with, as pure text.

Called by ``containerd.py``. Two formats are known: version 2, which containerd 1.6 and 1.7 read, and version 3 of the
2.x line, where the CRI plugin was split in two. Everything that could meet another containerd on the machine, ours or
the machine's own, is given a place of this instance's own: directories, socket, bridge, subnet, address leases.

``restrict_oom_score_adj`` is set in both: root in a small virtual machine or in a container may lack CAP_SYS_RESOURCE,
and then runc dies of the sandbox's negative oom_score_adj with nothing but "can't get final child's PID from pipe".
The price is that negative scores cannot be tested.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Where one runtime keeps what: all paths below ``directory``, which is the instance's alone."""

    directory: Path

    @property
    def root(self) -> Path:
        """Images, snapshots, metadata: what survives a reboot."""
        return self.directory / "root"

    @property
    def state(self) -> Path:
        """Sockets, running tasks, network namespaces: what does not."""
        return self.directory / "state"

    @property
    def socket(self) -> Path:
        """The gRPC socket, for CRI and containerd's ctr."""
        return self.directory / "cri.sock"

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.directory / "config.toml"

    @property
    def log(self) -> Path:
        """What the daemon and the watchers of its containers wrote, over all starts."""
        return self.directory / "runtime.log"

    @property
    def networks(self) -> Path:
        """The directory of CNI network lists."""
        return self.directory / "cni"

    @property
    def registries(self) -> Path:
        """What is known of registries: a directory for each, read again at every pull."""
        return self.directory / "registries"

    @property
    def leases(self) -> Path:
        """Where host-local remembers which pod has which address."""
        return self.directory / "leases"


@dataclass(frozen=True)
class Programs:
    """The programs one containerd is made of. ``shims`` is the directory its shim is looked up in."""

    containerd: Path
    ctr: Path
    runc: Path
    shims: Path
    plugins: Path


def version_2(layout: Layout, programs: Programs, pause: str) -> str:
    """The configuration for containerd 1.6 and 1.7."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
{_common(layout)}

[{cri}]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"

[{cri}.cni]
bin_dir = "{programs.plugins}"
conf_dir = "{layout.networks}"

[{cri}.registry]
config_path = "{layout.registries}"

[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
{_handlers(f"{cri}.containerd", programs)}"""


def version_3(layout: Layout, programs: Programs, pause: str) -> str:
    """The configuration for containerd 2.x."""
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    images = "plugins.'io.containerd.cri.v1.images'"
    return f"""\
version = 3
{_common(layout)}

[plugins.'io.containerd.nri.v1.nri']
disable = true # its socket has one fixed path

[{images}]
snapshotter = "overlayfs"

[{images}.registry]
config_path = "{layout.registries}"

[{images}.pinned_images]
sandbox = "{pause}"

[{runtime}]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[{runtime}.cni]
bin_dirs = ["{programs.plugins}"]
conf_dir = "{layout.networks}"

[{runtime}.containerd]
default_runtime_name = "runc"
{_handlers(f"{runtime}.containerd", programs)}
[plugins.'io.containerd.grpc.v1.cri']
stream_server_address = "127.0.0.1"
stream_server_port = "0"
"""


def network_list(name: str, subnet: str, layout: Layout) -> str:
    """A CNI network list: a bridge called ``name`` with pods of ``subnet`` behind it, and host ports.

    Nothing is masqueraded on the way out: the tests talk to the host and among pods only, and every address
    translation rule left out is one that cannot be left behind.
    """
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(layout.leases),
    }
    bridge = {"type": "bridge", "bridge": name, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return json.dumps({"cniVersion": "0.4.0", "name": name, "plugins": [bridge, ports]}, indent=2)


def _common(layout: Layout) -> str:
    return f"""\
root = "{layout.root}"
state = "{layout.state}"

[grpc]
address = "{layout.socket}"

[debug]
level = "info"

[plugins."io.containerd.internal.v1.opt"]
path = "{layout.root / "opt"}"
"""


def _handlers(table: str, programs: Programs) -> str:
    """Return runtime handlers with the same runc behind them: the default, and those that RuntimeClass tests name, ours
    and upstream's."""
    return "".join(
        f"""
[{table}.runtimes.{handler}]
runtime_type = "io.containerd.runc.v2"

[{table}.runtimes.{handler}.options]
BinaryName = "{programs.runc}"
SystemdCgroup = false
"""
        for handler in ("runc", "second", "test-handler")
    )
