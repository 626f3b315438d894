"""Who a pod thinks it is and what it is given, on a real containerd: its names, the hosts it knows, where it asks for
others, a terminal and an open input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

CLUSTER = {"clusterDNS": ["10.0.0.10", "10.0.0.11"], "clusterDomain": "cluster.example"}
LOOKS = shell("c", "hostname; echo --; cat /etc/hosts; echo --; cat /etc/resolv.conf; echo --")


@pytest.fixture
def agent(containerd2: Containerd) -> Iterator[Agent]:
    with Agent(containerd2, **CLUSTER) as agent:
        yield agent


def seen(agent: Agent, name: str) -> list[str]:
    """What a pod of `LOOKS` printed: its name, its hosts file, its resolv.conf."""
    agent.wait_phase(name, "Succeeded")
    parts = agent.command("logs", f"{name}-live").stdout.split("--\n")
    return [part.strip() for part in parts[:3]]


def test_a_pods_names_and_hosts_are_as_it_asks(agent: Agent) -> None:
    aliases = [{"ip": "192.0.2.7", "hostnames": ["seven", "sieben"]}]
    wishes: dict[str, dict[str, Any]] = {
        "plain": {},
        "named": {"hostname": "custom", "subdomain": "sub", "hostAliases": aliases},
        "full": {"hostname": "custom", "subdomain": "sub", "setHostnameAsFQDN": True},
        "other": {"hostnameOverride": "quite.another"},
    }
    for name, fields in wishes.items():
        agent.put(pod(name, LOOKS, restartPolicy="Never", **fields))
    found = {name: seen(agent, name) for name in wishes}
    assert {
        "plain": "plain-live",
        "named": "custom",
        "full": "custom.sub.default.svc.cluster.example",
        "other": "quite.another",
    } == {name: looks[0] for name, looks in found.items()}
    assert "\tcustom.sub.default.svc.cluster.example\tcustom\n" in found["named"][1]
    assert found["named"][1].endswith("# Entries added by HostAliases.\n192.0.2.7\tseven\tsieben")
    assert found["other"][1].endswith("\tquite.another")


def test_a_full_name_the_kernel_cannot_hold_is_reported_and_its_pod_waits(agent: Agent) -> None:
    long = {"hostname": "h" * 60, "subdomain": "sub", "setHostnameAsFQDN": True}
    agent.put(pod("long", LOOKS, restartPolicy="Never", **long))
    told = "failed to construct FQDN from pod hostname and cluster domain"
    await_that(lambda: told in agent.command("describe", "pod", "long").stdout, 60, agent.story)
    assert "Pending" == agent.pods()["long"]["status"]["phase"]


def test_where_a_pod_asks_for_names_is_its_policys_and_its_own_word(agent: Agent) -> None:
    own = {
        "nameservers": ["192.0.2.1", "192.0.2.2"],
        "searches": ["example.org"],
        "options": [{"name": "ndots", "value": "2"}],
    }
    for name, fields in {
        "cluster": {},
        "merged": {"dnsConfig": own},
        "alone": {"dnsPolicy": "None", "dnsConfig": own},
        "node": {"dnsPolicy": "Default"},
    }.items():
        agent.put(pod(name, LOOKS, restartPolicy="Never", **fields))
    cluster, merged, alone, node = (
        seen(agent, name)[2].splitlines() for name in ("cluster", "merged", "alone", "node")
    )
    servers = ["nameserver 10.0.0.10", "nameserver 10.0.0.11"]
    assert servers == [line for line in cluster if line.startswith("nameserver")]
    search = next(line for line in cluster if line.startswith("search"))
    assert search.startswith("search default.svc.cluster.example svc.cluster.example cluster.example")
    assert "options ndots:5" in cluster
    assert [*servers, "nameserver 192.0.2.1"] == [line for line in merged if line.startswith("nameserver")]
    assert "options ndots:2" in merged
    assert {"nameserver 192.0.2.1", "nameserver 192.0.2.2", "search example.org", "options ndots:2"} == set(alone)
    assert not any("cluster.example" in line for line in node)
    told = agent.command("describe", "pod", "merged").stdout
    assert "DNSConfigForming" in told
    assert "the applied nameserver line is: 10.0.0.10 10.0.0.11 192.0.2.1" in told


def test_a_container_has_a_terminal_and_an_open_input_only_where_it_asks_for_them(agent: Agent) -> None:
    asks = "test -t 0 && test -t 1 && exit 0; exit 4"
    agent.put(
        pod(
            "inputs",
            shell("deaf", "cat; exit 5"),
            shell("screen", asks, tty=True, stdin=True),
            shell("blind", asks),
            shell("patient", "cat; exit 5", stdin=True, stdinOnce=True),
            restartPolicy="Never",
        )
    )

    def ended(pods: dict[str, Any]) -> dict[str, int]:
        states = {
            name: state(pods.get("inputs", {}), name).get("state", {})
            for name in ("deaf", "screen", "blind", "patient")
        }
        return {name: one["terminated"]["exitCode"] for name, one in states.items() if "terminated" in one}

    agent.wait(lambda pods: {"deaf": 5, "screen": 0, "blind": 4} == ended(pods), "three have ended and one reads")
    assert "running" in state(agent.pods()["inputs"], "patient")["state"]
