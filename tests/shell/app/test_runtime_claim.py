"""One node agent per container runtime: by a lock beside its socket, and by the processes there are."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from trikubelet.app import neighbours, runtime_claim
from trikubelet.app.endpoint import DEFAULT, EMBEDDED
from trikubelet.app.lock import LOCK_NAME, RootLock
from trikubelet.app.neighbours import agents_on, kubelets_on
from trikubelet.app.paths import RUNTIME_RECORD
from trikubelet.app.root_dir import bind_to_runtime
from trikubelet.app.runtime_claim import LOCK_SUFFIX, claimed_runtime
from trikubelet.host.processes import command_line, parents_of
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


@pytest.mark.parametrize("put", ["directory", "link", "pipe", "nothing"])
def test_lock_that_cannot_be_made_does_not_stop_the_start(put: str, endpoint: str, tmp_path: Path) -> None:
    lock, precious = tmp_path / f"r.sock{LOCK_SUFFIX}", tmp_path / "precious"
    precious.write_text("kept")
    match put:
        case "directory":
            lock.mkdir()
        case "link":
            lock.symlink_to(precious)
        case "pipe":
            os.mkfifo(lock)
        case "nothing":
            endpoint = f"unix://{tmp_path}/missing/r.sock"
    with claimed_runtime(endpoint, shares=False):
        pass
    assert "kept" == precious.read_text()


def test_file_with_a_lease_is_not_taken_for_a_held_lock(endpoint: str, tmp_path: Path) -> None:
    lock = tmp_path / f"r.sock{LOCK_SUFFIX}"
    lock.touch()
    with lock.open() as leased:
        fcntl.fcntl(leased, fcntl.F_SETSIG, signal.SIGURG)  # the kernel's signal, which nothing handles
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        with claimed_runtime(endpoint, shares=False):
            pass
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def test_agent_that_shares_does_not_keep_the_first_one_from_starting_again(endpoint: str) -> None:
    with claimed_runtime(endpoint, shares=True), claimed_runtime(endpoint, shares=False):
        pass


@pytest.fixture
def others(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two agents on the runtime: process 7 has it for itself, process 8 shares it."""
    roots = {7: tmp_path / "first", 8: tmp_path / "second"}
    with ExitStack() as locks:
        for process, root in roots.items():
            locks.enter_context(RootLock(root, shares_runtime=process == 8))
            bind_to_runtime(root, endpoint)
        held = {process: root / LOCK_NAME for process, root in roots.items()}
        monkeypatch.setattr(neighbours, "holders_of", lambda name: held)
        monkeypatch.setattr(neighbours, "_socket", lambda endpoint, process=None: endpoint)
        yield


@pytest.mark.usefixtures("others")
def test_agents_that_share_are_no_obstacle_unless_their_pods_would_end(endpoint: str, tmp_path: Path) -> None:
    assert ([7, 8], [7]) == (agents_on(endpoint), agents_on(endpoint, with_sharing=False))
    shutil.rmtree(tmp_path / "first")
    with claimed_runtime(endpoint, shares=False, beside_sharing=True):
        pass
    with pytest.raises(StartFailed, match="process 8, an agent "):
        claimed_runtime(endpoint, shares=False).__enter__()


@pytest.mark.usefixtures("others")
def test_agent_is_found_next_to_one_with_an_unreadable_record(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "first" / RUNTIME_RECORD).unlink()
    (tmp_path / "first" / RUNTIME_RECORD).mkdir()
    with pytest.raises(StartFailed, match="process 8, an agent "):
        claimed_runtime(endpoint, shares=False).__enter__()


