"""The command line of the last agent: recorded at each start, without secrets, for those who find no agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trikubelet.app import last_start as module
from trikubelet.app import supervise
from trikubelet.app.agent import run_agent
from trikubelet.app.flags import parse_agent_flags, written_again
from trikubelet.app.last_start import RECORD_BYTES_MAX, LastStart, last_start, record_start, this_start
from trikubelet.app.paths import START_RECORD

START = LastStart(("trikubelet",), ("--standalone", "--container-runtime-endpoint=embedded:"))


@pytest.mark.parametrize(
    ("again", "flags"),
    [
        (["--standalone", "--v=4"], ["--standalone=true", "-v", "4"]),
        (["--register-node=false"], ["--register_node=false"]),
        (["--node-ip=192.0.2.1", "--node-ip=2001:db8::1"], ["--node-ip", "192.0.2.1", "--node-ip=2001:db8::1"]),
        (["--config=/there/a/k.yaml", "--root-dir=/abs"], ["--config", "a/k.yaml", "--root-dir=/abs"]),
        (["--pod-manifest-path="], ["--pod-manifest-path="]),
        (
            ["--manifest-url-header=Authorization:<masked>,X-Key:<masked>"],
            ["--manifest-url-header=Authorization:Bearer t0p:s3cret,X-Key:abc"],
        ),
        (["--manifest-url=https://<masked>@h/p?<masked>"], ["--manifest-url=https://me:pa%40ss@h/p?token=t"]),
        (["--manifest-url=https://<masked>@h"], ["--manifest-url=https://t0ken@h"]),
        (["--container-runtime-endpoint=unix:///run/a@b.sock"], ["--container-runtime-endpoint=unix:///run/a@b.sock"]),
    ],
)
def test_flags_are_repeated_for_any_directory_and_without_their_secrets(
    again: list[str], flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/there")

    assert again == written_again(flags)
    assert () == parse_agent_flags(again).faults


def test_a_start_is_found_again_and_replaces_the_one_before(tmp_path: Path) -> None:
    record_start(tmp_path, LastStart(("trikubelet",), ("--v=0",)))
    record_start(tmp_path, START)

    assert START == last_start(tmp_path)
    assert [START_RECORD] == os.listdir(tmp_path)
    assert "trikubelet --standalone --container-runtime-endpoint=embedded:" == START.command


def test_a_start_that_is_recorded_already_is_not_written_again(tmp_path: Path) -> None:
    record_start(tmp_path, START)
    before = (tmp_path / START_RECORD).stat()
    record_start(tmp_path, START)

    assert before == (tmp_path / START_RECORD).stat()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"{}",
        b'{"program": [], "flags": ["--v=0"]}',
        b'{"program": ["x"], "flags": []}',
        b'{"program": ["x"], "flags": [1]}',
        b'{"program": ["x"], "flags": ["' + b"y" * RECORD_BYTES_MAX + b'"]}',
    ],
)
def test_a_damaged_record_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / START_RECORD).write_bytes(content)

    assert last_start(tmp_path) is None


def test_a_directory_or_a_pipe_in_the_records_place_is_none(tmp_path: Path) -> None:
    assert last_start(tmp_path) is None
    (tmp_path / START_RECORD).mkdir()
    assert last_start(tmp_path) is None
    (tmp_path / START_RECORD).rmdir()
    os.mkfifo(tmp_path / START_RECORD)
    assert last_start(tmp_path) is None


def test_a_record_that_another_user_wrote_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command would be typed by the reader, with the reader's rights."""
    record_start(tmp_path, START)
    assert START == last_start(tmp_path)
    (fstat,) = [os.fstat]
    monkeypatch.setattr(os, "fstat", lambda file: os.stat_result((*fstat(file)[:4], 4711, *fstat(file)[5:10])))
    assert last_start(tmp_path) is None


def test_a_start_that_cannot_be_recorded_leaves_no_other_in_its_place(tmp_path: Path) -> None:
    record_start(tmp_path, START)
    record_start(tmp_path, LastStart(("trikubelet",), ("--node-labels=" + "x" * RECORD_BYTES_MAX,)))
    assert [] == os.listdir(tmp_path)
    record_start(tmp_path / "none", START)


def test_an_agent_is_recorded_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "run", lambda _main, **_: 0)
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    flags = ["--standalone", "--container-runtime-endpoint", "fake:", f"--root-dir={tmp_path}"]

    assert 0 == run_agent(flags)

    start = last_start(tmp_path)
    assert start is not None
    assert ("--standalone", "--container-runtime-endpoint=fake:", f"--root-dir={tmp_path}") == start.flags


def test_the_program_is_named_so_that_it_is_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trikubelet").touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert (f"{tmp_path}/trikubelet",) == this_start("./trikubelet", ["-v=1"], {}).program
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ("trikubelet",) == this_start(f"{tmp_path}/trikubelet", ["-v=1"], {}).program
    assert ("-m", "trikubelet") == this_start("/x/trikubelet/__main__.py", ["-v=1"], {}).program[1:]


def test_a_bare_command_is_never_what_is_repeated() -> None:
    """Typed at a terminal it would print its help."""
    assert "trikubelet --v=0" == LastStart(("trikubelet",), this_start("trikubelet", [], {}).flags).command
    assert () == parse_agent_flags(this_start("trikubelet", [], {}).flags).faults


@pytest.mark.parametrize(
    ("command", "cgroups"),
    [
        ("systemctl start trikubelet.service", "0::/system.slice/trikubelet.service\n"),
        ("systemctl start k.service", "12:cpu:/\n1:name=systemd:/system.slice/k.service\n0::/other\n"),
        (
            "systemctl --user start t.service",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/t.service\n",
        ),
        ("trikubelet --v=1", "0::/user.slice/user-0.slice/session-3.scope\n"),
        ("trikubelet --v=1", ""),
    ],
)
def test_an_agent_that_a_unit_started_is_started_by_it_again(
    command: str, cgroups: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(cgroups)
    monkeypatch.setattr(module, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(module, "_program", lambda _: ("trikubelet",))

    assert command == this_start("trikubelet", ["--v=1"], {"NOTIFY_SOCKET": "/run/systemd/notify"}).command
    assert "trikubelet --v=1" == this_start("trikubelet", ["--v=1"], {}).command


def test_masked_secrets_are_to_be_filled_in() -> None:
    start = LastStart(("trikubelet",), ("--v=1", "--manifest-url=https://<masked>@h/"))

    assert "with the secrets in place of <masked>" in start.advice
    assert ["--v=1"] == start.known_flags
    assert "masked" not in START.advice
