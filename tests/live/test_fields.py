"""Fields of a pod that no other live test is about, many at once, on a real containerd: what a container runs, who it
is and what it may, and whose namespaces it shares. What is claimed is what the container itself sees of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images, kernel
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

# What the kernel says of a process, in lines of a name and a value.
LOOKS = (
    "echo uid $(id -u); echo gid $(id -g); echo groups $(id -G);"
    " grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -d ':';"
    " touch /there 2>/dev/null && echo root writable || echo root readonly;"
    " echo range $(cat /proc/sys/net/ipv4/ip_local_port_range);"
    " echo group $(stat -c %g /v)"
)
NET_ADMIN = 1 << 12
SYS_ADMIN = 1 << 21


@pytest.fixture
def agent(containerd2: Containerd) -> Iterator[Agent]:
    with Agent(containerd2) as agent:
        yield agent


def seen(agent: Agent, name: str, of: str) -> dict[str, str]:
    """What a container that runs `LOOKS` saw, by name."""
    agent.wait(lambda pods: "terminated" in state(pods.get(name, {}), of).get("state", {}), f"{of} of {name} ends")
    lines = agent.command("logs", f"{name}-live", "-c", of).stdout.splitlines()
    return {name: " ".join(rest) for name, *rest in (line.split() for line in lines)}


def test_a_container_runs_what_it_is_told_where_it_is_told(agent: Agent) -> None:
    told = shell("told", "echo $0 $1 in $PWD > /last") | {"args": ["zero", "one"], "workingDir": "/proc"}
    told |= {"terminationMessagePath": "/last"}
    agent.put(pod("told", told, container("plain", "exit", "7"), restartPolicy="Never", os={"name": "linux"}))
    found = agent.wait_phase("told", "Failed")

    ended = state(found, "told")["state"]["terminated"]
    assert (0, "zero one in /proc\n") == (ended["exitCode"], ended["message"])
    # The image's own entry point, with these arguments.
    assert 7 == state(found, "plain")["state"]["terminated"]["exitCode"]


def test_container_runs_as_the_user_of_its_security_contexts(agent: Agent) -> None:
    own = {
        "runAsUser": 11,
        "runAsGroup": 12,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "Unconfined"},
    }
    mount: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    agent.put(
        pod(
            "who",
            shell("pods", LOOKS, **mount),
            shell("own", LOOKS, securityContext=own, **mount),
            shell("root", LOOKS, securityContext={"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}, **mount),
            shell("bare", LOOKS, securityContext={"runAsUser": 0, "capabilities": {"drop": ["ALL"]}}, **mount),
            shell("mighty", LOOKS, securityContext={"runAsUser": 0, "privileged": True}, **mount),
            restartPolicy="Never",
            volumes=[{"name": "v", "emptyDir": {}}],
            securityContext={
                "runAsUser": 21,
                "runAsGroup": 22,
                "supplementalGroups": [23],
                "fsGroup": 24,
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "40000 40100"}],
            },
        )
    )
    pods, own_, root, bare, mighty = (seen(agent, "who", of) for of in ("pods", "own", "root", "bare", "mighty"))

    assert ("21", "22", {"22", "23", "24"}) == (pods["uid"], pods["gid"], set(pods["groups"].split()))
    assert ("11", "12", {"12", "23", "24"}) == (own_["uid"], own_["gid"], set(own_["groups"].split()))
    assert ("40000 40100", "24") == (pods["range"], pods["group"])
    assert ("2", "0", "0") == (pods["Seccomp"], own_["Seccomp"], mighty["Seccomp"])
    assert ("0", "1") == (pods["NoNewPrivs"], own_["NoNewPrivs"])
    assert ("readonly", "writable") == (own_["root"], root["root"])
    able = [int(one["CapEff"], 16) for one in (root, bare, mighty)]
    assert [NET_ADMIN, 0, NET_ADMIN | SYS_ADMIN] == [one & (NET_ADMIN | SYS_ADMIN) for one in able]
    assert 0 == able[1]


def test_a_whole_pod_has_limits_of_its_own(agent: Agent) -> None:
    own = {"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"cpu": "250m"}}
    agent.put(pod("limited", container("c", "trap"), resources=own))
    uid = agent.wait_phase("limited", "Running")["metadata"]["uid"]

    cgroup = f"kubepods/burstable/pod{uid}/"
    assert [str(64 << 20)] == kernel.told(agent.containerd, f"{cgroup}memory.", "max", "limit")
    [quota] = kernel.told(agent.containerd, f"{cgroup}cpu.", "max", "cfs_quota_us")
    assert quota in ("50000", "50000 100000")
    # In version 1 a request is shares of 1024 for each core, in version 2 a weight.
    [weight] = kernel.told(agent.containerd, f"{cgroup}cpu.", "weight", "shares")
    assert weight in ("256", "10")
    # A container without a limit has the whole pod's: the sandbox's own cgroup has none.
    assert str(64 << 20) in kernel.told(agent.containerd, f"{cgroup}*/memory.", "max", "limit")


def test_a_container_weighs_and_dies_by_what_it_asked_for(agent: Agent) -> None:
    script = "echo score $(cat /proc/self/oom_score_adj);"
    script += " cd /sys/fs/cgroup; echo weight $(cat cpu.weight cpu/cpu.shares 2>/dev/null)"
    asks = {"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}}
    agent.put(pod("some", shell("c", script, **asks), restartPolicy="Never"))
    agent.put(pod("none", shell("c", script), restartPolicy="Never"))
    some, none = (seen(agent, name, "c") for name in ("some", "none"))

    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()) * 1024
    assert ["1000", str(1000 - 1000 * (64 << 20) // memory)] == [none["score"], some["score"]]
    # Runtimes differ in how they make a weight of shares; of nothing asked for they all make the least.
    assert none["weight"] in ("2", "1")
    assert int(some["weight"]) > int(none["weight"])


def test_files_of_volumes_are_what_their_sources_name_with_the_modes_asked_for(agent: Agent) -> None:
    """Of each kind one file with a mode of its own, one with the volume's, and an object that may be missing is."""
    kind = {"apiVersion": "v1", "metadata": {"name": "o"}}
    agent.put(kind | {"kind": "ConfigMap", "data": {"k": "config", "more": "more"}}, "config.yaml")
    agent.put(kind | {"kind": "Secret", "stringData": {"k": "secret", "more": "more"}}, "secret.yaml")
    keys = [{"key": "k", "path": "a/k", "mode": 0o400}, {"key": "more", "path": "more"}]
    cpu = {"resource": "limits.cpu", "containerName": "c", "divisor": "1m"}
    facts = [
        {"path": "name", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        {"path": "cpu", "mode": 0o400, "resourceFieldRef": cpu},
    ]
    configured, hidden = {"items": keys, "optional": False}, {"name": "missing", "optional": True}
    sources = [
        {"configMap": {"name": "o", **configured}},
        {"secret": {"name": "o", "items": [{"key": "k", "path": "s", "mode": 0o400}], "optional": False}},
        {"downwardAPI": {"items": facts}},
        {"configMap": hidden},
        {"secret": hidden},
    ]
    volumes = {
        "config": {"configMap": {"name": "o", "defaultMode": 0o440, **configured}},
        "secret": {"secret": {"secretName": "o", "defaultMode": 0o440, **configured}},
        "facts": {"downwardAPI": {"defaultMode": 0o440, "items": facts}},
        "all": {"projected": {"defaultMode": 0o440, "sources": sources}},
        "no-config": {"configMap": hidden},
        "no-secret": {"secret": {"secretName": "missing", "optional": True}},
    }
    script = "for one in $(find /v -follow -type f | grep -v /[.] | sort);"
    script += " do echo ${one#/v/} $(stat -Lc %a $one) $(cat $one); done"
    reads = shell("c", script, resources={"limits": {"cpu": "250m"}})
    reads |= {"volumeMounts": [{"name": name, "mountPath": f"/v/{name}"} for name in volumes]}
    mounted = [{"name": name, **source} for name, source in volumes.items()]
    agent.put(pod("reads", reads, restartPolicy="Never", volumes=mounted))
    agent.wait_phase("reads", "Succeeded")

    assert [
        *("all/a/k 400 config", "all/cpu 400 250", "all/more 440 more", "all/name 440 reads-live", "all/s 400 secret"),
        *("config/a/k 400 config", "config/more 440 more"),
        *("facts/cpu 400 250", "facts/name 440 reads-live"),
        *("secret/a/k 400 secret", "secret/more 440 more"),
    ] == agent.command("logs", "reads-live").stdout.splitlines()


def test_fields_that_do_not_work_are_reported_and_the_pod_runs_or_waits_as_the_table_says(agent: Agent) -> None:
    windows = {"securityContext": {"windowsOptions": {"runAsUserName": "somebody"}}}
    agent.put(pod("runs", container("c", "trap", **windows)))
    volume = {"name": "v", "cephfs": {"monitors": ["192.0.2.1"]}}
    agent.put(pod("waits", container("c", "trap"), volumes=[volume]))
    agent.wait_phase("runs", "Running")
    agent.wait_phase("waits", "Pending")
    told = {name: agent.command("describe", "pod", name).stdout for name in ("runs", "waits")}

    assert {"runs": 1, "waits": 1} == {name: said.count("UnsupportedFields") for name, said in told.items()}
    assert "spec.containers[0].securityContext.windowsOptions: it has a meaning on Windows only" in told["runs"]
    assert "spec.volumes[0].cephfs: no kubelet mounts volumes of this type any more: the pod waits" in told["waits"]
    assert "Pending" == agent.pods()["waits"]["status"]["phase"]


def test_run_as_non_root_container_is_not_started_as_root(agent: Agent) -> None:
    nobody = {"securityContext": {"runAsNonRoot": True}}
    agent.put(pod("whole", shell("c", "true"), **nobody))
    agent.put(pod("own", shell("c", "true", **nobody)))
    agent.put(
        pod("other", shell("c", "true"), restartPolicy="Never", securityContext={"runAsNonRoot": True, "runAsUser": 5})
    )

    def refused(pods: dict[str, dict[str, Any]]) -> bool:
        return all("CreateContainerConfigError" == waiting_reason(pods.get(name, {}), "c") for name in ("whole", "own"))

    found = agent.wait(refused, "two are refused")
    agent.wait_phase("other", "Succeeded")
    said = state(found["own"], "c")["state"]["waiting"]["message"]
    assert said.startswith("container has runAsNonRoot and image will run as root")


def test_pods_share_the_namespaces_they_ask_for(agent: Agent) -> None:
    script = "for one in pid ipc; do echo $one $(readlink /proc/self/ns/$one); done; echo first $(cat /proc/1/comm)"
    agent.put(pod("host", shell("c", script), restartPolicy="Never", hostPID=True, hostIPC=True, hostUsers=True))
    agent.put(pod("alone", shell("c", script), restartPolicy="Never"))
    agent.put(pod("shared", shell("c", script), shell("d", script), restartPolicy="Never", shareProcessNamespace=True))
    host, alone, one, other = (
        seen(agent, name, of) for name, of in (("host", "c"), ("alone", "c"), ("shared", "c"), ("shared", "d"))
    )

    assert [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "ipc")] == [host["pid"], host["ipc"]]
    assert not {host["pid"], host["ipc"]} & {alone["pid"], alone["ipc"], one["pid"], one["ipc"]}
    assert one == other
    assert ("pause", "sh") == (one["first"], alone["first"])


