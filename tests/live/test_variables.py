"""Containers' variables, as the kernel has them of the process, from every place they can come from: through the API
server, where a user would put the objects, and from manifests alone, where nobody else could."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from live.kit.agent import Agent
from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state, waiting_reason
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow


def of_key(kind: str, name: str, key: str, **more: object) -> dict[str, Any]:
    return {"valueFrom": {kind: {"name": name, "key": key, **more}}}


def of_field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


VARIABLES: dict[str, dict[str, Any]] = {
    "LITERAL": {"value": "$(CM_colour) $$(CM_colour) $(NOWHERE)"},
    "COLOUR": of_key("configMapKeyRef", "settings", "colour"),
    "DOOR": of_key("secretKeyRef", "keys", "door"),
    "MAYBE": of_key("configMapKeyRef", "nowhere", "a", optional=True),
    "PERHAPS": of_key("secretKeyRef", "nowhere", "a", optional=True),
    "NAME": of_field("metadata.name"),
    "MOOD": of_field("metadata.labels['mood']"),
    "NODE": of_field("spec.nodeName"),
    "IP": of_field("status.podIP"),
    "HOST": of_field("status.hostIP"),
    "ACCOUNT": of_field("spec.serviceAccountName"),
    "CPU": {"valueFrom": {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}}},
    "MEMORY": {"valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
}
NEEDY = container(
    "c",
    "serve",
    "8080",
    env=[{"name": name, **source} for name, source in VARIABLES.items()],
    envFrom=[{"prefix": "CM_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
    resources={"limits": {"cpu": "250m"}},
)


def environment(containerd: Containerd, found: dict[str, Any], name: str = "c") -> dict[str, str]:
    """The variables of a container's first process."""
    identity = state(found, name)["containerID"].partition("://")[2]
    process = Path(f"/proc/{containerd.tasks()[identity]}")
    # It is runc, or a copy of that in memory, until it becomes the container's program.
    program = lambda: str((process / "exe").readlink())  # noqa: E731
    await_that(lambda: not any(word in program() for word in ("runc", "memfd")), 60, program)
    said = (process / "environ").read_text()
    return dict(one.split("=", 1) for one in said.split("\0") if one)


def why(found: dict[str, Any]) -> str:
    """Why the pod's container waits."""
    message: str = state(found, "c").get("state", {}).get("waiting", {}).get("message", "")
    return message


def all_ready(now: Objects) -> bool:
    return bool(now) and all(map(is_ready, now.values()))


@pytest.fixture
def objects(member: ClusterAgent) -> Iterator[None]:
    """Nothing of what the pods name is left after the test."""
    yield
    member.plane.kubectl("delete", "configmap/settings", "secret/keys", "service/shop", "--ignore-not-found")


