"""A container's mounts: its volumes, the managed hosts file, the termination message file, and what is refused."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.mounts import mounts
from trikubelet.model import k8s
from trikubelet.model.runtime_config import Mount, Propagation

SCRATCH = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
NODES = k8s.Volume(name="nodes", host_path=k8s.HostPathVolumeSource(path="/etc"))
PATHS = {"scratch": "/pods/u/scratch", "nodes": "/etc"}
ABLE, UNABLE = NodeFacts("n", recursive_read_only=True), NodeFacts("n")


def mounted(
    *volume_mounts: k8s.VolumeMount, facts: NodeFacts = UNABLE, hosts: str = "", log: str = "", **fields: Any
) -> tuple[Mount, ...]:
    it = container("a", volume_mounts=volume_mounts, **fields)
    return mounts(pod(it, volumes=(SCRATCH, NODES)), it, PATHS, facts, hosts_path=hosts, termination_log_path=log)


def at(path: str, name: str = "scratch", **fields: Any) -> k8s.VolumeMount:
    return k8s.VolumeMount(name=name, mount_path=path, **fields)


def test_volumes_are_mounted_in_order_and_only_the_pods_own_are_relabelled() -> None:
    assert (
        Mount("/data", "/pods/u/scratch", selinux_relabel=True),
        Mount("/conf", "/etc", readonly=True),
    ) == mounted(at("/data"), at("/conf", "nodes", read_only=True))


def test_a_relative_path_begins_at_the_root() -> None:
    assert "/data/x" == mounted(at("data/x"))[0].container_path


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        (Propagation.PRIVATE, ""),
        (Propagation.PRIVATE, "None"),
        (Propagation.HOST_TO_CONTAINER, "HostToContainer"),
        (Propagation.BIDIRECTIONAL, "Bidirectional"),
    ],
)
def test_propagation_is_what_is_asked_for(expected: Propagation, asked: str) -> None:
    assert expected == mounted(at("/data", mount_propagation=asked))[0].propagation


@pytest.mark.parametrize(
    ("expected", "asked", "read_only", "facts"),
    [
        pytest.param(False, "", True, ABLE, id="not asked for"),
        pytest.param(False, "Disabled", True, ABLE, id="not wanted"),
        pytest.param(True, "Enabled", True, ABLE, id="wanted"),
        pytest.param(True, "IfPossible", True, ABLE, id="possible"),
        pytest.param(False, "IfPossible", True, UNABLE, id="not possible"),
        pytest.param(False, "IfPossible", False, ABLE, id="not read-only at all"),
    ],
)
def test_read_only_all_the_way_down(expected: bool, asked: str, read_only: bool, facts: NodeFacts) -> None:
    mount = at("/data", read_only=read_only, recursive_read_only=asked)

    assert expected == mounted(mount, facts=facts)[0].recursive_read_only


@pytest.mark.parametrize(
    ("told", "mount", "facts"),
    [
        pytest.param("cannot find volume 'absent'", at("/data", "absent"), UNABLE, id="a volume that is not there"),
        pytest.param("subPath is not supported yet", at("/data", sub_path="a"), UNABLE, id="a part of a volume"),
        pytest.param(
            "subPath is not supported yet", at("/data", sub_path_expr="$(A)"), UNABLE, id="a part by a variable"
        ),
        pytest.param(
            "this node's runtime cannot do it",
            at("/data", read_only=True, recursive_read_only="Enabled"),
            UNABLE,
            id="read-only all the way, which cannot be had",
        ),
        pytest.param(
            "it needs readOnly: true", at("/data", recursive_read_only="Enabled"), ABLE, id="read-only below writable"
        ),
    ],
)
def test_what_cannot_be_mounted_so_fails_the_container(told: str, mount: k8s.VolumeMount, facts: NodeFacts) -> None:
    with pytest.raises(ConfigError, match=told) as failed:
        mounted(mount, facts=facts)
    assert "a" == failed.value.container


def test_a_block_device_fails_the_container() -> None:
    with pytest.raises(ConfigError, match="block devices are not supported yet"):
        mounted(volume_devices=(k8s.VolumeDevice(name="v", device_path="/dev/v"),))


def test_the_managed_hosts_file_is_mounted_unless_the_container_has_its_own() -> None:
    managed = Mount("/etc/hosts", "/pods/u/etc-hosts", selinux_relabel=True)

    assert (managed,) == mounted(hosts="/pods/u/etc-hosts")
    for own in ("/etc/hosts", "/etc/hosts/", "etc/hosts"):
        assert managed not in mounted(at(own), hosts="/pods/u/etc-hosts")
    assert managed in mounted(at("/etc/hosts.d"), hosts="/pods/u/etc-hosts")


def test_the_termination_message_file_is_mounted_where_the_spec_says() -> None:
    assert (Mount("/dev/termination-log", "/pods/u/a/0", selinux_relabel=True),) == mounted(
        log="/pods/u/a/0", termination_message_path="/dev/termination-log"
    )
    assert () == mounted(log="/pods/u/a/0", termination_message_path="")
    assert () == mounted(log="", termination_message_path="/dev/termination-log")
