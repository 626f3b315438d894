"""Our records against the CRI's messages: which field lands where, in both directions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.cri import from_wire, to_wire
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    NO_PROGRAM,
    ContainerEvent,
    ContainerState,
    ContainerStatus,
    ImageInfo,
    RuntimeCondition,
    RuntimeInfo,
    SandboxState,
    SandboxStatus,
)
from trikubelet.model.runtime_config import (
    ContainerConfig,
    Device,
    DNSConfig,
    IdRange,
    LinuxResources,
    Mount,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileType,
    Propagation,
    Protocol,
    SandboxConfig,
    Security,
    SecurityProfile,
    SELinuxOptions,
)
from trikubelet.model.usage import ContainerStats, FsUsage, ImageStore, ImageStores, Usage


def leaves(message: Message, path: str = "") -> dict[str, Any]:
    """Every value that is set in a message, by its path; elements of lists by index, of maps by key."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if field.message_type and field.message_type.GetOptions().map_entry:
            found |= {f"{here}[{key}]": entry for key, entry in value.items()}
        elif isinstance(value, Message):
            found |= leaves(value, here) or {here: "present"}
        elif isinstance(value, str | bytes | int | float):
            found[here] = value
        else:
            for index, element in enumerate(value):
                inner = leaves(element, f"{here}[{index}]") if isinstance(element, Message) else None
                found |= {f"{here}[{index}]": element} if inner is None else inner
    return found


SANDBOX = SandboxConfig(uid="u", name="n", namespace="ns", attempt=0)
CONTAINER = ContainerConfig(name="n", attempt=0, image="i")

