"""What keeps an agent from starting is told before it touches anything: exit 1, the reason last."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trikubelet.app.agent import run_agent


def test_a_cluster_is_refused_while_this_version_cannot_join_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert 1 == run_agent([f"--kubeconfig={tmp_path / 'none'}", f"--root-dir={tmp_path / 'root'}"])
    assert "--standalone" in capfd.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "root").exists()


def test_every_fault_of_flags_and_files_is_told_at_once_and_nothing_is_touched(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\nsyncFrequency: soon\n"
    )
    flags = ["--standalone", f"--config={path}", f"--root-dir={tmp_path / 'root'}", "--hostname-overide=x"]
    assert 1 == run_agent(flags)
    told = capfd.readouterr().err
    assert f"{path}:3: maxPodz" in told
    assert f"{path}:4: syncFrequency" in told
    assert "--hostname-override" in told
    assert not (tmp_path / "root").exists()


def _agent(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "trikubelet", "--standalone", f"--root-dir={directory}", *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=50, check=False, env=dict(os.environ))


def test_a_second_agent_on_the_same_root_directory_is_sent_away_with_the_firsts_process_id(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "staticPodPath": str(manifests),
                "podLogsDir": str(tmp_path / "logs"),
                "containerRuntimeEndpoint": f"unix://{tmp_path / 'nobody.sock'}",
                "healthzPort": 0,
            }
        )
    )
    words = [sys.executable, "-m", "trikubelet", "--standalone", f"--root-dir={tmp_path}", f"--config={config}"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as first:
        try:
            assert first.stderr is not None
            assert any("root directory" in line for line in first.stderr)
            second = _agent(tmp_path, f"--config={config}")
        finally:
            first.terminate()
    assert 0 == first.returncode
    assert 1 == second.returncode
    assert f"process {first.pid}" in second.stderr.splitlines()[-1]


def test_a_taken_health_port_ends_the_start_with_what_to_change(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _agent(
            tmp_path,
            f"--healthz-port={port}",
            f"--pod-manifest-path={tmp_path / 'manifests'}",
            f"--container-runtime-endpoint=unix://{tmp_path / 'nobody.sock'}",
        )
    assert 1 == done.returncode
    assert "healthzPort" in done.stderr.splitlines()[-1]
