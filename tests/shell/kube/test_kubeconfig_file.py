"""Kubeconfigs on the disk: what is wrong with one is told, and nobody else may read what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trikubelet.kube.kubeconfig_file import load_kubeconfig, save_kubeconfig
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import ClusterAccess, File, KeyPair, Server

if TYPE_CHECKING:
    from pathlib import Path

SERVER = Server("https://10.0.0.1:6443", b"-----BEGIN CERTIFICATE-----\n")


def test_what_is_written_is_private_and_can_be_read_again(tmp_path: Path) -> None:
    path, pem = tmp_path / "made" / "kubelet.conf", tmp_path / "current.pem"
    save_kubeconfig(path, SERVER, pem)

    assert 0o600 == path.stat().st_mode & 0o777
    assert ["kubelet.conf"] == [one.name for one in path.parent.iterdir()]
    pair = KeyPair(File(str(pem)), File(str(pem)))
    assert ClusterAccess(SERVER, pair, namespace="default") == load_kubeconfig(path)


def test_a_broken_file_ends_the_start_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("kind: Confg\ncurrent-context: a\n")

    with pytest.raises(StartFailed) as caught:
        load_kubeconfig(path)
    first, second = str(caught.value).split("\n")
    assert first.startswith(f'{path}:1: kind: Unsupported value: "Confg"')
    assert second.startswith(f'{path}:2: current-context: Not found: "a"')


def test_a_file_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cannot be read: No such file"):
        load_kubeconfig(tmp_path / "none")


def test_unknown_fields_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "k"
    save_kubeconfig(path, SERVER, tmp_path / "pem")
    path.write_text(path.read_text().replace('"kind"', '"kindness": 1, "kind"'))
    load_kubeconfig(path)

    assert "kindness: unknown field" in caplog.text
