"""Persistent volumes through claims, bound by a real control plane: directories and devices of the node."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

MIB = 1024**2


@pytest.fixture
def disk(member: ClusterAgent) -> Path:
    """A directory of the node."""
    disk = member.directory / "disk"
    disk.mkdir()
    return disk


@pytest.fixture
def device(member: ClusterAgent) -> Iterator[str]:
    """A block device of the node: a file as a loop device."""
    file = member.directory / "device"
    with file.open("wb") as opened:
        opened.truncate(MIB)
    command = ["losetup", "--find", "--show", str(file)]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    yield path
    subprocess.run(["losetup", "--detach", path], check=True)


@pytest.fixture(autouse=True)
def _claims(member: ClusterAgent) -> Iterator[None]:
    """No claim or volume is left behind."""
    yield
    kubectl = member.plane.kubectl
    kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    kubectl("delete", "persistentvolumeclaims,persistentvolumes", "--all")


def volume(member: ClusterAgent, name: str, **spec: Any) -> dict[str, Any]:
    """A persistent volume of the node, for the claim of that name."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [member.name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "by-hand",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            **spec,
        },
    }


def claim(name: str, **spec: Any) -> dict[str, Any]:
    """A claim for the volume of that name."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "by-hand",
            "volumeName": name,
            **spec,
        },
    }


def claiming(member: ClusterAgent, name: str, script: str, *, device: str = "", **spec: Any) -> dict[str, Any]:
    """A pod on the node that mounts the claim at /v, or has its device."""
    use = {"volumeDevices": [{"name": "v", "devicePath": device}]} if device else {}
    use = use or {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return pod(name, shell("c", script, **use), nodeName=member.name, volumes=volumes, **spec)


def ready(now: Objects) -> bool:
    return bool(now) and all(map(is_ready, now.values()))


def failure_log(member: ClusterAgent, name: str) -> str:
    """What the cluster was told of volumes of the pod that are not ready."""
    selector = f"--field-selector=involvedObject.name={name},reason=FailedMount"
    return "\n".join(event["message"] for event in member.plane.kubectl.get("events", selector)["items"])


def printed(member: ClusterAgent, name: str) -> str:
    """What the pod's container printed so far."""
    return member.command("logs", name).stdout


def test_a_pod_waits_until_its_claim_is_bound_and_gets_its_files_for_its_group(
    member: ClusterAgent, disk: Path
) -> None:
    kubectl = member.plane.kubectl
    (disk / "old").write_text("from before\n")
    script = "cat /v/old; id -G; stat -c %g:%a /v/old /v; touch /v/new; sleep 1000"

    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=claim("local"))
        it = claiming(member, "local", script, securityContext={"fsGroup": 2000, "runAsUser": 1000})
        kubectl("create", "-f-", manifests=it)
        await_that(lambda: "default/local: PVC is not bound" in failure_log(member, "local"), 60, member.story)

        there = volume(member, "local", local={"path": str(disk)})
        there["metadata"]["annotations"] = {"pv.beta.kubernetes.io/gid": "3000"}
        kubectl("create", "-f-", manifests=there)
        pods.wait(ready, "it runs", 60, member.story)
        await_that(
            lambda: "2770\n" in printed(member, "local") or "2775\n" in printed(member, "local"), 60, member.story
        )
        told = printed(member, "local").splitlines()
        assert "from before" == told[0]
        assert {"2000", "3000"} <= set(told[1].split())
        assert told[2].startswith("2000:66")
        await_that((disk / "new").exists, 60, member.story)
        assert (1000, 2000) == ((disk / "new").stat().st_uid, (disk / "new").stat().st_gid)

        kubectl("delete", "pod", "local")
        pods.wait(lambda now: not now, "it is gone", story=member.story)
    assert {"old", "new"} == set(os.listdir(disk))


def test_a_host_path_behind_a_claim_that_is_read_only_cannot_be_written(member: ClusterAgent, disk: Path) -> None:
    kubectl = member.plane.kubectl
    (disk / "old").write_text("from before\n")
    it = claiming(member, "path", "cat /v/old; touch /v/new; sleep 1000")
    it["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=volume(member, "path", hostPath={"path": str(disk), "type": "Directory"}))
        kubectl("create", "-f-", manifests=claim("path"))
        kubectl("create", "-f-", manifests=it)
        pods.wait(ready, "it runs", 60, member.story)
        await_that(lambda: "Read-only file system" in printed(member, "path"), 60, member.story)
    assert ["old"] == os.listdir(disk)


def test_a_volume_of_another_node_is_not_taken_for_one_of_this(member: ClusterAgent, disk: Path) -> None:
    kubectl = member.plane.kubectl
    elsewhere = volume(member, "afar", local={"path": str(disk)})
    (term,) = elsewhere["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    term["matchExpressions"][0]["values"] = ["elsewhere"]
    kubectl("create", "-f-", manifests=elsewhere)
    kubectl("create", "-f-", manifests=claim("afar"))
    kubectl("create", "-f-", manifests=claiming(member, "afar", "sleep 1000"))
    told = 'MountVolume.NodeAffinity check failed for volume "afar" : no matching NodeSelectorTerms'
    await_that(lambda: told in failure_log(member, "afar"), 60, member.story)


def test_an_ephemeral_volume_is_a_claim_that_goes_with_its_pod(member: ClusterAgent, disk: Path) -> None:
    kubectl = member.plane.kubectl
    template = {"spec": {key: value for key, value in claim("")["spec"].items() if key != "volumeName"}}
    it = claiming(member, "scratch", "echo written > /v/file; sleep 1000")
    it["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=volume(member, "any", local={"path": str(disk)}))
        kubectl("create", "-f-", manifests=it)
        pods.wait(ready, "it runs", 90, member.story)
        await_that((disk / "file").exists, 60, member.story)
        assert ["scratch-v"] == [one["metadata"]["name"] for one in kubectl.get("persistentvolumeclaims")["items"]]
        kubectl("delete", "pod", "scratch")
        pods.wait(lambda now: not now, "it is gone", story=member.story)
    assert ["file"] == os.listdir(disk)


def test_a_device_behind_a_claim_is_a_device_in_the_container(member: ClusterAgent, device: str) -> None:
    kubectl = member.plane.kubectl
    script = "test -b /dev/mine && printf written | dd of=/dev/mine conv=fsync 2>/dev/null; sleep 1000"
    block = {"volumeMode": "Block"}
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=volume(member, "block", local={"path": device}, **block))
        kubectl("create", "-f-", manifests=claim("block", **block))
        kubectl("create", "-f-", manifests=claiming(member, "block", script, device="/dev/mine"))
        pods.wait(ready, "it runs", 60, member.story)
        await_that(lambda: (member.directory / "device").read_bytes()[:7] == b"written", 60, member.story)
        kubectl("delete", "pod", "block")
        pods.wait(lambda now: not now, "it is gone", story=member.story)