def test_kubelet_is_found_where_agents_cannot_be_looked_for(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(endpoint: str, *, with_sharing: bool) -> list[int]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(runtime_claim, "agents_on", fail)
    monkeypatch.setattr(runtime_claim, "kubelets_on", lambda endpoint: [7])
    with pytest.raises(StartFailed, match="process 7, a kubelet "):
        claimed_runtime(endpoint, shares=False).__enter__()


def test_endpoint_that_is_none_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(StartFailed, match=r"containerRuntimeEndpoint: .*unix:///"):
        claimed_runtime("tcp://127.0.0.1:1", shares=False).__enter__()


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
        pytest.param(
            [7],
            "kubelet",
            ["/var/lib/k0s/bin/kubelet", "--container-runtime-endpoint=unix:///run/k0s/containerd.sock"],
            "unix:///run/k0s/containerd.sock",
            id="k0s starts a kubelet of its own",
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


KUBELET, K3S = "kubelet", "k3s-server"


@pytest.mark.parametrize(
    ("expected", "name", "written"),
    [
        pytest.param("/run/x.sock", KUBELET, 'containerRuntimeEndpoint: "unix:///run/x.sock"\n', id="YAML"),
        pytest.param(DEFAULT, KUBELET, "containerRuntimeEndpoint:\nclusterDomain: unix:///run/x.sock\n", id="empty"),
        pytest.param("/run/x.sock", KUBELET, '{"containerRuntimeEndpoint":"unix:\\/\\/\\/run\\/x.sock"}', id="JSON"),
        pytest.param(
            "/run/x.sock", KUBELET, '{\n\t"containerRuntimeEndpoint": "unix:///run/x.sock"\n}', id="indented JSON"
        ),
        pytest.param(DEFAULT, KUBELET, "- containerRuntimeEndpoint: unix:///run/x.sock\n", id="a list"),
        pytest.param("/run/x.sock", K3S, "container-runtime-endpoint: /run/x.sock\n", id="k3s"),
        pytest.param("/run/k3s/cri-dockerd/cri-dockerd.sock", K3S, "docker: true\n", id="k3s on Docker"),
        pytest.param("/run/k3s/containerd/containerd.sock", K3S, "write-kubeconfig-mode: '0644'\n", id="k3s's own"),
    ],
)
def test_configuration_file_of_a_kubelet_names_its_runtime(
    expected: str, name: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(written)
    process = started_as(monkeypatch, name, ["/usr/bin/it", f"--config={file}"])
    for asked in ("unix:///run/x.sock", DEFAULT, "unix:///run/k3s/containerd/containerd.sock"):
        assert ([process] if asked.endswith(expected) else []) == kubelets_on(asked)
    assert [process] == kubelets_on(expected)


def test_later_configuration_file_of_k3s_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, drop_ins = tmp_path / "config.yaml", tmp_path / "config.yaml.d"
    file.write_text("container-runtime-endpoint: /run/x.sock\n")
    drop_ins.mkdir()
    (drop_ins / "10.yaml").write_text("container-runtime-endpoint: /run/y.sock\n")
    (drop_ins / "20.yaml.orig").write_text("container-runtime-endpoint: /run/z.sock\n")
    process = started_as(monkeypatch, K3S, ["/usr/bin/it", "--config", str(file)])
    assert ([process], [], []) == tuple(kubelets_on(f"/run/{one}.sock") for one in "yxz")


def started_as(monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]) -> int:
    """This process, which looks like another one of that name that was started with these words."""
    process = os.getpid()
    monkeypatch.setattr(neighbours, "processes_named", lambda one: [process] if one == name else [])
    monkeypatch.setattr(neighbours, "parents_of", lambda process: [])
    monkeypatch.setattr(neighbours.os, "getpid", lambda: 0)
    monkeypatch.setattr(neighbours, "command_line", lambda process: words)
    return process


def test_agent_called_kubelet_and_its_parents_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [os.getpid(), os.getppid()]
    monkeypatch.setattr(neighbours, "processes_named", lambda name: ours if name == "kubelet" else [])
    assert [] == kubelets_on(DEFAULT)


def test_parents_and_command_line_are_read_from_proc() -> None:
    assert os.getppid() == parents_of(os.getpid())[0]
    assert sys.executable == os.path.realpath(command_line(os.getpid())[0]) or command_line(os.getpid())
    assert ([], ()) == (parents_of(2**30), command_line(2**30))