SECURITY = {  # of both kinds of context
    "namespaces": (
        Namespaces(NamespaceMode.NODE, NamespaceMode.TARGET, NamespaceMode.CONTAINER, "t"),
        {
            "namespace_options.network": pb.NODE,
            "namespace_options.pid": pb.TARGET,
            "namespace_options.ipc": pb.CONTAINER,
            "namespace_options.target_id": "t",
        },
    ),
    "privileged": (True, {"privileged": True}),
    "run_as_user": (1000, {"run_as_user.value": 1000}),
    "run_as_group": (2000, {"run_as_group.value": 2000}),
    "supplemental_groups": ((7, 8), {"supplemental_groups[0]": 7, "supplemental_groups[1]": 8}),
    "supplemental_groups_strict": (True, {"supplemental_groups_policy": pb.Strict}),
    "readonly_rootfs": (True, {"readonly_rootfs": True}),
    "seccomp": (
        SecurityProfile(ProfileType.LOCALHOST, "/p"),
        {"seccomp.profile_type": pb.SecurityProfile.Localhost, "seccomp.localhost_ref": "/p"},
    ),
    "apparmor": (
        SecurityProfile(ProfileType.UNCONFINED),
        {"apparmor.profile_type": pb.SecurityProfile.Unconfined},
    ),
    "selinux": (
        SELinuxOptions("u", "r", "t", "l"),
        {
            "selinux_options.user": "u",
            "selinux_options.role": "r",
            "selinux_options.type": "t",
            "selinux_options.level": "l",
        },
    ),
}
CONTAINER_SECURITY = SECURITY | {
    "run_as_username": ("web", {"run_as_username": "web"}),
    "no_new_privs": (True, {"no_new_privs": True}),
    "add_capabilities": (("A",), {"capabilities.add_capabilities[0]": "A"}),
    "drop_capabilities": (("B",), {"capabilities.drop_capabilities[0]": "B"}),
    "masked_paths": (("/m",), {"masked_paths[0]": "/m"}),
    "readonly_paths": (("/r",), {"readonly_paths[0]": "/r"}),
}
RESOURCES = {
    "cpu_period_us": (100_000, {"cpu_period": 100_000}),
    "cpu_quota_us": (-1, {"cpu_quota": -1}),
    "cpu_shares": (2, {"cpu_shares": 2}),
    "memory_limit_bytes": (2**40, {"memory_limit_in_bytes": 2**40}),
    "memory_swap_limit_bytes": (2**41, {"memory_swap_limit_in_bytes": 2**41}),
    "oom_score_adj": (-997, {"oom_score_adj": -997}),
    "hugepage_limits": (
        {"2Mi": 4},
        {"hugepage_limits[0].page_size": "2Mi", "hugepage_limits[0].limit": 4},
    ),
    "unified": ({"memory.min": "1"}, {"unified[memory.min]": "1"}),
}
SANDBOX_FIELDS = {
    "uid": ("other", {"metadata.uid": "other"}),
    "name": ("other", {"metadata.name": "other"}),
    "namespace": ("other", {"metadata.namespace": "other"}),
    "attempt": (3, {"metadata.attempt": 3}),
    "hostname": ("h", {"hostname": "h"}),
    "log_directory": ("/l", {"log_directory": "/l"}),
    "dns": (
        DNSConfig(("1.1.1.1",), ("s",), ("ndots:5",)),
        {"dns_config.servers[0]": "1.1.1.1", "dns_config.searches[0]": "s", "dns_config.options[0]": "ndots:5"},
    ),
    "port_mappings": (
        (PortMapping(80, 8080, Protocol.SCTP, "::1"),),
        {
            "port_mappings[0].container_port": 80,
            "port_mappings[0].host_port": 8080,
            "port_mappings[0].protocol": pb.SCTP,
            "port_mappings[0].host_ip": "::1",
        },
    ),
    "labels": ({"a": "b"}, {"labels[a]": "b"}),
    "annotations": ({"a": "b"}, {"annotations[a]": "b"}),
    "cgroup_parent": ("/kubepods", {"linux.cgroup_parent": "/kubepods"}),
    "security": (Security(privileged=True), {"linux.security_context.privileged": True}),
    "sysctls": ({"a": "1"}, {"linux.sysctls[a]": "1"}),
    "resources": (LinuxResources(cpu_shares=2), {"linux.resources.cpu_shares": 2}),
    "overhead": (LinuxResources(cpu_shares=2), {"linux.overhead.cpu_shares": 2}),
    "runtime_handler": ("gvisor", {}),  # of the request, not of the configuration
}
CONTAINER_FIELDS = {
    "name": ("other", {"metadata.name": "other"}),
    "attempt": (3, {"metadata.attempt": 3}),
    "image": ("sha256:1", {"image.image": "sha256:1"}),
    "user_specified_image": ("busybox", {"image.user_specified_image": "busybox"}),
    "command": (("a", "b"), {"command[0]": "a", "command[1]": "b"}),
    "args": (("a", "b"), {"args[0]": "a", "args[1]": "b"}),
    "working_dir": ("/w", {"working_dir": "/w"}),
    "envs": ((("K", "ü"),), {"envs[0].key": "K", "envs[0].value": "ü".encode()}),
    "mounts": (
        (Mount("/c", "/h", True, True, Propagation.BIDIRECTIONAL, True),),
        {
            "mounts[0].container_path": "/c",
            "mounts[0].host_path": "/h",
            "mounts[0].readonly": True,
            "mounts[0].selinux_relabel": True,
            "mounts[0].propagation": pb.PROPAGATION_BIDIRECTIONAL,
            "mounts[0].recursive_read_only": True,
        },
    ),
    "devices": (
        (Device("/dev/c", "/dev/h", "rw"),),
        {
            "devices[0].container_path": "/dev/c",
            "devices[0].host_path": "/dev/h",
            "devices[0].permissions": "rw",
        },
    ),
    "cdi_devices": (("vendor.com/gpu=one",), {"CDI_devices[0].name": "vendor.com/gpu=one"}),
    "labels": ({"a": "b"}, {"labels[a]": "b"}),
    "annotations": ({"a": "b"}, {"annotations[a]": "b"}),
    "log_path": ("c/0.log", {"log_path": "c/0.log"}),
    "stdin": (True, {"stdin": True}),
    "stdin_once": (True, {"stdin_once": True}),
    "tty": (True, {"tty": True}),
    "resources": (LinuxResources(cpu_shares=2), {"linux.resources.cpu_shares": 2}),
    "security": (Security(privileged=True), {"linux.security_context.privileged": True}),
    "stop_signal": (pb.SIGNAL_SIGUSR1, {"stop_signal": pb.SIGNAL_SIGUSR1}),
}

