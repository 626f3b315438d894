"""The agent becomes a node of a real cluster, and stays one: by a token, by a certificate, when its object is deleted,
when its certificate ends. What runs on nodes is elsewhere, but for one on the older containerd.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography import x509

from live.kit import images, network
from live.kit.cluster_agent import LEASES, NODES, PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import KubectlFailed, write_kubeconfig
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

CERTIFICATE_SECONDS = 90
WAITS_FOR_ITS_CLOUD = "node.cloudprovider.kubernetes.io/uninitialized"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def held(agent: ClusterAgent, use: str = "client") -> x509.Certificate:
    """The certificate in force for that use."""
    pem = (agent.root / "pki" / f"kubelet-{use}-current.pem").read_bytes()
    return x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])


def test_a_token_makes_a_ready_node_with_its_labels_and_taints(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    words = ["--node-labels=example.com/room=4", "--register-with-taints=example.com/kept=yes:PreferNoSchedule"]
    with ClusterAgent(containerd2, control_plane, *words, bootstrap=True) as agent:
        node = agent.wait_ready()
        assert {"example.com/room": "4", "kubernetes.io/os": "linux"}.items() <= node["metadata"]["labels"].items()
        assert agent.name == node["metadata"]["labels"]["kubernetes.io/hostname"]
        kept = {"key": "example.com/kept", "value": "yes", "effect": "PreferNoSchedule"}
        assert kept in node["spec"]["taints"]
        (request,) = control_plane.kubectl.get("csr")["items"]
        assert ["Approved"] == [one["type"] for one in request["status"]["conditions"]]
        assert [0o600, 0o600] == [mode(agent.kubeconfig), mode(agent.root / "pki" / "kubelet-client-current.pem")]
        agent.stop()
        agent.start()
        await_that(lambda: "was registered before" in agent.log_path.read_text(), 60, agent.story)
        assert 1 == len(control_plane.kubectl.get("csr")["items"])


def test_a_token_that_is_of_no_use_is_reported_and_another_one_is_taken_without_a_restart(
    control_plane: ControlPlane, containerd2: Containerd, tmp_path: Path
) -> None:
    path = tmp_path / "bootstrap"
    write_kubeconfig(path, control_plane.url, control_plane.authority.certificate, "abcdef.0123456789abcdef")
    with ClusterAgent(containerd2, control_plane, f"--bootstrap-kubeconfig={path}", bootstrap=True) as agent:
        await_that(lambda: "does not know this node" in agent.log_path.read_text(), 60, agent.story)
        path.write_bytes(control_plane.bootstrap_kubeconfig().read_bytes())
        agent.wait_ready()


def test_a_deleted_node_registers_again(member: ClusterAgent) -> None:
    with member.watch(NODES) as nodes:
        before = nodes.wait(bool, "the node is seen")[member.name]["metadata"]["uid"]
        member.plane.kubectl("delete", "node", member.name)
        nodes.wait(
            lambda now: any(is_ready(node) and node["metadata"]["uid"] != before for node in now.values()),
            "the node is there again, and Ready",
            story=member.story,
        )
        assert before in {change.uid for change in nodes.changes if change.kind == "DELETED"}


def test_node_with_an_unchanged_status_is_kept_alive_by_its_lease(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    """It looks five times as often as usual, and reports as rarely."""
    often = {"nodeStatusUpdateFrequency": "2s", "nodeStatusReportFrequency": "5m"}
    with ClusterAgent(containerd2, control_plane, **often) as agent:
        agent.wait_ready()
        before = wait_told(agent)
        time.sleep(12)  # six looks at the status, and a lease: the time is what is tested
        assert before == heartbeat(agent.node())


def test_an_agent_that_may_not_register_waits_for_its_operator(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    with ClusterAgent(containerd2, control_plane, "--register-node=false") as agent:
        await_that(lambda: "does not register it" in agent.log_path.read_text(), 60, agent.story)
        with pytest.raises(KubectlFailed, match="NotFound"):
            agent.node()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": agent.name, "labels": {"made-by": "hand"}}}
        control_plane.kubectl("create", "-f-", manifests=node)
        assert "hand" == agent.wait_ready()["metadata"]["labels"]["made-by"]


def test_an_external_cloud_gives_the_addresses_and_lets_the_node_be_used(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    given = [{"type": "InternalIP", "address": "192.0.2.7"}]
    with ClusterAgent(containerd2, control_plane, "--cloud-provider=external") as agent:
        node = agent.wait_ready()
        assert ["Hostname"] == [one["type"] for one in node["status"]["addresses"]]
        assert WAITS_FOR_ITS_CLOUD in {taint["key"] for taint in node["spec"]["taints"]}
        kubectl = control_plane.kubectl
        kubectl("taint", "node", agent.name, f"{WAITS_FOR_ITS_CLOUD}-")
        status = json.dumps({"status": {"addresses": given}})
        kubectl("patch", "node", agent.name, "--subresource=status", "--type=merge", f"--patch={status}")
        agent.stop()
        before = heartbeat(agent.node())
        agent.start()
        await_that(lambda: heartbeat(agent.node()) > before, 60, agent.story, 0.5)
        node = agent.node()
        assert given == node["status"]["addresses"]
        assert WAITS_FOR_ITS_CLOUD not in {taint["key"] for taint in node["spec"].get("taints", ())}


def test_a_serving_certificate_is_asked_for_and_taken_when_an_operator_approves(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    with ClusterAgent(containerd2, control_plane, serverTLSBootstrap=True) as agent:
        node = agent.wait_ready()
        kubectl = control_plane.kubectl
        await_that(lambda: bool(kubectl.get("csr")["items"]), 60, agent.story, 0.5)
        (request,) = kubectl.get("csr")["items"]
        assert "kubernetes.io/kubelet-serving" == request["spec"]["signerName"]
        kubectl("certificate", "approve", request["metadata"]["name"])
        await_that((agent.root / "pki" / "kubelet-server-current.pem").exists, 60, agent.story)
        names = held(agent, "server").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = {one["address"] for one in node["status"]["addresses"]}
        assert addresses == {str(name.value) for name in names}


def test_a_certificate_is_replaced_before_it_ends_and_no_heartbeat_is_missed(
    own_control_plane: Callable[..., ControlPlane], containerd2: Containerd
) -> None:
    plane = own_control_plane({"kube-controller-manager": [f"--cluster-signing-duration={CERTIFICATE_SECONDS}s"]})
    with ClusterAgent(containerd2, plane, bootstrap=True, rotateCertificates=True) as agent:
        agent.wait_ready()
        first = held(agent)
        with agent.watch(NODES) as nodes, agent.watch(LEASES) as leases:

            def beats_beyond(now: Objects) -> bool:
                return any(renewed(lease) > first.not_valid_after_utc for lease in now.values())

            leases.wait(beats_beyond, "the lease is renewed after the first certificate", 180, agent.story)
            renewals = [renewed(change.object) for change in leases.changes]
            lease_seconds = leases.now[agent.name]["spec"]["leaseDurationSeconds"]
            # Each renewal came before the one before it had run out, and nobody took the node for lost.
            gaps = [(after - before).total_seconds() for before, after in pairwise(renewals)]
            assert max(gaps) < lease_seconds
            assert {"True"} == {condition(change.object, "Ready") for change in nodes.changes}
        shares = shares_of_life(plane)
        # Wrong by what is lost of a second, in certificates and requests alike.
        assert shares
        assert 0.69 < min(shares) <= max(shares) < 1


def test_a_certificate_that_was_given_as_data_is_followed_by_one_of_the_nodes_own(
    own_control_plane: Callable[..., ControlPlane], containerd2: Containerd
) -> None:
    plane = own_control_plane()
    agent = ClusterAgent(containerd2, plane, rotateCertificates=True)
    given = yaml.safe_load(plane.node_kubeconfig(agent.name, timedelta(seconds=CERTIFICATE_SECONDS)).read_text())
    user = given["users"][0]["user"]
    for name in ("client-certificate", "client-key"):
        user[f"{name}-data"] = base64.b64encode(Path(user.pop(name)).read_bytes()).decode()
    agent.kubeconfig.write_text(yaml.safe_dump(given))
    with agent:
        agent.wait_ready()
        ends = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"])).not_valid_after_utc
        with agent.watch(LEASES) as leases:

            def beats_beyond(now: Objects) -> bool:
                return any(renewed(lease) > ends + timedelta(seconds=15) for lease in now.values())

            leases.wait(beats_beyond, "the lease is renewed after the given certificate", 180, agent.story)
        assert 1 == len(plane.kubectl.get("csr")["items"])
        assert "certificates have changed: new connections show the new ones" in agent.log_path.read_text()


def shares_of_life(plane: ControlPlane) -> list[float]:
    """How much of each certificate's life had passed when the next one was asked for. The signer has a life begin five
    minutes before it is given."""
    requests = sorted(plane.kubectl.get("csr")["items"], key=asked_at)
    found = []
    for before, after in pairwise(requests):
        held = x509.load_pem_x509_certificate(base64.b64decode(before["status"]["certificate"]))
        life = held.not_valid_after_utc - held.not_valid_before_utc
        found.append((asked_at(after) - held.not_valid_before_utc) / life)
    return found


def asked_at(request: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(request["metadata"]["creationTimestamp"])


def renewed(lease: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(lease["spec"]["renewTime"]).astimezone(UTC)


def wait_told(agent: ClusterAgent) -> datetime:
    """The heartbeat once it stands: until the agent has told all that a start brings."""
    last, since = heartbeat(agent.node()), time.monotonic()

    def stands() -> bool:
        nonlocal last, since
        now = heartbeat(agent.node())
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() > since + 8

    await_that(stands, 120, agent.story, 0.5)
    return last


def heartbeat(node: dict[str, Any]) -> datetime:
    """When the node last told how it is."""
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    return datetime.fromisoformat(ready["lastHeartbeatTime"])


def test_a_node_on_the_older_containerd_joins_and_runs_what_it_is_given(
    control_plane: ControlPlane, containerd1: Containerd
) -> None:
    with ClusterAgent(containerd1, control_plane, bootstrap=True) as agent:
        node = agent.wait_ready()
        assert f"containerd://{containerd1.version}" == node["status"]["nodeInfo"]["containerRuntimeVersion"]
        with agent.watch(PODS) as pods:
            control_plane.kubectl("create", "deployment", "web", f"--image={images.WEB}", "--replicas=2")
            now = pods.wait(lambda now: len(now) == 2 and all(map(is_ready, now.values())), "two run", 60, agent.story)
            assert {agent.name} == {one["spec"]["nodeName"] for one in now.values()}
            assert {200} == {network.ask(one["status"]["podIP"], 80, "/")[0] for one in now.values()}
            control_plane.kubectl("delete", "deployment", "web")
            pods.wait(lambda now: not now, "both are gone", 60, agent.story)
        await_that(lambda: not containerd1.tasks(), 60, agent.story)
