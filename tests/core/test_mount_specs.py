"""A container's mounts: its volumes, the managed hosts file, the termination message file, and what is refused."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.allowance import of_container
from trikubelet.core.containers.mounts import devices, mounts
from trikubelet.model import k8s
from trikubelet.model.runtime_config import Device, Mount, Propagation

SCRATCH = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
NODES = k8s.Volume(name="nodes", host_path=k8s.HostPathVolumeSource(path="/etc"))
DATA = k8s.Volume(name="made-of-data", secret=k8s.SecretVolumeSource(secret_name="s"))
PATHS = {"scratch": "/pods/u/scratch", "nodes": "/etc", "made-of-data": "/pods/u/data"}
VARIABLES = {"A": "one", "UP": "../x", "ROOT": "/x", "EMPTY": ""}
ABLE, UNABLE = NodeFacts("n", recursive_read_only=True), NodeFacts("n")


def mounted(
    *volume_mounts: k8s.VolumeMount, facts: NodeFacts = UNABLE, hosts: str = "", log: str = "", **fields: Any
) -> tuple[Mount, ...]:
    it = container("a", volume_mounts=volume_mounts, **fields)
    it_in_pod = pod(it, volumes=(SCRATCH, NODES, DATA))
    return mounts(it_in_pod, it, PATHS, facts, VARIABLES, of_container(), hosts_path=hosts, termination_log_path=log)


def at(path: str, name: str = "scratch", **fields: Any) -> k8s.VolumeMount:
    return k8s.VolumeMount(name=name, mount_path=path, **fields)


def test_volumes_are_mounted_in_order_and_only_the_pods_own_are_relabelled() -> None:
    assert (
        Mount("/data", "/pods/u/scratch", selinux_relabel=True),
        Mount("/conf", "/etc", readonly=True),
    ) == mounted(at("/data"), at("/conf", "nodes", read_only=True))


def test_what_is_made_of_data_is_read_only_whatever_is_asked_for() -> None:
    assert (Mount("/keys", "/pods/u/data", readonly=True, selinux_relabel=True),) == mounted(
        at("/keys", "made-of-data", read_only=False)
    )


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
        pytest.param(
            "error SubPath `/x` must not be an absolute path",
            at("/data", sub_path_expr="$(ROOT)"),
            UNABLE,
            id="a variable that leads to the root",
        ),
        pytest.param(
            r"unable to provision SubPath `a/\.\./x`: must not contain '\.\.'",
            at("/data", sub_path_expr="a/$(UP)"),
            UNABLE,
            id="a variable that leads up",
        ),
        pytest.param("must not contain", at("/data", sub_path="a/../../b"), UNABLE, id="a part that leads up"),
        pytest.param(
            "missing value for B, EMPTY",
            at("/data", sub_path_expr="$(EMPTY)/$(A)/$(B)"),
            UNABLE,
            id="variables without a value",
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


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        ("", {}),
        ("a/b", {"sub_path": "a/b"}),
        ("$(A)", {"sub_path": "$(A)"}),
        ("x/one", {"sub_path_expr": "x/$(A)"}),
        ("..one/b..", {"sub_path_expr": "..$(A)/b.."}),
    ],
)
def test_a_part_of_a_volume_is_named_by_text_or_by_the_containers_variables(
    expected: str, asked: dict[str, str]
) -> None:
    assert expected == mounted(at("/data", **asked))[0].sub_path


CLAIMED = k8s.PersistentVolumeClaimVolumeSource(claim_name="c", read_only=True)
IMAGE = k8s.Volume(name="v", image=k8s.ImageVolumeSource(reference="tools:1"))


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(k8s.Volume(name="v", persistent_volume_claim=CLAIMED), id="a claim"),
        pytest.param(k8s.Volume(name="v", nfs=k8s.NFSVolumeSource(server="s", path="/", read_only=True)), id="nfs"),
    ],
)
def test_a_volume_that_is_read_only_as_a_whole_is_mounted_so(volume: k8s.Volume) -> None:
    it = container("a", volume_mounts=(at("/data", "v", read_only=False),))

    assert (Mount("/data", "/mnt", readonly=True),) == mounts(
        pod(it, volumes=(volume,)), it, {"v": "/mnt"}, UNABLE, {}, of_container()
    )


def test_an_image_is_the_runtimes_to_mount_with_its_part_and_read_only() -> None:
    it = container("a", volume_mounts=(at("/data", "v", sub_path="bin"),))
    expected = Mount("/data", "", readonly=True, image="sha256:1", user_specified_image="tools:1", sub_path="bin")

    assert (expected,) == mounts(pod(it, volumes=(IMAGE,)), it, {"v": "sha256:1"}, UNABLE, {}, of_container())


@pytest.mark.parametrize(("expected", "read_only"), [("r", True), ("mrw", False), ("mrw", None)])
def test_a_block_volume_is_a_device(expected: str, read_only: bool | None) -> None:
    it = container("a", volume_devices=(k8s.VolumeDevice(name="v", device_path="/dev/mine"),))
    claim = k8s.PersistentVolumeClaimVolumeSource(claim_name="c", read_only=read_only)
    it_in_pod = pod(it, volumes=(k8s.Volume(name="v", persistent_volume_claim=claim),))

    assert (Device("/dev/mine", "/dev/loop7", expected),) == devices(it_in_pod, it, {"v": "/dev/loop7"})
    assert () == mounts(it_in_pod, it, {"v": "/dev/loop7"}, UNABLE, {}, of_container())


def test_a_block_volume_that_is_not_there_fails_the_container() -> None:
    it = container("a", volume_devices=(k8s.VolumeDevice(name="absent", device_path="/dev/v"),))

    with pytest.raises(ConfigError, match="cannot find volume 'absent'"):
        devices(pod(it), it, {})


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
