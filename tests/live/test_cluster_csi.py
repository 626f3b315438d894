"""Volumes of a CSI driver, a process of the tests' own, in pods of a real cluster: up, down, failing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.csi_driver import MIB, TOPOLOGY
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

NAME = "disk.csi.example.com"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"


class Driver:
    """Owns the driver's process. It has the agent's view of what is mounted."""

    def __init__(self, agent: ClusterAgent) -> None:
        self.directory = agent.directory / "csi"
        self._registry = agent.root / "plugins_registry"
        self._agent = agent
        self._process: subprocess.Popen[bytes] | None = None
        self.directory.mkdir()

    def start(self) -> None:
        command = [sys.executable, "-m", "live.kit.csi_driver", NAME, str(self.directory), str(self._registry)]
        paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._agent.containerd.inside(command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": paths},
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def calls(self, *kinds: str) -> list[dict[str, Any]]:
        """What it was asked, of these kinds."""
        try:
            lines = (self.directory / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [call for call in map(json.loads, lines) if call["call"] in kinds]

    def hang(self) -> None:
        (self.directory / "hang").touch()

    def answer(self) -> None:
        (self.directory / "hang").unlink(missing_ok=True)

    def story(self) -> str:
        return "\n".join([(self.directory / "log").read_text(), *map(str, self.calls("stage", "publish", "unpublish"))])


@pytest.fixture
def driver(member: ClusterAgent) -> Iterator[Driver]:
    """A driver that is registered, and nothing of it left behind."""
    made = Driver(member)
    made.start()
    kubectl = member.plane.kubectl
    try:
        await_that(lambda: [NAME] == drivers_told(member), 60, lambda: f"{made.story()}\n{member.story()}")
        # Told after that, in a request of its own.
        await_that(lambda: NODE_IDS in member.node()["metadata"].get("annotations", {}), 60, member.story)
        yield made
    finally:
        made.answer()
        kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        kubectl("delete", "persistentvolumeclaims,persistentvolumes,csidrivers", "--all")
        made.kill()


def drivers_told(member: ClusterAgent) -> list[str]:
    found = [one for one in member.plane.kubectl.get("csinodes")["items"] if one["metadata"]["name"] == member.name]
    return [one["name"] for node in found for one in node["spec"]["drivers"] or ()]


def csi_driver(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": NAME}, "spec": spec}


def volume(name: str, **spec: Any) -> list[dict[str, Any]]:
    """A persistent volume of the driver, and the claim it is bound to."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", **spec}
    csi = {"driver": NAME, "volumeHandle": name, "volumeAttributes": {"tier": "gold"}}
    bound = {"capacity": {"storage": "1Mi"}, "csi": csi, "claimRef": {"namespace": "default", "name": name}}
    asked = {"resources": {"requests": {"storage": "1Mi"}}, "volumeName": name}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": common | bound},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": common | asked},
    ]


def claiming(member: ClusterAgent, name: str, claim: str, script: str, **use: Any) -> dict[str, Any]:
    use = use or {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, shell("c", script, **use), nodeName=member.name, volumes=volumes)


def create(member: ClusterAgent, *manifests: dict[str, Any]) -> None:
    member.plane.kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": list(manifests)})


def running(*names: str) -> Any:
    def there(now: Objects) -> bool:
        return all(name in now and is_ready(now[name]) for name in names)

    return there


def events_of(member: ClusterAgent, name: str, reason: str) -> str:
    selector = f"--field-selector=involvedObject.name={name},reason={reason}"
    return "\n".join(event["message"] for event in member.plane.kubectl.get("events", selector)["items"])


def volumes_told(member: ClusterAgent) -> list[dict[str, Any]]:
    """What the summary of what is used says of volumes."""
    return [one for pod in member.ask("/stats/summary")["pods"] for one in pod.get("volume", ())]


