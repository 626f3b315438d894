"""What keeps an agent from starting is told before it touches anything: exit 1, the reason last."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trikubelet.app import supervise
from trikubelet.app.agent import run_agent

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


def test_a_kubeconfig_that_cannot_be_read_ends_the_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert 1 == run_agent([f"--kubeconfig={tmp_path / 'none'}", f"--root-dir={tmp_path / 'root'}"])
    expected = f"error: --kubeconfig: {tmp_path / 'none'}: cannot be read: No such file or directory"
    assert [expected] == capfd.readouterr().err.splitlines()
    assert not (tmp_path / "root").exists()


def test_every_fault_of_flags_and_files_is_reported_at_once_and_nothing_is_touched(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\nsyncFrequency: soon\n"
    )
    flags = [
        "--standalone",
        "--strict-config",
        f"--config={path}",
        f"--root-dir={tmp_path / 'root'}",
        "--hostname-overide=x",
    ]
    assert 1 == run_agent(flags)
    told = capfd.readouterr().err
    assert f"{path}:3: maxPodz" in told
    assert f"{path}:4: syncFrequency" in told
    assert "--hostname-override" in told
    assert not (tmp_path / "root").exists()


def test_signals_are_heard_before_the_first_line_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    supervised = []
    monkeypatch.setattr(supervise, "run", lambda main, **_: supervised.append(main) or 0)
    flags = ["--standalone", "--container-runtime-endpoint=fake:", f"--root-dir={tmp_path}"]

    assert 0 == run_agent(flags)
    assert 1 == len(supervised)
    assert "" == capfd.readouterr().err


def _agent(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """It may open 200 files unless it asks for more."""
    agent = [sys.executable, "-m", "trikubelet", "--standalone", f"--root-dir={directory}", *flags]
    words = ["sh", "-c", 'ulimit -Sn 200 && exec "$@"', "sh", *agent]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))


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
                "cgroupsPerQOS": False,  # the machine's would outlive us
                "enforceNodeAllocatable": [],
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


SOCKETS = "run/" if os.geteuid() else ""  # below the root directory


@pytest.mark.parametrize(
    ("endpoint", "obstacle", "told"),
    [
        ("fake:", "logs/containers", "it is not a directory; the agent keeps files there: remove what is in the way"),
        ("fake:", "image_manager", "it is not a directory; the agent keeps files there"),
        ("fake:", f"{SOCKETS}fake.sock", "is not a socket; remove it"),
        ("embedded:", f"{SOCKETS}embedded.sock", "is not a socket; remove it"),
        ("embedded:", "embedded", "Not a directory"),
    ],
)
def test_a_file_in_the_place_of_what_the_agent_keeps_ends_the_start_with_its_name(
    endpoint: str, obstacle: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / obstacle).parent.mkdir(exist_ok=True)
    (tmp_path / obstacle).touch()
    flags = ["--healthz-port=0", f"--pod-manifest-path={tmp_path / 'manifests'}"]
    done = _agent(tmp_path, f"--container-runtime-endpoint={endpoint}", *flags)

    last = done.stderr.splitlines()[-1]
    assert (1, "") == (done.returncode, done.stdout)
    assert last.startswith("error: "), done.stderr
    assert str(tmp_path / obstacle) in last
    assert told in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("expected", "flags"),
    [(["This process may have 300 files open, and a busy node may need 4096"], ["--max-open-files=300"]), ([], [])],
    ids=["few are asked for", "the default"],
)
def test_a_taken_health_port_ends_the_start_with_what_to_change_and_few_open_files_are_reported(
    expected: list[str], flags: list[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _agent(
            tmp_path,
            f"--healthz-port={port}",
            f"--pod-manifest-path={tmp_path / 'manifests'}",
            f"--container-runtime-endpoint=unix://{tmp_path / 'nobody.sock'}",
            *("--cgroups-per-qos=false", "--enforce-node-allocatable="),
            *flags,
        )
    assert 1 == done.returncode
    assert "healthzPort" in done.stderr.splitlines()[-1]
    assert expected == re.findall(r"This process may have \d+ files open.*?\d+", done.stderr)


TOKENS = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://192.0.2.1:6443"}}}}]
users: [{{name: u, user: {{{user}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


@pytest.mark.parametrize(
    ("user", "path", "value", "why"),
    [
        ("tokenFile: /nope/token", "tokenFile", "/nope/token", "No such file or directory (put a token there)"),
        ("client-certificate: /nope/crt, client-key: /nope/key", "[client-certificate]", "/nope/crt", "No such file"),
        (
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: /nope/plugin, interactiveMode: Never}",
            "exec.command",
            "/nope/plugin",
            "there is no such program that can be run (install it, or correct the command)",
        ),
    ],
)
@pytest.mark.parametrize("flag", ["--kubeconfig", "--bootstrap-kubeconfig"])
def test_a_kubeconfig_that_names_what_is_not_there_ends_the_start_with_one_line(
    user: str, path: str, value: str, why: str, flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "conf"
    kubeconfig.write_text(TOKENS.format(user=user))
    flags = [f"--root-dir={tmp_path / 'root'}", "--container-runtime-endpoint=fake:", f"{flag}={kubeconfig}"]
    if flag != "--kubeconfig":
        flags.append(f"--kubeconfig={tmp_path / 'none'}")

    assert 1 == run_agent(flags)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "error" in line]
    field = f"users[0].user{path if path.startswith('[') else '.' + path}"
    assert line.startswith(f'error: {kubeconfig}: {field}: Invalid value: "{value}": {why}')
