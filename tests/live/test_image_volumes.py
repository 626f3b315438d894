"""Images as volumes: what a runtime that can mounts, and what one that cannot is answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state, waiting_reason

if TYPE_CHECKING:
    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow


def showing(reference: str, **mount: Any) -> dict[str, Any]:
    """A pod that lists an image mounted at /image."""
    script = "ls /image; touch /image/new; sleep 1000"
    mounts = [{"name": "v", "mountPath": "/image", **mount}]
    return pod(
        "shows",
        shell("c", script, volumeMounts=mounts),
        volumes=[{"name": "v", "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}],
    )


@pytest.mark.parametrize(("expected", "mount"), [("bin", {}), ("testprog", {"subPath": "bin"})])
def test_an_image_is_mounted_read_only_whole_or_in_part(
    expected: str, mount: dict[str, str], containerd2: Containerd
) -> None:
    with Agent(containerd2) as agent:
        agent.put(showing(images.TESTPROG, **mount))
        agent.wait_phase("shows", "Running")
        await_that(lambda: "Read-only file system" in agent.command("logs", "shows-live").stdout, 60, agent.story)
        assert expected in agent.command("logs", "shows-live").stdout.split()


def test_an_image_that_cannot_be_had_keeps_its_container_waiting(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        agent.put(showing("registry.trikubelet.test/no-such:1"))
        reasons = ("ErrImagePull", "ImagePullBackOff")
        found = agent.wait(lambda now: waiting_reason(now.get("shows", {}), "c") in reasons, "it waits")
        assert "no-such" in state(found["shows"], "c")["state"]["waiting"]["message"]


def test_a_runtime_without_image_volumes_is_reported(containerd1: Containerd) -> None:
    with Agent(containerd1) as agent:
        agent.put(showing(images.TESTPROG))
        failed = "CreateContainerError"
        found = agent.wait(lambda now: waiting_reason(now.get("shows", {}), "c") == failed, "it waits")
        told = state(found["shows"], "c")["state"]["waiting"]["message"]
        assert told.endswith("(one of its volumes is an image: can the runtime mount images? containerd can since 2.1)")