def test_a_container_waits_for_its_objects_and_has_the_variables_its_spec_asks_for(
    member: ClusterAgent, objects: None
) -> None:
    kubectl = member.plane.kubectl
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=pod("needy", NEEDY))
        kubectl("label", "pod", "needy", "mood=good")
        missing = 'configmap "settings" not found'
        found = pods.wait(lambda now: missing in [why(one) for one in now.values()], missing, story=member.story)
        assert "CreateContainerConfigError" == waiting_reason(found["needy"], "c")
        kubectl("create", "configmap", "settings", "--from-literal=colour=red", "--from-literal=1.b-c=x")
        missing = 'secret "keys" not found'
        pods.wait(lambda now: missing in [why(one) for one in now.values()], missing, story=member.story)
        kubectl("create", "secret", "generic", "keys", "--from-literal=door=open")
        found = pods.wait(all_ready, "it runs", story=member.story)
        assert 0 == state(found["needy"], "c")["restartCount"]

        made, status = environment(member.containerd, found["needy"]), found["needy"]["status"]
        assert {
            "LITERAL": "red $(CM_colour) $(NOWHERE)",
            "COLOUR": "red",
            "DOOR": "open",
            "NAME": "needy",
            "MOOD": "good",
            "NODE": member.name,
            "IP": status["podIP"],
            "HOST": status["hostIP"],
            "ACCOUNT": "default",
            "CPU": "250",
            "CM_colour": "red",
            "CM_1.b-c": "x",
            "door": "open",
        }.items() <= made.items()
        assert not {"MAYBE", "PERHAPS"} & made.keys()
        allocatable = kubectl.get("node", member.name)["status"]["allocatable"]["memory"]
        assert int(made["MEMORY"]) == -(-int(allocatable.removesuffix("Ki")) // 1024)

        # What a process was started with nobody can change; the next one has what is so then.
        kubectl("patch", "configmap", "settings", '--patch={"data": {"colour": "blue"}}')
        before = member.containerd.tasks()
        kill = "tasks", "kill", "--signal=SIGKILL", identity(found["needy"])
        member.containerd.ctr(*kill)  # type: ignore[attr-defined]
        pods.wait(lambda now: all_ready(now) and state(now["needy"], "c")["restartCount"] == 1, "it runs again")
        assert before != member.containerd.tasks()
        assert "blue" == environment(member.containerd, pods.now["needy"])["COLOUR"]
        kubectl("delete", "pod", "needy")
        pods.wait(lambda now: not now, "it is gone", story=member.story)


def identity(found: dict[str, Any]) -> str:
    return str(state(found, "c")["containerID"].partition("://")[2])


@pytest.mark.parametrize("links", [True, False])
def test_a_container_is_told_of_the_clusters_services(member: ClusterAgent, objects: None, links: bool) -> None:
    kubectl = member.plane.kubectl
    kubectl("create", "service", "clusterip", "shop", "--tcp=80:8080")
    with member.watch(PODS) as pods:
        manifest = pod("told", container("c", "serve", "8080"), enableServiceLinks=links)

        def seen() -> bool:
            """Whether a pod made now is told: the node hears of a service when it does."""
            kubectl("create", "-f-", manifests=manifest)
            made = environment(member.containerd, pods.wait(all_ready, "it runs", story=member.story)["told"])
            api = kubectl.get("service", "kubernetes")["spec"]["clusterIP"]
            assert (api, f"tcp://{api}:443") == (made["KUBERNETES_SERVICE_HOST"], made["KUBERNETES_PORT"])
            kubectl("delete", "pod", "told")
            pods.wait(lambda now: not now, "it is gone", story=member.story)
            if "SHOP_SERVICE_HOST" in made:
                shop = kubectl.get("service", "shop")["spec"]["clusterIP"]
                assert (shop, "80", f"tcp://{shop}:80") == (
                    made["SHOP_SERVICE_HOST"],
                    made["SHOP_SERVICE_PORT"],
                    made["SHOP_PORT_80_TCP"],
                )
            return "SHOP_SERVICE_HOST" in made

        if links:
            await_that(seen, 60, member.story)
        else:
            assert not seen()


def test_a_container_has_variables_that_another_left_in_a_file(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    reference = {"volumeName": "v", "path": "made/vars.env", "key": "ADDRESS"}
    script = (
        "mkdir /v/made; printf \"# mine\\nADDRESS='two\\nlines'\\n\" > /v/made/vars.env; echo \"C='3'\" > /v/more.env"
    )
    manifest = pod(
        "reader",
        container(
            "c",
            "serve",
            "8080",
            env=[
                {"name": "A", "valueFrom": {"fileKeyRef": reference}},
                {"name": "B", "valueFrom": {"fileKeyRef": reference | {"key": "MISSING", "optional": True}}},
                {"name": "C", "valueFrom": {"fileKeyRef": reference | {"path": "more.env", "key": "C"}}},
            ],
        ),
        initContainers=[shell("writer", script, volumeMounts=[{"name": "v", "mountPath": "/v"}])],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    with member.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=manifest)
        found = pods.wait(all_ready, "it runs", story=member.story)["reader"]
        made = environment(member.containerd, found)
        assert ("two\nlines", False, "3") == (made["A"], "B" in made, made["C"])
        kubectl("delete", "pod", "reader")
        pods.wait(lambda now: not now, "it is gone", story=member.story)


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def settings(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


KEYS = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"door": "open"}}
READER = pod(
    "reader",
    container(
        "c",
        "serve",
        "8080",
        env=[{"name": "COLOUR", **of_key("configMapKeyRef", "settings", "colour")}],
        envFrom=[{"secretRef": {"name": "keys"}}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "s", "mountPath": "/s"}],
    ),
    volumes=[{"name": "v", "configMap": {"name": "settings"}}, {"name": "s", "secret": {"secretName": "keys"}}],
)


def test_without_an_api_server_a_pod_reads_what_stands_in_manifests_and_sees_it_change(agent: Agent) -> None:
    agent.put(READER)

    def failure_log() -> str:
        return agent.command("describe", "pod", "reader").stdout

    where = 'not found among the manifests, in namespace "default"'
    await_that(lambda: f'configmap "settings" {where}' in failure_log(), 60, agent.story)
    agent.put(yaml.safe_dump_all([settings(colour="red"), KEYS]), "objects.yaml")
    found = agent.wait_phase("reader", "Running")
    made, before = environment(agent.containerd, found), agent.containerd.tasks()
    assert ("red", "open") == (made["COLOUR"], made["door"])
    root = Path(f"/proc/{before[identity(found)]}/root")
    assert ("red", "open") == ((root / "v/colour").read_text(), (root / "s/door").read_text())

    agent.put(yaml.safe_dump_all([settings(colour="blue"), KEYS]), "objects.yaml")
    await_that(lambda: (root / "v/colour").read_text() == "blue", 60, agent.story)
    agent.put("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndat: {}\n", "objects.yaml")
    await_that(lambda: 'dat: unknown field (did you mean "data"?)' in agent.log_path.read_text(), 60, agent.story)
    assert "blue" == (root / "v/colour").read_text()
    assert before == agent.containerd.tasks()


def test_a_static_pod_of_a_cluster_reads_its_manifest_and_not_the_cluster(member: ClusterAgent, objects: None) -> None:
    name = f"reader-{member.name}"
    member.plane.kubectl("create", "configmap", "settings", "--from-literal=colour=of-the-cluster")
    member.put(READER)
    where = 'not found among the manifests, in namespace "default"'
    await_that(lambda: where in member.command("describe", "pod", name).stdout, 60, member.story)
    member.put(yaml.safe_dump_all([settings(colour="of-the-node"), KEYS]), "objects.yaml")
    found = member.wait_phase(name, "Running")
    assert "of-the-node" == environment(member.containerd, found)["COLOUR"]
    # NodeRestriction lets no node make a pod that names objects: the pod runs all the same, and the log says it once.
    refused = f"The API server rejects the mirror pod of static pod default/{name}"
    await_that(lambda: refused in member.log_path.read_text(), 60, member.story)
    assert 1 == member.log_path.read_text().count(refused)
    member.take("reader")
    member.wait_gone(name)
