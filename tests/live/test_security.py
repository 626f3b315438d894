"""What keeps a pod from doing harm, as its containers see it on a real containerd: who they run as, what they may do,
what of the machine is hidden from them, and in which words a pod is refused that would be less safe than it asks for.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images
from live.kit.agent import Agent
from live.kit.manifests import container, pod, shell, state, waiting_reason
from trikubelet.core.containers.security import MASKED_PATHS, READONLY_PATHS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

NOBODY = 65534  # in the images' /etc/passwd, and of the group below in their /etc/group
NOBODYS = "4000"
NET_ADMIN = 1 << 12
STATUS = "grep -E '^(Uid|Gid|Groups|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d ':'"
MOUNTS = "echo mounts; cut -d' ' -f5,6 /proc/self/mountinfo"
HAS_APPARMOR = Path("/sys/kernel/security/apparmor").exists()


@pytest.fixture
def agent(containerd2: Containerd) -> Iterator[Agent]:
    with Agent(containerd2) as agent:
        yield agent


def said(agent: Agent, name: str, of: str = "c") -> list[str]:
    """The lines of a container, once it has ended."""
    agent.wait(lambda pods: "terminated" in state(pods.get(name, {}), of).get("state", {}), f"{of} of {name} ends")
    return agent.command("logs", f"{name}-live", "-c", of).stdout.splitlines()


def status(lines: list[str]) -> dict[str, list[str]]:
    """What `STATUS` found, by name."""
    return {name: values for name, *values in (line.split() for line in lines)}


def test_the_kernel_says_of_a_process_what_its_pod_asked_for(agent: Agent) -> None:
    may = {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}
    may_not = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    whole = {"runAsUser": 21, "runAsGroup": 22, "supplementalGroups": [23], "fsGroup": 24}
    whole |= {"seccompProfile": {"type": "RuntimeDefault"}}
    agent.put(
        pod(
            "who",
            shell("plain", STATUS),
            shell("may", STATUS, securityContext=may),
            shell("not", STATUS, securityContext=may_not),
            restartPolicy="Never",
            securityContext=whole,
        )
    )
    plain, may_, not_ = (status(said(agent, "who", of)) for of in ("plain", "may", "not"))

    assert (["21"] * 4, ["22"] * 4, {"22", "23", "24"}) == (plain["Uid"], plain["Gid"], set(plain["Groups"]))
    assert ["0"] * 4 == may_["Uid"]
    bounds = [int(one["CapBnd"][0], 16) for one in (plain, may_, not_)]
    assert 0 != bounds[0]
    assert [bounds[0] | NET_ADMIN, 0] == bounds[1:]
    assert [["2"], ["0"], ["1"]] == [plain["Seccomp"], plain["NoNewPrivs"], not_["NoNewPrivs"]]


def test_masked_paths_are_hidden_from_unprivileged_containers(agent: Agent) -> None:
    mighty = {"securityContext": {"privileged": True}}
    unmasked = {"securityContext": {"procMount": "Unmasked"}}
    agent.put(pod("shows", shell("c", MOUNTS, **unmasked), restartPolicy="Never", hostUsers=False))
    agent.put(pod("sees", shell("plain", MOUNTS), shell("mighty", MOUNTS, **mighty), restartPolicy="Never"))
    plain, other = (dict(line.split() for line in said(agent, "sees", of)[1:]) for of in ("plain", "mighty"))

    there, read = ({path for path in paths if os.path.exists(path)} for paths in (MASKED_PATHS, READONLY_PATHS))
    assert {"/proc/kcore", "/proc/interrupts"} & there
    assert there <= plain.keys()
    assert {"ro"} == {plain[path].split(",")[0] for path in read}
    assert not other.keys() & {*MASKED_PATHS, *READONLY_PATHS}
    shown = dict(line.split() for line in said(agent, "shows")[1:])
    assert "/proc" in shown
    assert not shown.keys() & {*MASKED_PATHS, *READONLY_PATHS}


def test_a_profile_of_the_nodes_own_forbids_what_it_says_and_a_missing_one_is_waited_for(agent: Agent) -> None:
    forbids = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile = json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [forbids]})
    local = {"seccompProfile": {"type": "Localhost", "localhostProfile": "own/no-mkdir.json"}}
    agent.put(pod("forbids", shell("c", "mkdir /tmp/x || echo refused", securityContext=local), restartPolicy="Never"))
    found = agent.wait(lambda pods: "CreateContainerError" == waiting_reason(pods.get("forbids", {}), "c"), "it waits")
    file = agent.root / "seccomp" / "own" / "no-mkdir.json"
    assert str(file) in state(found["forbids"], "c")["state"]["waiting"]["message"]

    file.parent.mkdir(parents=True)
    file.write_text(profile)
    assert "refused" in said(agent, "forbids")


def test_an_image_that_names_its_user_cannot_show_that_it_is_not_root(agent: Agent) -> None:
    never = {"restartPolicy": "Never"}
    named = shell("c", STATUS) | {"image": images.NAMED}
    agent.put(pod("named", named, **never))
    agent.put(pod("faulty", named, securityContext={"runAsNonRoot": True}, **never))
    agent.put(pod("root", named, securityContext={"runAsNonRoot": True, "runAsUser": 0}, **never))

    def waits(pods: dict[str, dict[str, Any]]) -> bool:
        reasons = {waiting_reason(pods.get(name, {}), "c") for name in ("faulty", "root")}
        return {"CreateContainerConfigError"} == reasons

    agent.wait(waits, "two are refused")
    told = {name: state(it, "c")["state"].get("waiting", {}).get("message", "") for name, it in agent.pods().items()}
    assert [str(NOBODY)] * 4 == status(said(agent, "named"))["Uid"]
    assert "image has non-numeric user (nobody), cannot verify user is non-root" in told["faulty"]
    assert told["root"].startswith("container's runAsUser breaks non-root policy")


def test_a_pod_that_could_not_be_as_safe_as_it_asks_for_is_refused(containerd: Containerd) -> None:
    confined = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    unsafe = {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "64"}]}}
    groups = {"runAsUser": NOBODY, "supplementalGroups": [23]}
    ends = {"restartPolicy": "Never"}
    with Agent(containerd) as agent:
        agent.put(pod("unsafe", container("c", "exit", "0"), **unsafe))
        agent.put(pod("confined", container("c", "exit", "0"), **confined, **ends))
        agent.put(pod("merged", shell("c", STATUS), securityContext=groups, **ends))
        agent.put(
            pod("strict", shell("c", STATUS), securityContext=groups | {"supplementalGroupsPolicy": "Strict"}, **ends)
        )
        merged = status(said(agent, "merged"))
        refused = {name: agent.wait_phase(name, "Failed")["status"] for name in ("unsafe",)}
        if HAS_APPARMOR:
            agent.wait_phase("confined", "Succeeded")
        else:
            refused["confined"] = agent.wait_phase("confined", "Failed")["status"]
            assert "Cannot enforce AppArmor: AppArmor is not enabled on the host" in refused["confined"]["message"]
            assert "AppArmor" == refused["confined"]["reason"]
        if containerd.major < 2:
            found = agent.wait_phase("strict", "Failed")["status"]
            assert "SupplementalGroupsPolicyNotSupported" == found["reason"]
        else:
            assert set(merged["Groups"]) - {NOBODYS} == set(status(said(agent, "strict"))["Groups"])

    assert {NOBODYS, "23"} <= set(merged["Groups"])
    assert ("SysctlForbidden", 'Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted') == (
        refused["unsafe"]["reason"],
        refused["unsafe"]["message"],
    )
