"""The doctor in a real cluster: a node's own user has every right that is asked for, and another node's has not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from live.kit.cluster_agent import ClusterAgent

pytestmark = pytest.mark.slow


def findings(member: ClusterAgent, check: str, *flags: str) -> list[dict[str, Any]]:
    """What is found of one thing: by the agent, or by a process of its own with an agent's flags."""
    done = member.command("doctor", "-o", "json", *(("--", *flags) if flags else ()))
    assert done.stdout, done.stderr
    return [one for one in json.loads(done.stdout) if one["check"] == check]


def test_a_node_has_the_rights_it_needs_and_no_other_nodes(member: ClusterAgent) -> None:
    (own,) = findings(member, "API server")
    assert ("ok", True) == (own["severity"], own["found"].endswith("gives this node its rights")), own
    certificates = findings(member, "certificates")
    words = {one["found"].rpartition("'s certificate ")[2].rpartition(" ")[0]: one["severity"] for one in certificates}
    assert "warning" == words["ends on"], certificates  # within a day: the tests' authority gives no more

    flags = [f"--kubeconfig={member.kubeconfig}", f"--root-dir={member.root}", "--hostname-override=somebody-else"]
    (others,) = findings(member, "API server", *flags)
    assert ("error", True) == (others["severity"], "update leases" in others["found"]), others
