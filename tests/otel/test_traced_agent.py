"""A whole agent that is asked for traces: what its collector has once it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from otel.collectorkit import collecting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
enableServer: false
healthzPort: 0
tracing:
  endpoint: {endpoint}
  samplingRatePerMillion: 1000000
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: "web:1"}]}
"""


@pytest.mark.slow
def test_calls_to_the_runtime_are_within_the_sync_and_the_list_that_made_them(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "web.yaml").write_text(POD)
    with collecting() as collector:
        (tmp_path / "config.yaml").write_text(CONFIGURATION.format(endpoint=collector.endpoint))
        words = [
            *(sys.executable, "-m", "trikubelet", "--standalone", "--container-runtime-endpoint=fake:"),
            *(f"--root-dir={tmp_path / 'root'}", f"--config={tmp_path / 'config.yaml'}"),
            *(f"--pod-manifest-path={tmp_path / 'manifests'}", "--hostname-override=n"),
        ]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as agent:
            assert agent.stderr is not None
            said = []
            try:
                for line in agent.stderr:
                    said.append(line)
                    if "Running and ready" in line:
                        break
                agent.send_signal(signal.SIGTERM)
                said += agent.stderr.readlines()
            except BaseException:
                agent.kill()  # or leaving the block waits for it for ever
                raise
        assert 0 == agent.returncode, "".join(said)

    service = "runtime.v1.RuntimeService"
    assert {f"{service}/RunPodSandbox", f"{service}/CreateContainer"} <= collector.under("syncPod")
    assert {f"{service}/ListPodSandbox", f"{service}/ListContainers"} == collector.under("PLEG/Relist")
