"""Programs that mount and unmount: what they say, and those that do not end, dead or alive."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from trikubelet.host import mount_programs, mounts
from trikubelet.host.mount_programs import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """#!/bin/sh
echo "$@" >> {log}
case "$1" in --force|/well) exit 0;; esac
echo > {begun}
read nothing < {gate}
"""
"""Ends when somebody opens the gate, but for what answers."""


class Umount:
    """A umount(8) that waits for what does not answer. ``asked``: with which words it was begun."""

    def __init__(self, place: Path) -> None:
        self._log, self._gate, self._begun = place / "log", place / "gate", place / "begun"
        os.mkfifo(self._gate)
        os.mkfifo(self._begun)
        self.path = place / "umount"
        self.path.write_text(PROGRAM.format(log=self._log, gate=self._gate, begun=self._begun))
        self.path.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self._log.read_text().splitlines()

    def until_it_waits(self) -> None:
        """Wait for that."""
        self._begun.read_text()

    def answer(self) -> None:
        """End the waiting process."""
        os.close(os.open(self._gate, os.O_WRONLY))


@pytest.fixture
def umount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Umount:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    made = Umount(tmp_path)
    to_the_end = subprocess.Popen.communicate

    def communicate(process: subprocess.Popen[str], *, timeout: float) -> tuple[str | None, str]:
        """The time of one that waits is over at once."""
        if ["umount", "/dead"] != [*process.args]:
            return to_the_end(process, timeout=timeout)
        made.until_it_waits()
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    return made


@pytest.fixture
def undying(umount: Umount, monkeypatch: pytest.MonkeyPatch) -> Iterator[Umount]:
    """Run the same, in uninterruptible sleep."""
    monkeypatch.setattr(mount_programs, "DIE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    yield umount
    for process in mount_programs._left.values():
        if process.poll() is None:
            process.kill()
        process.wait()
    mount_programs._left.clear()


def test_one_that_does_not_end_is_killed_and_may_be_begun_again(umount: Umount) -> None:
    for _ in range(2):
        with pytest.raises(TimeoutError, match="umount /dead: did not end within 50s"):
            run(["umount", "/dead"])

    assert ["/dead", "/dead"] == umount.asked
    assert {} == mount_programs._left


def test_an_unmount_that_does_not_die_of_being_killed_is_tried_by_force(undying: Umount) -> None:
    mounts.unmount("/dead")

    assert ["/dead", "--force /dead"] == undying.asked


def test_while_one_sleeps_the_same_is_not_begun_again_and_others_are(undying: Umount) -> None:
    with pytest.raises(TimeoutError, match="did not end"):
        run(["umount", "/dead"])
    for _ in range(3):
        with pytest.raises(TimeoutError, match="umount /dead: it was killed a while ago and has not ended yet"):
            run(["umount", "/dead"])
    run(["umount", "/well"])
    assert ["/dead", "/well"] == undying.asked

    undying.answer()
    (process,) = mount_programs._left.values()
    process.wait()
    with pytest.raises(TimeoutError, match="did not end"):
        run(["umount", "/dead"])
    assert ["/dead", "/well", "/dead"] == undying.asked


@pytest.mark.parametrize("options", [[], ["ro", "hard"]])
def test_what_a_pod_names_as_an_nfs_server_is_no_option_of_the_mount_program(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "mount").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    (tmp_path / "mount").chmod(0o755)
    mounts.mount_nfs("--fstab=/evil:/f", "/place", options)

    words = (tmp_path / "words").read_text().split()
    assert ["--", "--fstab=/evil:/f", "/place"] == words[-3:]
    assert ["-o", "ro,hard"] * bool(options) == words[2:-3]


def test_a_failed_mount_is_reported_in_the_programs_words() -> None:
    with pytest.raises(OSError, match=r"umount /nowhere/at/all: .*(not|no) "):
        mounts.unmount("/nowhere/at/all")
