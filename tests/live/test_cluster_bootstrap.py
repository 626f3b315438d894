"""A node that wants to join and is not let in: by an operator who says no or nothing, by a token that is of no use, or
because it was told of another cluster's authority. Each is told in one line that says what to do, and each gets in when
that was done, without a restart.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from live.kit.certificates import Authority
from live.kit.cluster_agent import ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import write_kubeconfig
from live.kit.manifests import container, pod
from live.kit.network import free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow


def wait_said(agent: ClusterAgent, words: str) -> None:
    """Until the agent has logged that."""
    await_that(lambda: words in agent.log_path.read_text(), 60, lambda: f"{words}: never said\n{agent.story()}")


def requests(plane: ControlPlane) -> set[str]:
    """The names of all certificate requests."""
    return {one["metadata"]["name"] for one in plane.kubectl.get("csr")["items"]}


def test_request_waits_then_is_denied_then_approved(
    own_control_plane: Callable[..., ControlPlane], containerd2: Containerd
) -> None:
    plane = own_control_plane()
    plane.kubectl("delete", "clusterrolebinding", "tests:approve-first")
    with ClusterAgent(containerd2, plane, bootstrap=True) as agent:
        agent.put(pod("static", container("s", "serve", str(free_port())), hostNetwork=True))
        await_that(lambda: len(requests(plane)) == 1, 60, agent.story)
        (first,) = requests(plane)
        wait_said(agent, f"kubectl certificate approve {first}")
        agent.wait_phase(f"static-{agent.name}", "Running")  # nobody on the node waits for the cluster

        agent.kill()
        agent.start()
        wait_said(agent, f"Certificate request {first} was made by an earlier agent")
        assert {first} == requests(plane)

        plane.kubectl("certificate", "deny", first)
        wait_said(agent, f"Bootstrap: certificate request {first} was denied: KubectlDeny")
        await_that(lambda: len(requests(plane)) == 2, 60, agent.story)
        (second,) = requests(plane) - {first}
        plane.kubectl("certificate", "approve", second)
        agent.wait_ready()


def test_the_authority_of_another_cluster_is_reported_and_the_right_one_taken_without_a_restart(
    control_plane: ControlPlane, containerd2: Containerd, tmp_path: Path
) -> None:
    good = control_plane.bootstrap_kubeconfig()
    token = re.search(r"token: (\S+)", good.read_text())
    assert token is not None
    path = tmp_path / "bootstrap"
    write_kubeconfig(path, control_plane.url, Authority(tmp_path).files.certificate, token[1])
    with ClusterAgent(containerd2, control_plane, f"--bootstrap-kubeconfig={path}", bootstrap=True) as agent:
        wait_said(agent, "no authority that is trusted here signed it")
        path.write_bytes(good.read_bytes())
        agent.wait_ready()


def test_node_with_a_wrong_authority_logs_it_and_runs_its_static_pods(
    control_plane: ControlPlane, containerd2: Containerd, tmp_path: Path
) -> None:
    with ClusterAgent(containerd2, control_plane) as agent:
        agent.kill()
        authority = tmp_path / "authority"
        authority.write_bytes(Authority(tmp_path).files.certificate.read_bytes())
        text = agent.kubeconfig.read_text()
        right = str(control_plane.authority.certificate)
        assert right in text
        agent.kubeconfig.write_text(text.replace(right, str(authority)))
        control_plane.kubectl("delete", "node", agent.name, "--ignore-not-found")
        agent.put(pod("static", container("s", "serve", str(free_port())), hostNetwork=True))
        agent.start()
        wait_said(agent, "no authority that is trusted here signed it")
        agent.wait_phase(f"static-{agent.name}", "Running")
        authority.write_bytes(control_plane.authority.certificate.read_bytes())
        agent.wait_ready()


def test_a_token_that_has_expired_is_reported_and_another_one_is_taken_without_a_restart(
    control_plane: ControlPlane, containerd2: Containerd, tmp_path: Path
) -> None:
    path = tmp_path / "bootstrap"
    path.write_bytes(control_plane.bootstrap_kubeconfig(lasting=timedelta(minutes=-1)).read_bytes())
    with ClusterAgent(containerd2, control_plane, f"--bootstrap-kubeconfig={path}", bootstrap=True) as agent:
        wait_said(agent, "It was shown the token of users[0].user.token in")
        path.write_bytes(control_plane.bootstrap_kubeconfig().read_bytes())
        agent.wait_ready()