def users(agent: Agent, name: str) -> tuple[int, int]:
    """The first of the node's users that the pod has, and how many, by the file that upstream has there, too."""
    uid = agent.pods()[name]["metadata"]["uid"]
    found = json.loads((agent.root / "pods" / uid / "userns").read_text())
    (mapping,) = found["uidMappings"]
    assert ([mapping], 0) == (found["gidMappings"], mapping["containerId"])
    return mapping["hostId"], mapping["length"]


def node_user(pid: int) -> int:
    """Whom the node takes the process for."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("\nUid:")[2].split()[0])


def test_a_pod_with_users_of_its_own_has_none_of_the_nodes(containerd2: Containerd, tmp_path: Path) -> None:
    looks = (
        "echo users $(cat /proc/self/uid_map); echo groups $(cat /proc/self/gid_map); echo name $(cat /s/name);"
        " for one in /s/name /d /host /etc/hosts; do echo $one $(stat -L -c %u:%g $one); done;"
        " grep -q 127.0.0.1 /etc/hosts && touch /d/made /host/made && echo made $(stat -c %u:%g /d/made /host/made);"
        " touch /part/made && test -x /image/bin/sh && echo part made"
    )
    volumes: list[dict[str, Any]] = [
        {"name": "s", "secret": {"secretName": "o"}},
        {"name": "d", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path)}},
        {"name": "image", "image": {"reference": images.BUSYBOX, "pullPolicy": "IfNotPresent"}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    looking = shell("c", looks, volumeMounts=[*mounts, {"name": "d", "mountPath": "/part", "subPath": "p"}])
    each = 2 * 65536
    with Agent(containerd2, userNamespaces={"idsPerPod": each}) as agent:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}, "stringData": {"name": "kept"}}
        agent.put(secret, "secret.yaml")
        fields: dict[str, Any] = {"volumes": volumes, "securityContext": {"fsGroup": 24}, "restartPolicy": "Never"}
        agent.put(pod("looks", looking, container("stays", "trap"), hostUsers=False, **fields))
        agent.wait(lambda pods: state(pods.get("looks", {}), "stays").get("ready", False), "a container stays")
        found = seen(agent, "looks", "c")

        first, length = users(agent, "looks")
        assert (0, each) == (first % each, length)
        assert {first} == {node_user(pid) for pid in containerd2.tasks().values()}
        assert [f"0 {first} {each}"] * 2 == [found["users"], found["groups"]]
        # What is the agent's and the pod's is root's in there; what root makes in there is the node's root's.
        assert {"name": "kept", "/s/name": "0:24", "/d": "0:24", "/etc/hosts": "0:0"}.items() <= found.items()
        assert "made" == found["part"]
        assert "0:24 0:0" == found["made"]
        assert (0, 0) == ((tmp_path / "made").stat().st_uid, (tmp_path / "made").stat().st_gid)


def test_users_of_a_pods_own_outlive_a_kill_and_are_no_other_pods(agent: Agent) -> None:
    def begin(name: str) -> tuple[int, int]:
        agent.put(pod(name, container("c", "trap"), hostUsers=False))
        agent.wait_phase(name, "Running")
        return users(agent, name)

    given = [begin("first"), begin("second")]
    assert 2 == len(set(given))
    assert {(0, 65536)} == {(first % 65536, length) for first, length in given}
    before = agent.containerd.tasks()
    assert {first for first, _ in given} == {node_user(pid) for pid in before.values()}

    agent.kill()
    agent.start()
    given.append(begin("third"))
    assert 3 == len(set(given))
    assert before.items() <= agent.containerd.tasks().items()
    assert given == [users(agent, name) for name in ("first", "second", "third")]
    agent.take("first")
    agent.wait_gone("first")
    assert begin("fourth") not in given[1:]


def test_a_runtime_that_does_not_say_it_maps_users_is_not_asked(containerd1: Containerd) -> None:
    told = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"
    with Agent(containerd1) as agent:
        agent.put(pod("own", container("c", "trap"), hostUsers=False))
        await_that(lambda: told in agent.command("describe", "pod", "own").stdout, 60, agent.story)
        assert "Pending" == agent.pods()["own"]["status"]["phase"]
    assert {} == containerd1.tasks()
