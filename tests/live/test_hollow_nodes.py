"""Hollow nodes are nodes to a real control plane: the scheduler fills them, and it holds each to its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 90.0
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "spread"},
    "spec": {
        "replicas": 12,
        "selector": {"matchLabels": {"app": "spread"}},
        "template": {
            "metadata": {"labels": {"app": "spread"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "main", "image": "registry.example/any:1", "resources": {"requests": {"cpu": 8}}}
                ],
            },
        },
    },
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name: a Unix socket's path may not be as long as pytest's are."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@contextmanager
def hollow(directory: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command for the length of the block; what it keeps temporarily is below a directory."""
    command = [sys.executable, "-m", "trikubelet", "hollow", *flags]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"TMPDIR": str(directory)}) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def ready(plane: ControlPlane) -> list[dict[str, Any]]:
    """The nodes that are Ready."""
    nodes = plane.kubectl.get("nodes")["items"]
    return [
        node
        for node in nodes
        if any((one["type"], one["status"]) == ("Ready", "True") for one in node["status"].get("conditions", []))
    ]


def test_the_scheduler_fills_them_and_the_end_leaves_nothing_behind(control_plane: ControlPlane, place: Path) -> None:
    def running() -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = control_plane.kubectl.get("pods")["items"]
        return [pod for pod in pods if pod["status"]["phase"] == "Running"]

    def story() -> str:
        return (place / "log").read_text() + control_plane.kubectl("get", "nodes,pods", "-o", "wide")

    flags = ["--nodes=3", "--first=5", "--cpus=64", "--memory=128Gi", f"--kubeconfig={control_plane.kubeconfig}"]
    with hollow(place, *flags) as process:
        await_that(lambda: len(ready(control_plane)) == 3, WAIT_SECONDS_MAX, story, 0.5)
        assert [("64", "128Gi")] * 3 == [
            (node["status"]["capacity"]["cpu"], node["status"]["capacity"]["memory"]) for node in ready(control_plane)
        ]
        # A node controller takes away what kept pods from a node that was not ready, some time after it is.
        await_that(lambda: not any(node["spec"].get("taints") for node in ready(control_plane)), 60, story, 0.5)
        control_plane.kubectl("create", "-f-", manifests=DEPLOYMENT)
        await_that(lambda: len(running()) == 12, WAIT_SECONDS_MAX, story, 0.5)
        assert {"hollow-5", "hollow-6", "hollow-7"} == {pod["spec"]["nodeName"] for pod in running()}
        control_plane.kubectl("delete", "deployment", "spread", "--cascade=foreground", "--timeout=60s", seconds=90)
        await_that(lambda: not control_plane.kubectl.get("pods")["items"], WAIT_SECONDS_MAX, story, 0.5)

    assert 0 == process.returncode
    assert ["log"] == [path.name for path in place.iterdir()]


def test_with_a_token_each_gets_a_certificate_of_its_own(control_plane: ControlPlane, place: Path) -> None:
    token, root = control_plane.bootstrap_kubeconfig(), place / "root"
    with hollow(place, "--nodes=2", f"--bootstrap-kubeconfig={token}", f"--root-dir={root}"):
        await_that(lambda: len(ready(control_plane)) == 2, WAIT_SECONDS_MAX, (place / "log").read_text, 0.5)

    for name in ("hollow-0", "hollow-1"):
        who = control_plane.kubectl_as(root / name / "kubeconfig")
        assert f"system:node:{name}" == who("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
