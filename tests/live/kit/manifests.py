"""Pod manifests for the live tests of the agent, as short as a test can say what it means."""

from __future__ import annotations

from typing import Any

from . import images


def container(name: str, *args: str, image: str = images.TESTPROG, **fields: Any) -> dict[str, Any]:
    """A container that runs testprog with these arguments. ``fields`` are the container's own, as in YAML."""
    return {"name": name, "image": image, "args": list(args), **fields}


def shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": images.BUSYBOX, "command": ["sh", "-c", script], **fields}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of these containers, with a grace of two seconds unless ``spec`` says otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": list(containers), **spec},
    }


def state(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """The status of the container ``name`` of a pod, whichever kind of container it is; empty when it has none."""
    status = pod.get("status", {})
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return next((one for kind in kinds for one in status.get(kind, ()) if one["name"] == name), {})


def waiting_reason(pod: dict[str, Any], name: str) -> str:
    """Why the container ``name`` waits; empty when it does not."""
    reason: str = state(pod, name).get("state", {}).get("waiting", {}).get("reason", "")
    return reason
