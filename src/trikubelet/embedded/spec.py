"""Turns a container's configuration into the description of a process; or an error with the unsupported settings.

Pure: wire configuration and facts about the machine in, a JSON object for ``keeper.child`` out. A setting that changes
the container's identity or rights is applied or rejected, never ignored. Settings that are rejected on every machine
are also in ``core.containers.embedded_refusals``, which informs the pod's owner before. These are ignored, because a
pod works without them and the default ones come with every pod: cgroup limits, seccomp and AppArmor runtime defaults,
SELinux labels, masked paths, port mappings (the network is the machine's own). For pods that name one explicitly the
agent reports it (``core.containers.embedded``).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

from trikubelet.core.containers.embedded_refusals import USE_CONTAINERD, host_image
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.embedded.images import refusal
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.embedded.link import Isolation

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TERMINAL_TYPE: Final = "xterm"
"""The type of every terminal with containerd, Docker and Podman."""
PROCESSES_MAX: Final = 4096
"""Processes of one user, if no cgroup limits each container: all containers together."""

OPEN_FILES_MAX: Final = 65536

# Linux' capabilities by number (include/uapi/linux/capability.h).
CAPABILITIES: Final = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)
# Capabilities that containerd leaves an unprivileged container.
DEFAULT_CAPABILITIES: Final = frozenset(
    {
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    }
)


class User(Frozen):
    """A user of this machine, as in its user database."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


class Machine(Frozen):
    """The machine's facts for a container's description. ``find_user``: takes a uid or a name and raises KeyError;
    ``staging``: the directory roots are built on; ``bounded``: a cgroup limits a container's processes; ``groups``: the
    agent's supplementary ones."""

    isolation: Isolation
    uid: int
    gid: int
    staging: str
    bounded: bool
    find_user: Callable[[int | str], User]
    groups: frozenset[int] = frozenset()

    @property
    def is_one_user(self) -> bool:
        """True if all containers have the agent's user and groups, because it may not change them."""
        return self.uid != 0 or self.isolation.kind == "user namespace"


def command_line(config: pb.ContainerConfig) -> list[str]:
    """Return the command line. Raises InvalidArgument: the machine, unlike an image, has no command of its own."""
    argv = [*config.command, *config.args]
    if not argv:
        raise InvalidArgument(f'container {config.metadata.name}: image "host" has no command of its own: set one')
    if any("\0" in word for word in argv):
        raise InvalidArgument(f"container {config.metadata.name}: a null character in the command")
    return argv


def describe(config: pb.ContainerConfig, sandbox: pb.PodSandboxConfig, machine: Machine) -> dict[str, Any]:
    """The description of the container's process. Raises InvalidArgument."""
    if host_image(config.image.image) is None:
        raise InvalidArgument(refusal(config.image.image))
    security = config.linux.security_context
    _refuse_impossible(config, machine)
    user = _user(security, machine)
    env = {pair.key: pair.value.decode(errors="surrogateescape") for pair in config.envs}
    if impossible := [key for key, value in env.items() if "=" in key or "\0" in key + value or not key]:
        named = ", ".join(map(repr, impossible))
        raise InvalidArgument(
            f"container {config.metadata.name}: environment variables that no process can have: {named}: a name is not "
            "empty and has no '=', and nowhere is there a null character"
        )
    env.setdefault("PATH", DEFAULT_PATH)
    env.setdefault("HOME", user.home)
    if sandbox.hostname:
        env.setdefault("HOSTNAME", sandbox.hostname)
    # The agent's own user needs no change, which even root cannot do everywhere; ``_user`` has rejected all others.
    asked_for_groups = bool(security.supplemental_groups) and not machine.is_one_user
    becomes = (user.uid, user.gid) != (machine.uid, machine.gid) or asked_for_groups
    limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": OPEN_FILES_MAX}
    if not machine.bounded:  # the kernel counts by user, and never root's
        limits["RLIMIT_NPROC"] = PROCESSES_MAX
    return {
        "argv": command_line(config),
        "env": env,
        "cwd": config.working_dir or "/",
        "mounts": _mounts(config, sandbox, machine, env),
        "staging": machine.staging,
        "readonly_root": security.readonly_rootfs,
        "hostname": sandbox.hostname,
        "uid": user.uid if becomes else None,
        "gid": user.gid if becomes else None,
        "groups": list(user.groups) if becomes else None,
        "drop_capabilities": _dropped(security),
        "no_new_privileges": security.no_new_privs,
        "oom_score_adj": config.linux.resources.oom_score_adj,
        "cgroup": "",
        "limits": limits,
        "terminal": False,
    }


def for_exec(container: Mapping[str, Any], argv: list[str], *, terminal: bool = False) -> dict[str, Any]:
    """Return the description of another command in the container of ``container``, whose standard streams are a
    ``terminal`` or not. Raises InvalidArgument."""
    if not argv:
        raise InvalidArgument("no command to execute")
    env = {"TERM": TERMINAL_TYPE, **container["env"]} if terminal else container["env"]
    return {**container, "argv": argv, "env": env, "mounts": [], "terminal": terminal}


def stop_signal(config: pb.ContainerConfig) -> int:
    """Return the number of the signal that stops the container."""
    if config.stop_signal == pb.SIGNAL_RUNTIME_DEFAULT:
        return signal.SIGTERM
    name = pb.Signal.Name(config.stop_signal).removeprefix("SIGNAL_")
    for prefix, first, sign in (("SIGRTMINPLUS", signal.SIGRTMIN, 1), ("SIGRTMAXMINUS", signal.SIGRTMAX, -1)):
        if name.startswith(prefix):
            return first + sign * int(name.removeprefix(prefix))
    # Two of the CRI's names are older spellings, and one signal has no name in Python.
    known = {"SIGPOLL": signal.SIGIO, "SIGIOT": signal.SIGABRT, "SIGCLD": signal.SIGCHLD, "SIGSTKFLT": 16}
    return known.get(name) or signal.Signals[name]


