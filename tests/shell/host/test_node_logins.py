"""The node's own logins: which of docker's files counts, and plugins that are really run."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from shell.threadkit import no_threads
from trikubelet.host.node_logins import HostLogins
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.credential_plugin import CredentialPlugin, PluginVariable
from trikubelet.model.errors import LoginUnavailable
from trikubelet.model.registry import Login

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = CredentialPlugin(name="plugin", args=("--fast",), env=(PluginVariable(name="A", value="mine"),))


def config(username: str) -> str:
    return f'{{"auths": {{"r.example": {{"username": "{username}", "password": "p"}}}}}}'


def logins(root: Path) -> HostLogins:
    environment = {"HOME": str(root / "home"), "A": "theirs", "B": "theirs", "PATH": "/usr/bin:/bin"}
    return HostLogins(root / "root", root / "plugins", environment, ThreadPool("logins", 1))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")


@pytest.mark.parametrize(
    ("expected", "files"),
    [
        ("root", ["root/config.json", "working/config.json", "home/.docker/config.json"]),
        ("working", ["working/config.json", "home/.docker/config.json"]),
        ("home", ["home/.docker/config.json"]),
    ],
)
async def test_the_first_file_counts(expected: str, files: list[str], tmp_path: Path) -> None:
    for name in files:
        put(tmp_path / name, config(name.partition("/")[0]))
    assert {"r.example": Login(expected, "p")} == await logins(tmp_path).configured()


async def test_the_older_form_counts_after_the_newer_one(tmp_path: Path) -> None:
    put(tmp_path / "root/.dockercfg", '{"r.example": {"username": "old", "password": "p"}}')
    assert {"r.example": Login("old", "p")} == await logins(tmp_path).configured()
    put(tmp_path / "home/.docker/config.json", config("new"))
    assert {"r.example": Login("new", "p")} == await logins(tmp_path).configured()


async def test_a_file_that_cannot_be_read_is_reported_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "root/config.json", "s3cret")
    put(tmp_path / "home/.docker/config.json", config("home"))
    with caplog.at_level(logging.WARNING):
        assert {"r.example": Login("home", "p")} == await logins(tmp_path).configured()
    assert "root/config.json, so no login of it is used: it is no JSON" in caplog.text
    assert "s3cret" not in caplog.text


async def test_without_files_there_are_no_logins(tmp_path: Path) -> None:
    assert {} == await logins(tmp_path).configured()


async def test_a_plugin_is_run_with_its_arguments_and_environment(tmp_path: Path) -> None:
    program = tmp_path / "plugins" / "plugin"
    put(program, '#!/bin/sh\necho "$1 $A $B $(cat)"\n')
    program.chmod(0o755)
    assert b"--fast mine theirs asked\n" == await logins(tmp_path).ask(PLUGIN, b"asked")


async def test_a_plugin_that_fails_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(LoginUnavailable, match="cannot be started: No such file or directory"):
        await logins(tmp_path).ask(PLUGIN, b"asked")


async def test_without_a_thread_to_read_them_in_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "root/config.json", config("root"))
    node = logins(tmp_path)
    with monkeypatch.context() as machine:
        no_threads(machine)
        assert {} == await node.configured()

    assert 1 == len(await node.configured())


async def test_a_pipe_in_place_of_a_file_takes_no_thread_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "root").mkdir()
    os.mkfifo(tmp_path / "root/config.json")
    put(tmp_path / "home/.docker/config.json", config("home"))

    assert {"r.example": Login("home", "p")} == await logins(tmp_path).configured()
    assert "root/config.json, so no login of it is used: not a regular file" in caplog.text