MOUNT = {
    "container_path": ("/c", {"container_path": "/c"}),
    "host_path": ("/h", {"host_path": "/h"}),
    "readonly": (True, {"readonly": True}),
    "selinux_relabel": (True, {"selinux_relabel": True}),
    "propagation": (Propagation.HOST_TO_CONTAINER, {"propagation": pb.PROPAGATION_HOST_TO_CONTAINER}),
    "recursive_read_only": (True, {"recursive_read_only": True}),
    "sub_path": ("bin", {"image_sub_path": "bin"}),
    "image": ("sha256:1", {"image.image": "sha256:1"}),
    "user_specified_image": ("tools:1", {"image.user_specified_image": "tools:1"}),
}


def mount(wanted: Mount) -> Message:
    return to_wire.container_config(dataclasses.replace(CONTAINER, mounts=(wanted,))).mounts[0]


def sandbox_security(security: Security) -> Message:
    return to_wire.sandbox_config(dataclasses.replace(SANDBOX, security=security)).linux.security_context


def container_security(security: Security) -> Message:
    return to_wire.container_config(dataclasses.replace(CONTAINER, security=security)).linux.security_context


def rows(write, base, fields):
    return [pytest.param(write, base, name, *row, id=f"{write.__name__}-{name}") for name, row in fields.items()]


@pytest.mark.parametrize(
    ("write", "base", "name", "value", "expected"),
    [
        *rows(to_wire.sandbox_config, SANDBOX, SANDBOX_FIELDS),
        *rows(to_wire.container_config, CONTAINER, CONTAINER_FIELDS),
        *rows(to_wire.resources, LinuxResources(), RESOURCES),
        *rows(mount, Mount("", "", image="sha256:0"), MOUNT),
        *rows(sandbox_security, Security(), SECURITY),
        *rows(container_security, Security(), CONTAINER_SECURITY),
    ],
)
def test_each_field_lands_in_its_own_place_and_nowhere_else(write, base, name, value, expected):
    before = leaves(write(base))
    after = leaves(write(dataclasses.replace(base, **{name: value})))

    assert expected == {path: leaf for path, leaf in after.items() if path not in before or before[path] != leaf}


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (SandboxConfig, SANDBOX_FIELDS),
        (ContainerConfig, CONTAINER_FIELDS),
        (LinuxResources, RESOURCES),
        (Mount, MOUNT),
        (Security, CONTAINER_SECURITY),
    ],
)
def test_no_field_of_a_configuration_is_forgotten_in_these_tables(record, fields):
    assert {field.name for field in dataclasses.fields(record)} == set(fields)


@pytest.mark.parametrize(
    ("ours", "theirs", "prefix"),
    [
        (NamespaceMode, pb.NamespaceMode, ""),
        (Propagation, pb.MountPropagation, "PROPAGATION_"),
        (Protocol, pb.Protocol, ""),
        (ContainerState, pb.ContainerState, "CONTAINER_"),
        (SandboxState, pb.PodSandboxState, "SANDBOX_"),
    ],
)
def test_our_enumerations_have_the_names_and_numbers_of_the_wire(ours, theirs, prefix):
    assert dict(theirs.items()) == {prefix + member.name: member.value for member in ours}


def test_profile_types_have_the_numbers_of_the_wire():
    names = {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2}
    assert names == dict(pb.SecurityProfile.ProfileType.items())
    assert list(names.values()) == [ProfileType.RUNTIME_DEFAULT, ProfileType.UNCONFINED, ProfileType.LOCALHOST]


def test_what_is_not_asked_for_is_not_in_the_message():
    sandbox, container = to_wire.sandbox_config(SANDBOX), to_wire.container_config(CONTAINER)
    context = container.linux.security_context

    assert not sandbox.HasField("dns_config")
    assert not sandbox.linux.HasField("resources")
    assert not sandbox.linux.HasField("overhead")
    absent = ("run_as_user", "run_as_group", "selinux_options", "seccomp", "apparmor")
    assert [] == [name for name in absent if context.HasField(name)]
    assert [] == [name for name in absent if sandbox.linux.security_context.HasField(name)]


def test_a_pod_without_users_of_its_own_is_said_to_have_the_nodes():
    for security in (sandbox_security(Security()), container_security(Security())):
        assert {"mode": pb.NODE} == leaves(security.namespace_options.userns_options)


def test_users_of_a_pods_own_are_the_sandboxs_the_containers_and_those_of_every_mount():
    security = Security(namespaces=Namespaces(users=IdRange(131072, 65536)))
    mapped = [pb.IDMapping(host_id=131072, container_id=0, length=65536)]
    config = dataclasses.replace(CONTAINER, security=security, mounts=(Mount("/a", "/b"), Mount("/c", "", image="i")))

    expected = pb.UserNamespace(mode=pb.POD, uids=mapped, gids=mapped)
    for context in (sandbox_security(security), to_wire.container_config(config).linux.security_context):
        assert expected == context.namespace_options.userns_options
    for mount in to_wire.container_config(config).mounts:
        assert (mapped, mapped) == (list(mount.uidMappings), list(mount.gidMappings))


def test_a_user_of_zero_is_asked_for():
    context = to_wire.container_config(dataclasses.replace(CONTAINER, security=Security(run_as_user=0)))
    assert context.linux.security_context.HasField("run_as_user")


def test_a_number_the_wire_does_not_have_is_refused():
    with pytest.raises(ValueError, match="99"):
        to_wire.container_config(dataclasses.replace(CONTAINER, stop_signal=99))


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
pairs = st.lists(st.tuples(words, words), max_size=6).map(tuple)


@given(pairs, st.dictionaries(words, words, max_size=4), st.lists(words, max_size=4).map(tuple))
def test_orders_repetitions_and_any_text_survive_the_wire(envs, labels, args):
    config = dataclasses.replace(CONTAINER, envs=envs, labels=labels, args=args)
    read = pb.ContainerConfig.FromString(to_wire.container_config(config).SerializeToString())

    assert envs == tuple((env.key, env.value.decode()) for env in read.envs)
    assert labels == dict(read.labels)
    assert args == tuple(read.args)


# ---- replies ----


def test_a_sandboxs_status_is_read_whole():
    reply = pb.PodSandboxStatusResponse(
        status=pb.PodSandboxStatus(
            id="s",
            metadata=pb.PodSandboxMetadata(name="n", uid="u", namespace="ns", attempt=2),
            state=pb.SANDBOX_NOTREADY,
            created_at=5,
            network=pb.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[pb.PodIP(ip="fd00::1")]),
            linux=pb.LinuxPodSandboxStatus(
                namespaces=pb.Namespace(options=pb.NamespaceOption(network="NODE")),
            ),
            runtime_handler="runc",
            labels={"l": "1"},
            annotations={"a": "1"},
        )
    )
    expected = SandboxStatus(
        id="s",
        uid="u",
        name="n",
        namespace="ns",
        attempt=2,
        state=SandboxState.NOTREADY,
        created_at=5,
        ips=("10.0.0.1", "fd00::1"),
        host_network=True,
        runtime_handler="runc",
    )

    assert expected == from_wire.sandbox_status(reply)


def test_a_sandbox_without_metadata_or_addresses_is_read_as_far_as_it_goes():
    status = pb.PodSandboxStatus(id="s", labels={"io.kubernetes.pod.uid": "u"})
    found = from_wire.sandbox_status(pb.PodSandboxStatusResponse(status=status))

    assert ("u", (), False, SandboxState.READY) == (found.uid, found.ips, found.host_network, found.state)


def test_a_containers_status_is_read_whole():
    reply = pb.ContainerStatusResponse(
        status=pb.ContainerStatus(
            id="c",
            metadata=pb.ContainerMetadata(name="n", attempt=4),
            state=pb.CONTAINER_EXITED,
            created_at=1,
            started_at=2,
            finished_at=3,
            exit_code=137,
            reason="OOMKilled",
            message="m",
            image=pb.ImageSpec(image="sha256:1", user_specified_image="busybox"),
            image_ref="busybox@sha256:2",
            image_id="sha256:3",
            log_path="/l",
            labels={"l": "1"},
            annotations={
                "io.kubernetes.container.hash": "abc",
                "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            },
        )
    )
    expected = ContainerStatus(
        id="c",
        name="n",
        attempt=4,
        state=ContainerState.EXITED,
        created_at=1,
        started_at=2,
        finished_at=3,
        exit_code=137,
        reason="OOMKilled",
        message="m",
        image="busybox",
        image_ref="busybox@sha256:2",
        image_id="sha256:3",
        log_path="/l",
        hash="abc",
        termination_path="/dev/termination-log",
    )

    assert expected == from_wire.container_status(reply)


def number(value):
    return pb.UInt64Value(value=value)


def test_what_a_container_uses_is_read_whole_and_what_is_not_told_is_not_zero():
    stats = pb.ContainerStats(
        attributes=pb.ContainerAttributes(id="c"),
        cpu=pb.CpuUsage(timestamp=1, usage_core_nano_seconds=number(2)),
        memory=pb.MemoryUsage(
            timestamp=3,
            usage_bytes=number(4),
            working_set_bytes=number(5),
            rss_bytes=number(0),
            page_faults=number(6),
            major_page_faults=number(7),
        ),
        swap=pb.SwapUsage(swap_usage_bytes=number(8)),
        writable_layer=pb.FilesystemUsage(timestamp=9, used_bytes=number(10), inodes_used=number(11)),
    )

    wanted = ContainerStats("c", Usage(1, 2, 4, 5, 0, 6, 7, 8), FsUsage(9, 10, 11))
    assert wanted == from_wire.container_stats(stats)
    empty = pb.ContainerStats(attributes=pb.ContainerAttributes(id="c"), memory=pb.MemoryUsage(timestamp=3))
    assert ContainerStats("c", Usage(3)) == from_wire.container_stats(empty)


def test_stores_of_images_and_layers_are_read():
    def place(path, used):
        return pb.FilesystemUsage(timestamp=1, fs_id=pb.FilesystemIdentifier(mountpoint=path), used_bytes=number(used))

    reply = pb.ImageFsInfoResponse(image_filesystems=[place("/i", 2)], container_filesystems=[place("/c", 3)])
    wanted = ImageStores((ImageStore("/i", FsUsage(1, 2)),), (ImageStore("/c", FsUsage(1, 3)),))
    assert wanted == from_wire.image_stores(reply)


def test_an_older_runtime_tells_an_image_by_its_name_and_reference_alone():
    status = pb.ContainerStatus(image=pb.ImageSpec(image="busybox"), image_ref="ref")
    found = from_wire.container_status(pb.ContainerStatusResponse(status=status))

    assert ("busybox", "ref") == (found.image, found.image_id)


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (0, ContainerState.CREATED),
        (1, ContainerState.RUNNING),
        (2, ContainerState.EXITED),
        (3, ContainerState.UNKNOWN),
        (4, ContainerState.UNKNOWN),
        (-1, ContainerState.UNKNOWN),
    ],
)
def test_container_states_and_unknown_ones(number, state):
    reply = pb.ContainerStatusResponse(status=pb.ContainerStatus(state=number))
    assert state is from_wire.container_status(reply).state


# In the words of containerd 2.2.9 and 1.6.20, whose callers were gone at one moment or another.
TASK = "failed to create containerd task: "


