"""One node agent per container runtime: by a lock beside its socket, and by the processes there are."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from trikubelet.app import neighbours, runtime_claim
from trikubelet.app.endpoint import DEFAULT, EMBEDDED
from trikubelet.app.neighbours import kubelets_on
from trikubelet.app.runtime_claim import LOCK_SUFFIX, claimed_runtime
from trikubelet.host.processes import command_line, parents_of
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A runtime's endpoint on a machine without another agent or kubelet."""
    monkeypatch.setattr(neighbours, "processes_named", lambda name: [])
    monkeypatch.setattr(neighbours, "holders_of", lambda name: {})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "r.sock"))
    return f"unix://{tmp_path}/r.sock"


def test_second_agent_on_a_runtime_is_refused_until_the_first_ends(endpoint: str) -> None:
    with claimed_runtime(endpoint, shares=False):
        with pytest.raises(StartFailed, match=f"process {os.getpid()}, an agent that holds .*--share-runtime"):
            claimed_runtime(endpoint, shares=False).__enter__()
        with claimed_runtime(endpoint, shares=True):
            pass
    with claimed_runtime(endpoint, shares=False):
        pass


def test_lock_ends_with_a_killed_process(endpoint: str) -> None:
    code = (
        "import sys; from pathlib import Path; from trikubelet.app.lock import take_lock\n"
        "take_lock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    lock = endpoint.removeprefix("unix://") + LOCK_SUFFIX
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, lock], stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert "locked\n" == holder.stdout.readline()
        with pytest.raises(StartFailed, match=f"process {holder.pid}, an agent that holds "):
            claimed_runtime(endpoint, shares=False).__enter__()
        holder.kill()
    with claimed_runtime(endpoint, shares=False):
        pass


def test_lock_that_cannot_be_made_does_not_stop_the_start(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / f"r.sock{LOCK_SUFFIX}").mkdir()
    with claimed_runtime(endpoint, shares=False):
        pass
    with claimed_runtime(f"unix://{tmp_path}/missing/r.sock", shares=False):
        pass


def test_runtime_inside_the_agent_is_not_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_claim, "kubelets_on", lambda endpoint: [7])
    with claimed_runtime(EMBEDDED, shares=False):
        pass


def test_kubelet_on_the_runtime_is_named_with_its_command(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_claim, "kubelets_on", lambda endpoint: [7])
    monkeypatch.setattr(runtime_claim, "command_line", lambda process: ["/usr/bin/kubelet", "--config=/x"])
    with pytest.raises(StartFailed, match=r"process 7, a kubelet \(/usr/bin/kubelet --config=/x\), uses it"):
        claimed_runtime(endpoint, shares=False).__enter__()
    with claimed_runtime(endpoint, shares=True):
        pass


@pytest.mark.parametrize(
    ("expected", "name", "words", "asked"),
    [
        pytest.param([7], "kubelet", ["kubelet"], DEFAULT, id="a kubelet without flags is on containerd"),
        pytest.param([], "kubelet", ["kubelet"], "unix:///run/crio/crio.sock", id="and not on CRI-O"),
        pytest.param(
            [7],
            "kubelet",
            ["kubelet", "--container-runtime-endpoint", "unix:///run/crio/crio.sock"],
            "unix:///run/crio/crio.sock",
            id="by its flag",
        ),
        pytest.param(
            [], "kubelet", ["kubelet", "--container-runtime-endpoint=unix:///run/x.sock"], DEFAULT, id="elsewhere"
        ),
        pytest.param(
            [7], "kubelet", ["kubelet", "--config-dir=/d"], "unix:///run/crio/crio.sock", id="drop-ins may name any"
        ),
        pytest.param([], "k3s-server", ["k3s", "server"], DEFAULT, id="k3s has its own containerd"),
        pytest.param(
            [7], "k3s-server", ["k3s", "server"], "unix:///run/k3s/containerd/containerd.sock", id="which it is on"
        ),
        pytest.param([], "kubelite", ["kubelite"], DEFAULT, id="MicroK8s has its own containerd"),
    ],
)
def test_kubelets_are_found_by_the_runtime_they_use(
    monkeypatch: pytest.MonkeyPatch, expected: list[int], name: str, words: Sequence[str], asked: str
) -> None:
    monkeypatch.setattr(neighbours, "processes_named", lambda one: [7] if one == name else [])
    monkeypatch.setattr(neighbours, "command_line", lambda process: words)
    assert expected == kubelets_on(asked)


def test_configuration_file_of_a_kubelet_names_its_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "config.yaml"
    written.write_text('kind: KubeletConfiguration\ncontainerRuntimeEndpoint: "unix:///run/x.sock"\n')
    process = os.getpid()
    monkeypatch.setattr(neighbours, "processes_named", lambda name: [process] if name == "kubelet" else [])
    monkeypatch.setattr(neighbours, "parents_of", lambda process: [])
    monkeypatch.setattr(neighbours.os, "getpid", lambda: 0)
    monkeypatch.setattr(neighbours, "command_line", lambda process: ["kubelet", f"--config={written}"])
    assert ([process], []) == (kubelets_on("unix:///run/x.sock"), kubelets_on(DEFAULT))


def test_agent_called_kubelet_and_its_parents_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [os.getpid(), os.getppid()]
    monkeypatch.setattr(neighbours, "processes_named", lambda name: ours if name == "kubelet" else [])
    assert [] == kubelets_on(DEFAULT)


def test_parents_and_command_line_are_read_from_proc() -> None:
    assert os.getppid() == parents_of(os.getpid())[0]
    assert sys.executable == os.path.realpath(command_line(os.getpid())[0]) or command_line(os.getpid())
    assert ([], ()) == (parents_of(2**30), command_line(2**30))
