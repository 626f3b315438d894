"""What a container may ask of the embedded runtime: carried out or refused with the way out, never passed over."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Any

import pytest

from trikubelet.cri import to_wire
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.embedded import spec
from trikubelet.embedded.images import host_image
from trikubelet.embedded.link import Isolation
from trikubelet.embedded.spec import Machine, User
from trikubelet.embedded.stats import parse_stat
from trikubelet.model.runtime_config import (
    ContainerConfig,
    Mount,
    NamespaceMode,
    Namespaces,
    ProfileType,
    Propagation,
    SandboxConfig,
    Security,
    SecurityProfile,
)
from trikubelet.model.runtime_errors import InvalidArgument

USERS = {
    0: User(0, 0, (0,), "/root"),
    1000: User(1000, 1000, (1000, 27), "/home/u"),
    "u": User(1000, 1000, (), "/home/u"),
}


def find_user(wanted: int | str) -> User:
    return USERS[wanted]


ROOT = Machine(Isolation("root", ""), 0, 0, "/staging", True, find_user)
USER = Machine(Isolation("user namespace", ""), 1000, 1000, "/staging", False, find_user)
BARE = Machine(Isolation("none", "not permitted"), 1000, 1000, "/staging", False, find_user)
SANDBOX = to_wire.sandbox_config(SandboxConfig("uid-1", "pod", "default", 0, hostname="pod"))


def described(machine: Machine, **config: Any) -> dict[str, Any]:
    config.setdefault("command", ("true",))
    return spec.describe(to_wire.container_config(ContainerConfig("c", 0, "host", **config)), SANDBOX, machine)


@pytest.mark.parametrize(
    ("image", "known"),
    [
        ("host", "host"),
        ("host:latest", "host"),
        ("docker.io/library/host:latest", "host"),
        ("host/web", "host/web"),
        ("host/", None),
        ("host:2", None),
        ("ghost", None),
        ("quay.io/host", None),
        ("", None),
    ],
)
def test_the_image_host_and_names_under_it_are_this_machine(image: str, known: str | None) -> None:
    assert known == host_image(image)


@pytest.mark.parametrize(
    ("machine", "config", "message"),
    [
        (ROOT, {"command": ()}, "no command of its own"),
        (ROOT, {"command": ("a\0b",)}, "null character"),
        (ROOT, {"envs": (("GOOD", "a"), ("BAD", "a\0"), ("A=B", ""))}, "that no process can have: 'BAD', 'A=B':"),
        (ROOT, {"tty": True}, "no terminals"),
        (ROOT, {"security": Security(seccomp=SecurityProfile(ProfileType.LOCALHOST, "p"))}, "no seccomp"),
        (ROOT, {"security": Security(namespaces=Namespaces(pid=NamespaceMode.NODE))}, "processes of its own"),
        (ROOT, {"security": Security(add_capabilities=("NONSENSE",))}, "unknown capabilities: NONSENSE"),
        (ROOT, {"security": Security(run_as_username="nemo")}, "no user nemo"),
        (ROOT, {"mounts": (Mount("/a", "/b", propagation=Propagation.BIDIRECTIONAL),)}, "mount of /b at /a"),
        (USER, {"security": Security(privileged=True)}, "only when the agent is root"),
        (USER, {"security": Security(add_capabilities=("NET_ADMIN",))}, "only when the agent is root"),
        (USER, {"security": Security(run_as_user=0)}, "cannot run as user 0, group 0: the agent runs as user 1000"),
        (USER, {"security": Security(run_as_group=5)}, "cannot run as user 1000, group 5"),
        (USER, {"security": Security(supplemental_groups=(7,))}, "fsGroup"),
        (BARE, {"mounts": (Mount("/a", "/b"),)}, "mount of /b at /a: no mounts are possible here (not permitted)"),
        (BARE, {"mounts": (Mount("/b", "/b", readonly=True),)}, "mount of /b at /b"),
        (BARE, {"security": Security(readonly_rootfs=True)}, "read-only without namespaces"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_and_named(machine: Machine, config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        described(machine, **config)


def test_root_gives_a_container_the_user_and_groups_it_asks_for() -> None:
    found = described(ROOT, security=Security(run_as_user=1000, supplemental_groups=(7,)))

    assert (1000, 1000, [7, 1000, 27], "/home/u") == (
        found["uid"],
        found["gid"],
        found["groups"],
        found["env"]["HOME"],
    )


def test_a_user_that_may_not_change_keeps_the_groups_it_has_and_may_ask_for_them() -> None:
    machine = replace(USER, groups=frozenset({27}))

    found = described(machine, security=Security(supplemental_groups=(27, USER.gid)))

    assert (None, None, None) == (found["uid"], found["gid"], found["groups"])
    with pytest.raises(InvalidArgument, match=r"groups \[7\] \(fsGroup is one\): the agent's user is not in them"):
        described(machine, security=Security(supplemental_groups=(27, 7)))


def test_a_user_the_machine_does_not_know_runs_in_group_0() -> None:
    assert (4711, 0) == tuple(described(ROOT, security=Security(run_as_user=4711))[key] for key in ("uid", "gid"))


@pytest.mark.parametrize("machine", [ROOT, USER, BARE])
def test_own_user_is_not_changed(machine: Machine) -> None:
    found = described(machine)

    assert (None, None, None) == (found["uid"], found["gid"], found["groups"])


def test_a_container_keeps_the_usual_capabilities_with_what_it_adds_and_without_what_it_drops() -> None:
    def kept(**security: Any) -> set[str]:
        dropped = described(ROOT, security=Security(**security))["drop_capabilities"]
        return {name for number, name in enumerate(spec.CAPABILITIES) if number not in dropped}

    assert spec.DEFAULT_CAPABILITIES == kept()
    assert {"NET_ADMIN"} == kept(drop_capabilities=("ALL",), add_capabilities=("CAP_NET_ADMIN",))
    assert spec.DEFAULT_CAPABILITIES - {"KILL"} == kept(drop_capabilities=("KILL",))
    assert set(spec.CAPABILITIES) == kept(privileged=True)
    assert 41 == len(spec.CAPABILITIES)
    assert "SYS_ADMIN" == spec.CAPABILITIES[21]


def test_without_namespaces_the_kubelets_own_files_are_named_in_the_environment() -> None:
    found = described(
        BARE,
        mounts=(
            Mount("/etc/hosts", "/var/lib/kubelet/pods/uid-1/etc-hosts"),
            Mount("/dev/termination-log", "/var/lib/kubelet/pods/uid-1/containers/c/0"),
            Mount("/same", "/same"),
        ),
    )

    assert [] == found["mounts"]
    assert "/var/lib/kubelet/pods/uid-1/etc-hosts" == found["env"]["TRIKUBELET_HOSTS"]
    assert "/var/lib/kubelet/pods/uid-1/containers/c/0" == found["env"]["TRIKUBELET_TERMINATION_LOG"]


def test_mounts_are_made_from_the_top_down() -> None:
    mounts = (Mount("/a/b/c", "/1"), Mount("/a", "/2"), Mount("/a/b", "/3"))

    assert ["/a", "/a/b", "/a/b/c"] == [mount["container_path"] for mount in described(ROOT, mounts=mounts)["mounts"]]


@pytest.mark.parametrize("number", pb.Signal.values())
def test_every_stop_signal_of_the_cri_has_a_number(number: int) -> None:
    config = to_wire.container_config(replace(ContainerConfig("c", 0, "host"), stop_signal=number))

    assert 1 <= spec.stop_signal(config) <= 64


def test_stop_signals_are_the_ones_they_are_called() -> None:
    def of(name: str) -> int:
        return spec.stop_signal(pb.ContainerConfig(stop_signal=pb.Signal.Value(name)))

    assert [signal.SIGTERM, signal.SIGTERM, signal.SIGQUIT, signal.SIGRTMIN + 3, signal.SIGRTMAX - 1, 16] == [
        of(name)
        for name in (
            "SIGNAL_RUNTIME_DEFAULT",
            "SIGNAL_SIGTERM",
            "SIGNAL_SIGQUIT",
            "SIGNAL_SIGRTMINPLUS3",
            "SIGNAL_SIGRTMAXMINUS1",
            "SIGNAL_SIGSTKFLT",
        )
    ]


def test_a_process_named_to_confuse_is_read_right() -> None:
    line = b"42 (a) R 1 ) S 7 42 42 0 -1 4194560 100 0 5 0 10 20 3 4 20 0 1 0 100 1000000 50 18446744073709551615"
    found = parse_stat(line)

    assert (42, 7, 100, 5) == (found.pid, found.parent, found.minor_faults, found.major_faults)
    assert 0 < found.cpu_ns
    assert 0 < found.rss_bytes