@pytest.mark.parametrize(
    ("expected", "message", "over"),
    [
        (ContainerState.CREATED, f"{TASK}context canceled", {}),
        (ContainerState.CREATED, f"{TASK}failed to create shim task: context deadline exceeded: unknown", {}),
        (ContainerState.CREATED, 'failed to start containerd task "c": context canceled', {}),
        (ContainerState.CREATED, f"{TASK}failed to start shim: start failed: : signal: killed: unknown", {}),
        (ContainerState.EXITED, f'{TASK}failed to create shim task: exec: "/nope": no such file or directory', {}),
        (ContainerState.EXITED, f"{TASK}OCI runtime create failed: container init: signal: killed: unknown", {}),
        (ContainerState.EXITED, f"{TASK}context canceled", {"started_at": 1}),
        (ContainerState.EXITED, "context canceled", {"reason": "Error"}),
        (ContainerState.RUNNING, f"{TASK}context canceled", {"state": pb.CONTAINER_RUNNING}),
    ],
)
def test_container_with_a_rolled_back_start_never_started(expected, message, over):
    told = {"state": pb.CONTAINER_EXITED, "reason": "StartError", "exit_code": 128, "message": message} | over
    reply = pb.ContainerStatusResponse(status=pb.ContainerStatus(**told))

    assert expected is from_wire.container_status(reply).state


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (NO_PROGRAM, f"{TASK}failed to get task pid: context canceled"),
        ("StartError", f"{TASK}context canceled"),
        ("StartError", 'failed to start containerd task "c": context canceled'),
        ("StartError", f"{TASK}failed to get task pid: no such process"),  # nobody gave that up: it has ended
    ],
)
def test_of_a_start_that_was_given_up_it_is_told_whether_its_program_may_run(expected, message):
    told = {"state": pb.CONTAINER_EXITED, "reason": "StartError", "exit_code": 128, "message": message}
    reply = pb.ContainerStatusResponse(status=pb.ContainerStatus(**told))

    assert expected == from_wire.container_status(reply).reason


@pytest.mark.parametrize(
    ("number", "state"), [(0, SandboxState.READY), (1, SandboxState.NOTREADY), (2, SandboxState(1))]
)
def test_sandbox_states_and_unknown_ones(number, state):
    reply = pb.PodSandboxStatusResponse(status=pb.PodSandboxStatus(state=number))
    assert state is from_wire.sandbox_status(reply).state


def test_the_runtime_is_known_by_its_version_and_its_conditions():
    version = pb.VersionResponse(
        version="0.1.0", runtime_name="containerd", runtime_version="v2", runtime_api_version="v1"
    )
    condition = pb.RuntimeCondition(type="NetworkReady", status=False, reason="r", message="m")
    status = pb.StatusResponse(status=pb.RuntimeStatus(conditions=[condition]))
    expected = RuntimeInfo("containerd", "v2", "v1", (RuntimeCondition("NetworkReady", False, "r", "m"),))

    assert expected == from_wire.runtime_info(version, status)


@pytest.mark.parametrize("uid", [None, 0, 1000])
def test_image_is_read_whole_with_root_as_its_user(uid):
    image = pb.Image(
        id="i",
        repo_tags=["t"],
        repo_digests=["d"],
        size=3 * 2**30,
        uid=None if uid is None else pb.Int64Value(value=uid),
        username="web",
        pinned=True,
    )

    assert ImageInfo("i", ("t",), ("d",), 3 * 2**30, uid, "web", True) == from_wire.image_info(image)


def test_event_names_the_pod_to_relist():
    event = pb.ContainerEventResponse(
        container_id="c",
        container_event_type=pb.CONTAINER_DELETED_EVENT,
        created_at=9,
        pod_sandbox_status=pb.PodSandboxStatus(metadata=pb.PodSandboxMetadata(uid="u")),
    )

    assert ContainerEvent("u", "c", pb.CONTAINER_DELETED_EVENT, 9) == from_wire.container_event(event)


@pytest.mark.parametrize(
    ("host_path", "expected"),
    [
        ("/var/lib/kubelet/pods/u/containers/main/1f2e3d4c", "1f2e3d4c"),  # upstream's kubelet
        ("/var/lib/kubelet/pods/u/containers/main/2", ""),  # this agent, attempt 2
        ("/etc/shadow", ""),  # a volume of the pod's own in that place
        ("/var/lib/kubelet/pods/u/containers/other/1f2e3d4c", ""),
        ("/var/lib/kubelet/pods/u/containers/main/..", ""),
    ],
)
def test_file_of_a_termination_message_is_known_by_its_mount(host_path: str, expected: str) -> None:
    place = "/dev/termination-log"
    status = pb.ContainerStatus(
        metadata=pb.ContainerMetadata(name="main", attempt=2),
        annotations={"io.kubernetes.container.terminationMessagePath": place},
        mounts=[
            pb.Mount(container_path="/etc/hosts", host_path="/var/lib/kubelet/pods/u/containers/main/hosts"),
            pb.Mount(container_path=place, host_path=host_path),
        ],
    )
    assert expected == from_wire.container_status(pb.ContainerStatusResponse(status=status)).termination_file
