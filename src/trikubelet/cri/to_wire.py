"""Converts configurations to the protobuf messages of a container runtime.

The runtime and image adapters call it for requests; ``from_wire`` converts the replies. The model's enumerations have
the CRI's numbers, and are passed to protobuf by name, so that a number that the CRI does not have is a ValueError here
and not an error of the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from trikubelet.model.runtime_config import (
        ContainerConfig,
        IdRange,
        LinuxResources,
        Namespaces,
        SandboxConfig,
        Security,
        SecurityProfile,
    )


def sandbox_config(config: SandboxConfig) -> pb.PodSandboxConfig:
    """Return the ``PodSandboxConfig``."""
    message = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname=config.hostname,
        log_directory=config.log_directory,
        port_mappings=[
            pb.PortMapping(
                protocol=pb.Protocol.Name(port.protocol),
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in config.port_mappings
        ],
        labels=config.labels,
        annotations=config.annotations,
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=_sandbox_security(config.security),
            sysctls=config.sysctls,
        ),
    )
    if config.dns is not None:
        message.dns_config.CopyFrom(
            pb.DNSConfig(servers=config.dns.servers, searches=config.dns.searches, options=config.dns.options)
        )
    if config.resources is not None:
        message.linux.resources.CopyFrom(resources(config.resources))
    if config.overhead is not None:
        message.linux.overhead.CopyFrom(resources(config.overhead))
    return message


def _image(image: str, named: str) -> pb.ImageSpec:
    """Return an ``ImageSpec`` with the pod's name for the image: CRI-O verifies signatures by that name, and rejects an
    image without one."""
    return pb.ImageSpec(image=image, user_specified_image=named)


def container_config(config: ContainerConfig) -> pb.ContainerConfig:
    """Return the ``ContainerConfig``. In a pod with a user namespace all mounts are id-mapped, like upstream: otherwise
    their files would belong to no user inside."""
    ids = _ids(config.security.namespaces.users)
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=_image(config.image, config.user_specified_image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[pb.KeyValue(key=key, value=value.encode()) for key, value in config.envs],
        mounts=[
            pb.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                readonly=mount.readonly,
                selinux_relabel=mount.selinux_relabel,
                propagation=pb.MountPropagation.Name(mount.propagation),
                recursive_read_only=mount.recursive_read_only,
                image=_image(mount.image, mount.user_specified_image) if mount.image else None,
                image_sub_path=mount.sub_path,
                uidMappings=ids,
                gidMappings=ids,
            )
            for mount in config.mounts
        ],
        devices=[
            pb.Device(container_path=d.container_path, host_path=d.host_path, permissions=d.permissions)
            for d in config.devices
        ],
        CDI_devices=[pb.CDIDevice(name=name) for name in config.cdi_devices],
        labels=config.labels,
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=pb.LinuxContainerConfig(
            resources=resources(config.resources), security_context=_container_security(config.security)
        ),
        stop_signal=pb.Signal.Name(config.stop_signal),
    )


def resources(values: LinuxResources) -> pb.LinuxContainerResources:
    """Return the ``LinuxContainerResources``."""
    return pb.LinuxContainerResources(
        cpu_period=values.cpu_period_us,
        cpu_quota=values.cpu_quota_us,
        cpu_shares=values.cpu_shares,
        memory_limit_in_bytes=values.memory_limit_bytes,
        memory_swap_limit_in_bytes=values.memory_swap_limit_bytes,
        oom_score_adj=values.oom_score_adj,
        hugepage_limits=[pb.HugepageLimit(page_size=s, limit=n) for s, n in values.hugepage_limits.items()],
        unified=values.unified,
    )


def _namespaces(options: Namespaces) -> pb.NamespaceOption:
    return pb.NamespaceOption(
        network=pb.NamespaceMode.Name(options.network),
        pid=pb.NamespaceMode.Name(options.pid),
        ipc=pb.NamespaceMode.Name(options.ipc),
        target_id=options.target_id,
        userns_options=_users(options.users),
    )


def _users(users: IdRange | None) -> pb.UserNamespace:
    """Return the user namespace, which is always set, like upstream: without it a runtime may choose its own."""
    ids = _ids(users)
    return pb.UserNamespace(mode=pb.POD if ids else pb.NODE, uids=ids, gids=ids)


def _ids(users: IdRange | None) -> list[pb.IDMapping]:
    if users is None:
        return []
    return [pb.IDMapping(host_id=users.first, container_id=0, length=users.length)]


def _profile(profile: SecurityProfile | None) -> pb.SecurityProfile | None:
    if profile is None:
        return None
    kind = pb.SecurityProfile.ProfileType.Name(profile.type)
    return pb.SecurityProfile(profile_type=kind, localhost_ref=profile.localhost_ref)


def _number(value: int | None) -> pb.Int64Value | None:
    return None if value is None else pb.Int64Value(value=value)


def _groups_policy(security: Security) -> pb.SupplementalGroupsPolicy:
    return pb.Strict if security.supplemental_groups_strict else pb.Merge


def _selinux(security: Security) -> pb.SELinuxOption | None:
    if security.selinux is None:
        return None
    label = security.selinux
    return pb.SELinuxOption(user=label.user, role=label.role, type=label.type, level=label.level)


def _sandbox_security(security: Security) -> pb.LinuxSandboxSecurityContext:
    return pb.LinuxSandboxSecurityContext(
        namespace_options=_namespaces(security.namespaces),
        selinux_options=_selinux(security),
        run_as_user=_number(security.run_as_user),
        run_as_group=_number(security.run_as_group),
        readonly_rootfs=security.readonly_rootfs,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_groups_policy(security),
        privileged=security.privileged,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )


def _capabilities(security: Security) -> pb.Capability | None:
    added, dropped = security.add_capabilities, security.drop_capabilities
    return pb.Capability(add_capabilities=added, drop_capabilities=dropped) if added or dropped else None


def _container_security(security: Security) -> pb.LinuxContainerSecurityContext:
    return pb.LinuxContainerSecurityContext(
        capabilities=_capabilities(security),
        privileged=security.privileged,
        namespace_options=_namespaces(security.namespaces),
        selinux_options=_selinux(security),
        run_as_user=_number(security.run_as_user),
        run_as_group=_number(security.run_as_group),
        run_as_username=security.run_as_username,
        readonly_rootfs=security.readonly_rootfs,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_groups_policy(security),
        no_new_privs=security.no_new_privs,
        masked_paths=security.masked_paths,
        readonly_paths=security.readonly_paths,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )
