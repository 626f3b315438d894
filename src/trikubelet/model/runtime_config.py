"""The requests to a container runtime: sandbox and container configurations.

``core/`` builds these from a pod, ``cri/`` writes them to the wire, the memory runtime reads them as they are. They
carry the CRI's vocabulary (cri-v1: PodSandboxConfig, ContainerConfig) without its wire format. All frozen.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


class NamespaceMode(IntEnum):
    """Whose namespace a container shares, by CRI wire number."""

    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class Propagation(IntEnum):
    """Mount propagation, by CRI wire number."""

    PRIVATE = 0
    HOST_TO_CONTAINER = 1
    BIDIRECTIONAL = 2


class ProfileType(IntEnum):
    """Seccomp and AppArmor profile kinds, by CRI wire number."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


class Protocol(IntEnum):
    """Port protocols, by CRI wire number."""

    TCP = 0
    UDP = 1
    SCTP = 2


class SecurityProfile(Frozen):
    """A seccomp or AppArmor profile; ``localhost_ref`` only with LOCALHOST."""

    type: ProfileType
    localhost_ref: str = ""


class SELinuxOptions(Frozen):
    """The four parts of an SELinux label."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class IdRange(Frozen):
    """``length`` users of the node from ``first`` on, and the groups of the same numbers, which are 0 and up to the
    containers of the pod that has them."""

    first: int
    length: int


class Namespaces(Frozen):
    """The namespace modes of a sandbox or a container. ``target_id`` is a container's id, only with pid TARGET;
    ``users`` is what a user namespace of the pod's own is mapped to, None where its users are the node's."""

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""
    users: IdRange | None = None


class DNSConfig(Frozen):
    """The content of the sandbox's resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class PortMapping(Frozen):
    """A port of the pod published on the node."""

    container_port: int
    host_port: int
    protocol: Protocol = Protocol.TCP
    host_ip: str = ""


class Mount(Frozen):
    """One host path, or one image, in one container. ``image`` is what the pull or the presence check returned,
    ``user_specified_image`` what the pod calls it, and ``host_path`` "" then. ``sub_path``: only that part is meant; of
    a host path CRI cannot express that, and ``ports.Volumes.resolve`` makes another host path of both before."""

    container_path: str
    host_path: str
    readonly: bool = False
    selinux_relabel: bool = False
    propagation: Propagation = Propagation.PRIVATE
    recursive_read_only: bool = False
    sub_path: str = ""
    image: str = ""
    user_specified_image: str = ""


class Device(Frozen):
    """One host device in one container; ``permissions`` out of r, w and m."""

    container_path: str
    host_path: str
    permissions: str


class LinuxResources(Frozen):
    """Cgroup values. 0 means "not set" for each, as on the wire; ``cpu_*_us`` in microseconds, memory in bytes."""

    cpu_period_us: int = 0
    cpu_quota_us: int = 0
    cpu_shares: int = 0
    memory_limit_bytes: int = 0
    memory_swap_limit_bytes: int = 0
    oom_score_adj: int = 0
    hugepage_limits: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)


class Security(Frozen):
    """The Linux security context of a container (and, without capabilities and paths, of a sandbox)."""

    namespaces: Namespaces = Namespaces()
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_username: str = ""
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_strict: bool = False
    readonly_rootfs: bool = False
    no_new_privs: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    masked_paths: tuple[str, ...] = ()
    readonly_paths: tuple[str, ...] = ()
    seccomp: SecurityProfile | None = None
    apparmor: SecurityProfile | None = None
    selinux: SELinuxOptions | None = None


class SandboxConfig(Frozen):
    """Everything ``RunPodSandbox`` needs."""

    uid: str
    name: str
    namespace: str
    attempt: int
    hostname: str = ""
    log_directory: str = ""
    dns: DNSConfig | None = None
    port_mappings: tuple[PortMapping, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    security: Security = Security()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    resources: LinuxResources | None = None
    overhead: LinuxResources | None = None
    runtime_handler: str = ""


class ContainerConfig(Frozen):
    """Everything ``CreateContainer`` needs. ``image`` is what the pull or the presence check returned; ``log_path``
    is relative to the sandbox's log directory; ``envs`` keeps its order; ``cdi_devices`` are names that the runtime
    looks up."""

    name: str
    attempt: int
    image: str
    user_specified_image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    resources: LinuxResources = LinuxResources()
    security: Security = Security()
    stop_signal: int = 0
