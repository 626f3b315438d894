"""The credential plugins that the flags name: files read, and everything wrong with them told at start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trikubelet.app.credential_plugins import find_plugins

if TYPE_CHECKING:
    from pathlib import Path


def plugin(name: str) -> str:
    return (
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
        f"- {{name: {name}, matchImages: [x], defaultCacheDuration: 0s, "
        "apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("a", "b"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


def test_without_flags_there_are_none() -> None:
    assert ((), []) == find_plugins(None, None)


def test_a_file_or_the_files_of_a_directory_in_the_order_of_their_names(tmp_path: Path, programs: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "2.yml").write_text(plugin("a"))
    (config / "1.yaml").write_text(plugin("b"))
    (config / "notes.txt").write_text("no configuration")
    found, faults = find_plugins(config, programs)
    assert ([], ["b", "a"]) == (faults, [one.name for one in found])
    found, faults = find_plugins(config / "2.yml", programs)
    assert ([], ["a"]) == (faults, [one.name for one in found])


def test_each_flag_needs_the_other(tmp_path: Path) -> None:
    for paths, given, needed in (
        ((tmp_path, None), "config", "bin-dir"),
        ((None, tmp_path), "bin-dir", "config"),
    ):
        expected = f"--image-credential-provider-{given}: needs --image-credential-provider-{needed}"
        assert [expected] == [str(fault) for fault in find_plugins(*paths)[1]]


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("is not an executable program", plugin("missing")),
        ("Duplicate value", f"{plugin('a')}---\n{plugin('a')}"),
        ("there is no configuration in", "# nothing\n"),
        ("", "{"),
    ],
)
def test_what_is_of_no_use_is_reported(expected: str, text: str, tmp_path: Path, programs: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    faults = find_plugins(path, programs)[1]
    assert 1 == len(faults)
    assert expected in str(faults[0])


def test_a_file_that_is_not_there_is_reported(tmp_path: Path, programs: Path) -> None:
    [fault] = find_plugins(tmp_path / "gone", programs)[1]
    expected = f"{tmp_path}/gone cannot be read: No such file or directory"
    assert ("--image-credential-provider-config", expected) == (fault.source, fault.problem)