def grow(member: ClusterAgent, name: str) -> None:
    """Do to a claim and its volume what a controller does when it has made the volume larger."""
    marks = {
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
        "allocatedResources": {"storage": "2Mi"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    }
    patch = member.plane.kubectl
    patch("patch", "persistentvolume", name, "--type=merge", '-p={"spec": {"capacity": {"storage": "2Mi"}}}')
    status = json.dumps({"status": marks})
    patch("patch", "persistentvolumeclaim", name, "--subresource=status", "--type=merge", f"-p={status}")


def claim_status(member: ClusterAgent, name: str) -> dict[str, Any]:
    found: dict[str, Any] = member.plane.kubectl.get("persistentvolumeclaim", name)["status"]
    return found


def left(member: ClusterAgent) -> list[str]:
    """What lies of volumes below the agent's root."""
    staged = member.root / "plugins/kubernetes.io/csi"
    try:
        files = [path for path in staged.rglob("*") if not path.is_dir()] if staged.exists() else []
        return [str(path) for path in [*files, *member.root.glob("pods/*/volumes/kubernetes.io~csi/*")]]
    except FileNotFoundError as gone:
        return [f"{gone.filename}, which went during the look"]


def test_volumes_of_a_driver_outlive_the_agent_and_go_with_their_pods(member: ClusterAgent, driver: Driver) -> None:
    there = member.node()["metadata"]
    assert {NAME: "node-1"} == json.loads(there["annotations"][NODE_IDS])
    assert "top" == there["labels"][TOPOLOGY]
    (told,) = member.plane.kubectl.get("csinode", member.name)["spec"]["drivers"]
    expected = {"name": NAME, "nodeID": "node-1", "topologyKeys": [TOPOLOGY], "allocatable": {"count": 7}}
    assert expected == told
    assert [{"call": "registered", "pluginRegistered": True}] == driver.calls("registered")

    modes = {"volumeLifecycleModes": ["Persistent", "Ephemeral"], "podInfoOnMount": True, "fsGroupPolicy": "File"}
    own = pod(
        "own", shell("c", "cat /v/context.json; echo; touch /v/not || echo denied; sleep 1000"), nodeName=member.name
    )
    own["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    own["spec"]["volumes"] = [{"name": "v", "csi": {"driver": NAME, "readOnly": True, "volumeAttributes": {"a": "1"}}}]
    files = claiming(member, "files", "files", "stat -c %g:%a /v >/v/seen; sleep 1000")
    files["spec"]["securityContext"] = {"fsGroup": 2000}
    script = "test -b /dev/v && printf written | dd of=/dev/v conv=fsync 2>/dev/null; sleep 1000"
    device = claiming(member, "device", "device", script, volumeDevices=[{"name": "v", "devicePath": "/dev/v"}])
    story = lambda: f"{driver.story()}\n{member.story()}"  # noqa: E731
    with member.watch(PODS) as pods:
        create(member, csi_driver(attachRequired=False, **modes))
        create(member, *volume("files"), *volume("device", volumeMode="Block"), *volume("early"), own, files, device)
        await_that(lambda: {"storage": "1Mi"} == claim_status(member, "early").get("capacity"), 60, story)
        grow(member, "early")
        create(member, claiming(member, "early", "early", "sleep 1000"))
        pods.wait(running("own", "files", "device", "early"), "they run", 90, story)
        asked = [one["call"] for one in driver.calls("stage", "expand", "publish") if one["volumeId"] == "early"]
        assert ["stage", "expand", "publish"] == asked, "as large as it is to be before its pod has it"
        assert {"storage": "2Mi"} == claim_status(member, "early")["capacity"]
        await_that(lambda: "denied\n" in member.command("logs", "own").stdout, 60, story)
        context = json.loads(next(line for line in member.command("logs", "own").stdout.splitlines() if line[0] == "{"))
        assert ("1", "own", "true") == tuple(
            context[key] for key in ("a", "csi.storage.k8s.io/pod.name", "csi.storage.k8s.io/ephemeral")
        )
        seen, backing = driver.directory / "volumes/files/seen", driver.directory / "volumes/device.img"
        await_that(lambda: seen.exists() and seen.read_text() == "2000:2775\n", 60, story)
        await_that(lambda: backing.read_bytes()[:7] == b"written", 60, story)

        (driver.directory / "abnormal").write_text("worn out")
        told = {one.get("pvcRef", {}).get("name", ""): one for one in volumes_told(member)}
        assert (MIB, 4096, {"abnormal": True}) == tuple(
            told["files"][name] for name in ("capacityBytes", "usedBytes", "volumeHealthStats")
        )
        assert MIB == told["device"]["capacityBytes"]
        worn = lambda: "Volume v: worn out" in events_of(member, "files", "VolumeConditionAbnormal")  # noqa: E731
        await_that(worn, 60, story)
        grow(member, "files")

        before = len(driver.calls("unpublish", "unstage"))
        member.kill()
        member.plane.kubectl("delete", "pod", "own", "--force", "--grace-period=0")
        member.start()
        await_that(lambda: len(driver.calls("unpublish")) == before + 1, 60, story)
        pods.wait(running("files", "device", "early"), "they still run", 60, story)
        await_that(lambda: {"storage": "2Mi"} == claim_status(member, "files")["capacity"], 60, story)
        status = claim_status(member, "files")
        assert (None, None) == (status.get("allocatedResourceStatuses"), status.get("conditions"))
        (expanded,) = (one for one in driver.calls("expand") if one["volumeId"] == "files")
        assert {"requiredBytes": str(2 * MIB)} == expanded["capacityRange"]
        said = f'MountVolume.NodeExpandVolume succeeded for volume "files" {member.name}'
        await_that(lambda: said in events_of(member, "files", "FileSystemResizeSuccessful"), 60, story)

        member.plane.kubectl("delete", "pod", "files", "device", "early")
        pods.wait(lambda now: not now, "they are gone", 60, story)
    await_that(lambda: len(driver.calls("unstage")) == 3, 60, story)
    await_that(lambda: not left(member), 60, lambda: f"{left(member)}\n{story()}")
    assert seen.exists()


def test_a_driver_that_hangs_or_dies_is_the_problem_of_its_pods_alone(member: ClusterAgent, driver: Driver) -> None:
    story = lambda: f"{driver.story()}\n{member.story()}"  # noqa: E731
    with member.watch(PODS) as pods:
        create(member, csi_driver(attachRequired=False), *volume("slow"), *volume("later"))
        driver.hang()
        create(
            member,
            claiming(member, "slow", "slow", "sleep 1000"),
            pod("plain", shell("c", "sleep 1000"), nodeName=member.name),
        )
        await_that(lambda: bool(driver.calls("stage")), 60, story)
        pods.wait(running("plain"), "the other runs", 60, story)
        assert "slow" in pods.wait(running("plain"), "the other runs", 60, story)
        member.plane.kubectl("delete", "pod", "slow", "--wait=false")
        await_that(lambda: bool(driver.calls("unpublish")), 60, story)
        driver.answer()
        pods.wait(lambda now: "slow" not in now, "it is gone", 60, story)
        await_that(lambda: not left(member), 60, lambda: f"{left(member)}\n{story()}")

        driver.kill()
        create(member, claiming(member, "later", "later", "sleep 1000"))
        told = (
            'MountVolume.MountDevice failed for volume "later" : rpc error: code = Unavailable desc = connection error'
        )
        await_that(lambda: told in events_of(member, "later", "FailedMount"), 60, story)
        driver.start()
        pods.wait(running("later"), "it runs", 60, story)


def test_a_volume_that_a_controller_attaches_is_waited_for_and_kept_attached(
    member: ClusterAgent, driver: Driver
) -> None:
    kubectl = member.plane.kubectl
    unique = f"kubernetes.io/csi/{NAME}^disk"
    story = lambda: f"{driver.story()}\n{member.story()}"  # noqa: E731

    def attachments() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = kubectl.get("volumeattachments")["items"]
        return found

    with member.watch(PODS) as pods:
        create(member, csi_driver(attachRequired=True), *volume("disk"))
        create(member, claiming(member, "attached", "disk", "sleep 1000"))
        await_that(lambda: bool(attachments()), 60, story)
        assert [] == driver.calls("stage")
        status = {"status": {"attached": True, "attachmentMetadata": {"device": "/dev/x"}}}
        name = attachments()[0]["metadata"]["name"]
        kubectl("patch", "volumeattachment", name, "--subresource=status", "--type=merge", f"-p={json.dumps(status)}")
        pods.wait(running("attached"), "it runs", 90, story)
        assert [{"device": "/dev/x"}] == [call["publishContext"] for call in driver.calls("stage")]
        assert unique in member.node()["status"]["volumesInUse"]
        kubectl("delete", "pod", "attached")
        await_that(lambda: unique not in member.node()["status"].get("volumesInUse", ()), 60, story)
        assert 1 == len(driver.calls("unstage"))
        await_that(lambda: not attachments(), 60, story)