def _refuse_impossible(config: pb.ContainerConfig, machine: Machine) -> None:
    name, security = config.metadata.name, config.linux.security_context
    bare = not machine.isolation.namespaces
    refusals = [
        (config.tty, "has no terminals (tty: true)"),
        (bool(config.CDI_devices), "has no CDI devices"),
        (
            pb.SecurityProfile.Localhost in {security.seccomp.profile_type, security.apparmor.profile_type},
            "loads no seccomp or AppArmor profiles (type: Localhost)",
        ),
        (security.privileged and machine.isolation.kind != "root", "gives privileges only when the agent is root"),
        (
            bool(security.capabilities.add_capabilities) and machine.isolation.kind != "root",
            "adds capabilities only when the agent is root",
        ),
        (
            not bare and security.namespace_options.pid != pb.CONTAINER,
            "gives every container processes of its own (no hostPID, shareProcessNamespace or target container)",
        ),
        (bare and security.readonly_rootfs, "cannot make the root file system read-only without namespaces"),
    ]
    for refused, why in refusals:
        if refused:
            raise InvalidArgument(f"container {name}: the embedded runtime {why}; {USE_CONTAINERD}")


def _user(security: pb.LinuxContainerSecurityContext, machine: Machine) -> User:
    wanted: int | str = machine.uid
    if security.HasField("run_as_user"):
        wanted = security.run_as_user.value
    elif security.run_as_username:
        wanted = security.run_as_username
    try:
        user = machine.find_user(wanted)
    except KeyError:
        if isinstance(wanted, str):
            raise InvalidArgument(f"there is no user {wanted} on this machine") from None
        user = User(wanted, 0 if wanted != machine.uid else machine.gid, (), "/")
    own_gid = machine.gid if user.uid == machine.uid else user.gid
    gid = security.run_as_group.value if security.HasField("run_as_group") else own_gid
    if machine.is_one_user:
        if user.uid != machine.uid or gid != machine.gid:
            raise InvalidArgument(
                f"cannot run as user {user.uid}, group {gid}: the agent runs as user {machine.uid}, group "
                f"{machine.gid}, and only root may change; start the agent as root or leave the user out"
            )
        if foreign := sorted({*security.supplemental_groups} - {*machine.groups, machine.gid}):
            raise InvalidArgument(
                f"cannot give supplemental groups {foreign} (fsGroup is one): the agent's user is not in them, and "
                "only root may change; start the agent as root or leave them out"
            )
        return User(user.uid, gid, (), user.home)
    strict = security.supplemental_groups_policy == pb.Strict
    groups = dict.fromkeys([*security.supplemental_groups, *(() if strict else user.groups)])
    return User(user.uid, gid, tuple(groups), user.home)


def _dropped(security: pb.LinuxContainerSecurityContext) -> list[int]:
    if security.privileged:
        return []
    kept = set(DEFAULT_CAPABILITIES)
    dropped = {name.upper().removeprefix("CAP_") for name in security.capabilities.drop_capabilities}
    added = {name.upper().removeprefix("CAP_") for name in security.capabilities.add_capabilities}
    unknown = (dropped | added) - {"ALL", *CAPABILITIES}
    if unknown:
        raise InvalidArgument(f"unknown capabilities: {', '.join(sorted(unknown))}")
    if "ALL" in added:
        kept.update(CAPABILITIES)
    kept = set() if "ALL" in dropped else kept - dropped
    kept |= added
    return [number for number, name in enumerate(CAPABILITIES) if name not in kept]


def _mounts(
    config: pb.ContainerConfig, sandbox: pb.PodSandboxConfig, machine: Machine, env: dict[str, str]
) -> list[dict[str, Any]]:
    devices = [pb.Mount(container_path=d.container_path or d.host_path, host_path=d.host_path) for d in config.devices]
    found: list[dict[str, Any]] = []
    for mount in [*config.mounts, *devices]:
        where = f"mount of {mount.host_path or mount.image.image} at {mount.container_path}"
        if mount.image.image:
            raise InvalidArgument(f"{where}: the embedded runtime has no image volumes")
        if mount.propagation == pb.PROPAGATION_BIDIRECTIONAL:
            raise InvalidArgument(f"{where}: the embedded runtime lets no container mount on the machine")
        if machine.isolation.namespaces:
            found.append(
                {
                    "container_path": mount.container_path,
                    "host_path": mount.host_path,
                    "readonly": mount.readonly,
                    "recursive": mount.recursive_read_only,
                }
            )
            continue
        if mount.container_path == mount.host_path and not mount.readonly:
            continue
        if _is_kubelets_own(mount, sandbox):
            env.setdefault(
                "TRIKUBELET_" + ("HOSTS" if mount.container_path == "/etc/hosts" else "TERMINATION_LOG"),
                mount.host_path,
            )
            continue
        raise InvalidArgument(
            f"{where}: no mounts are possible here ({machine.isolation.reason}). Start the agent as root, which in a "
            "chroot is the only way, allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns), or use containerd"
        )
    return sorted(found, key=lambda mount: str(mount["container_path"]).count("/"))


def _is_kubelets_own(mount: pb.Mount, sandbox: pb.PodSandboxConfig) -> bool:
    """True for the hosts file or the termination message file, which a container does not need."""
    of_pod = mount.host_path.partition(f"/pods/{sandbox.metadata.uid}/")[2]
    return of_pod == "etc-hosts" or of_pod.startswith("containers/")
