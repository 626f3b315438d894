"""Volumes made of a cluster's objects: what a container reads is asked of its own file system, whether its token is
worth anything of the API server. The node is held to its own pods' objects by NodeRestriction."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import KubectlFailed, write_kubeconfig
from live.kit.manifests import container, pod
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.kubectl import Kubectl
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUMES: dict[str, dict[str, Any]] = {
    "config": {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "paint/colour"}]}},
    "secret": {"secret": {"secretName": "keys", "defaultMode": 0o400}},
    "facts": {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    "maybe": {"configMap": {"name": "nowhere", "optional": True}},
}
READER = pod(
    "reader",
    container("c", "serve", "8080", volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in VOLUMES]),
    volumes=[{"name": name, **source} for name, source in VOLUMES.items()],
    securityContext={"fsGroup": 2000},
)


@pytest.fixture
def objects(member: ClusterAgent) -> Iterator[None]:
    """Nothing of what the pod names is there before the test or after it."""
    yield
    member.plane.kubectl("delete", "configmap/settings", "secret/keys", "--ignore-not-found")


def all_ready(now: Objects) -> bool:
    return bool(now) and all(map(is_ready, now.values()))


class Inside:
    """The file system of the only container of a pod, as that sees it."""

    def __init__(self, member: ClusterAgent, found: dict[str, Any]) -> None:
        identity = found["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
        self._root = Path(f"/proc/{member.containerd.tasks()[identity]}/root")

    def read(self, path: str) -> str:
        return (self._root / path.lstrip("/")).read_text()

    def names(self, path: str) -> list[str]:
        """Those a program meets that passes over hidden ones."""
        return sorted(one.name for one in (self._root / path.lstrip("/")).iterdir() if not one.name.startswith("."))


def test_a_pod_comes_up_when_its_last_object_does_and_sees_their_changes_without_a_restart(
    member: ClusterAgent, objects: None
) -> None:
    kubectl = member.plane.kubectl

    def failure_log() -> set[str]:
        events = kubectl.get("events", "--field-selector=involvedObject.name=reader,reason=FailedMount")["items"]
        return {event["message"] for event in events}

    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=READER)
        missing = 'MountVolume.SetUp failed for volume "config" : configmap "settings" not found'
        await_that(lambda: missing in failure_log(), 60, member.story)
        kubectl("create", "configmap", "settings", "--from-literal=colour=red", "--from-literal=other=x")
        kubectl("create", "secret", "generic", "keys", "--from-literal=door=open")
        found = pods.wait(all_ready, "it runs", story=member.story)["reader"]
        inside, before = Inside(member, found), member.containerd.tasks()
        assert ("red", "open") == (inside.read("/config/paint/colour"), inside.read("/secret/door"))
        assert (["paint"], []) == (inside.names("/config"), inside.names("/maybe"))

        kubectl("patch", "configmap", "settings", '--patch={"data": {"colour": "blue"}}')
        kubectl("create", "configmap", "nowhere", "--from-literal=a=b")
        kubectl("label", "pod", "reader", "mood=good")
        await_that(lambda: inside.read("/config/paint/colour") == "blue", 60, member.story)
        await_that(lambda: inside.read("/facts/labels") == 'mood="good"', 60, member.story)
        await_that(lambda: inside.names("/maybe") == ["a"], 60, member.story)
        assert before == member.containerd.tasks()
        kubectl("delete", "configmap", "nowhere")
        kubectl("delete", "pod", "reader")
        pods.wait(lambda now: not now, "it is gone", story=member.story)


def test_a_pods_token_is_good_for_as_long_as_the_pod(member: ClusterAgent, tmp_path: Path) -> None:
    kubectl, plane = member.plane.kubectl, member.plane
    with member.watch(PODS) as pods:
        kubectl("create", "serviceaccount", "teller")
        own = {"serviceAccountToken": {"audience": "vault.test", "expirationSeconds": 1200, "path": "own"}}
        it = pod(
            "bearer",
            container("c", "serve", "8080", volumeMounts=[{"name": "own", "mountPath": "/own"}]),
            serviceAccountName="teller",
            volumes=[{"name": "own", "projected": {"sources": [own]}}],
        )
        kubectl("create", "-f-", manifests=it)
        inside = Inside(member, pods.wait(all_ready, "it runs", story=member.story)["bearer"])
        assert "default" == inside.read(f"{ACCESS}/namespace")
        authority = tmp_path / "ca.crt"
        authority.write_text(inside.read(f"{ACCESS}/ca.crt"))
        token = inside.read(f"{ACCESS}/token")
        as_pod = plane.kubectl_as(write_kubeconfig(tmp_path / "pod.kubeconfig", plane.url, authority, token))

        who = json.loads(as_pod("auth", "whoami", "--output=json"))["status"]["userInfo"]
        assert "system:serviceaccount:default:teller" == who["username"]
        assert ["bearer"] == who["extra"]["authentication.kubernetes.io/pod-name"]
        assert [member.name] == who["extra"]["authentication.kubernetes.io/node-name"]

        said = inside.read("/own/own").split(".")[1]
        told = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
        assert (["vault.test"], 1200) == (told["aud"], told["exp"] - told["iat"])

        assert "kubernetes.io~projected" in mounts(member)
        kubectl("delete", "pod/bearer", "serviceaccount/teller")
        pods.wait(lambda now: not now, "it is gone", story=member.story)
        await_that(lambda: "kubernetes.io~projected" not in mounts(member), 60, member.story)
        await_that(lambda: is_refused(as_pod), 60, member.story)  # the server believes what it knew for some seconds


def is_refused(kubectl: Kubectl) -> bool:
    """Whether the server does not know who asks any more."""
    try:
        kubectl("auth", "whoami")
    except KubectlFailed as failed:
        return "Unauthorized" in str(failed) or "logged in" in str(failed)
    return False


def mounts(member: ClusterAgent) -> str:
    """What is mounted below the agent's root."""
    command = member.containerd.inside(["cat", "/proc/self/mounts"])
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in said.splitlines() if str(member.root) in line)
