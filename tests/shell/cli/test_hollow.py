"""``trikubelet hollow`` before it asks any cluster: its flags, the settings of its nodes, its log."""

from __future__ import annotations

import logging
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli import hollow
from trikubelet.cli.hollow import FILES_BESIDE_MAX, FILES_PER_NODE_MAX, allow_files, name_node, settings_of
from trikubelet.cli.main import main
from trikubelet.core.kubeconfig import write_kubeconfig
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import Server, Token

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("missing argument: --nodes", ["--kubeconfig=x"]),
        ("missing flag: one of --kubeconfig --bootstrap-kubeconfig", ["--nodes=2"]),
        ("exclude each other", ["--nodes=2", "--kubeconfig=x", "--bootstrap-kubeconfig=y"]),
        ("invalid value for --nodes: '0' is not a whole number from 1 to 5000", ["--nodes=0", "--kubeconfig=x"]),
        ("invalid value for --memory: '0' is not more than 0 bytes", ["--nodes=1", "--kubeconfig=x", "--memory=0"]),
        ("--kubeconfig: /no/such: cannot be read: No such file", ["--nodes=2", "--kubeconfig=/no/such"]),
        ("--hostname-override is not for hollow nodes", ["--nodes=2", "--kubeconfig=x", "--hostname-override=a"]),
        ("--hostname-override is not for hollow nodes", ["--nodes=2", "--kubeconfig=x", "--hostname_override", "a"]),
        (
            "--root-dir is here the parent directory of all nodes",
            ["--nodes=2", "--kubeconfig=/no/such", "--root_dir=/b"],
        ),
        ("--prefix: 'A_-1' must be lower case", ["--nodes=2", "--kubeconfig=x", "--prefix=A_"]),
        (
            "--node-labels: 'node-role.kubernetes.io/x' is a label of Kubernetes itself",
            ["--nodes=2", "--kubeconfig=x", "--node-labels=node-role.kubernetes.io/x="],
        ),
        ('--max-podz: unknown flag (did you mean "--max-pods"?)', ["--nodes=2", "--kubeconfig=x", "--max-podz=3"]),
    ],
)
def test_what_is_wrong_with_the_flags_is_reported_in_one_line(
    words: str, flags: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["hollow", *flags])
    (line,) = capsys.readouterr().err.splitlines()
    assert (2 if line.endswith("lists the flags") else 1) == code
    assert line.startswith("error: ")
    assert words in line


def test_each_node_has_a_name_and_a_directory_and_no_port_of_its_own_and_the_flags_of_all(tmp_path: Path) -> None:
    words = ["--kubeconfig=/etc/admin", "--max-pods=7", "--node-labels=a.example/b=c"]
    first, second = (settings_of(f"hollow-{number}", tmp_path, words, 0, {}) for number in range(2))

    assert ("hollow-0", "hollow-1") == (first.node_name, second.node_name)
    assert (tmp_path / "hollow-0", tmp_path / "hollow-1") == (first.root_dir, second.root_dir)
    assert all(
        place.is_relative_to(second.root_dir) for place in (second.pod_logs_dir, second.cert_dir, second.run_dir)
    )
    assert ("fake:", 0, "/etc/admin") == (
        second.runtime.endpoint,
        second.configuration.healthz_port,
        second.kubeconfig,
    )
    assert (7, {"a.example/b": "c"}) == (second.configuration.max_pods, second.node_labels)


def test_a_node_that_begins_with_a_token_writes_a_kubeconfig_of_its_own(tmp_path: Path) -> None:
    found = settings_of("hollow-3", tmp_path, ["--bootstrap-kubeconfig=/etc/token"], 0, {})

    assert ("/etc/token", str(tmp_path / "hollow-3/kubeconfig")) == (found.bootstrap_kubeconfig, found.kubeconfig)


def test_a_line_of_the_log_says_which_node_it_is_about() -> None:
    def line() -> str:
        record = logging.LogRecord("trikubelet", logging.WARNING, __file__, 1, "%d pods", (3,), None)
        assert name_node(record)
        return record.getMessage()

    assert "3 pods" == line()
    token = hollow._node.set("hollow-9")
    try:
        assert "hollow-9: 3 pods" == line()
    finally:
        hollow._node.reset(token)


def test_more_nodes_than_files_are_allowed_for_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (1024, 20000)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])

    def setrlimit(_: int, new: tuple[int, int]) -> None:
        if new[1] > 20000:
            raise ValueError("not allowed to raise maximum limit")
        limits["now"] = new

    monkeypatch.setattr(resource, "setrlimit", setrlimit)

    def needed(nodes: int) -> int:
        return FILES_BESIDE_MAX + nodes * FILES_PER_NODE_MAX

    allow_files(10)
    assert (1024, 20000) == limits["now"]
    allow_files(100)
    assert (needed(100), 20000) == limits["now"]
    with pytest.raises(StartFailed, match=rf"5000 nodes may need {needed(5000)} open .* \(ulimit -Hn {needed(5000)}\)"):
        allow_files(5000)


def test_a_directory_too_long_for_sockets_ends_the_start_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(write_kubeconfig(Server("https://127.0.0.1:1"), Token("t")))
    root = tmp_path / ("long" * 25)
    assert 1 == main(["hollow", "--nodes=2", f"--kubeconfig={kubeconfig}", f"--root-dir={root}"])

    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"error: unix://{root}/hollow-0/fake.sock: longer than the 107 bytes")
    assert last.endswith("choose a shorter --root-dir")
