"""Files that may be foreign: what is to be waited for, or has no end, is an error for whoever reads and writes."""

from __future__ import annotations

import ast
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

import trikubelet
from trikubelet.host.manifests import DiskManifests
from trikubelet.kit import plain_file
from trikubelet.kit.plain_file import open_plain, open_plain_to_append, put_plain, read_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.kit.threads import ThreadPool
from trikubelet.volumes.inside import read_file


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As /proc/kmsg when all was read: a pipe in which nothing is, whose writer is there, and that says it is plain."""
    path = tmp_path / "silent"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)
    monkeypatch.setattr(stat, "S_ISREG", stat.S_ISFIFO)
    yield path
    os.close(held)


def _opened(path: Path) -> bytes:
    with open_plain(str(path)) as file:
        return file.read(10)


@pytest.mark.parametrize("read", [_opened, lambda path: read_file(str(path.parent), path.name, 10)])
def test_what_would_have_to_be_waited_for_is_an_error(silent: Path, read: Callable[[Path], bytes]) -> None:
    with pytest.raises(BlockingIOError, match="Resource temporarily unavailable"):
        read(silent)


async def test_so_it_is_for_a_manifest(silent: Path) -> None:
    with pytest.raises(BlockingIOError, match="Resource temporarily unavailable"):
        await DiskManifests(str(silent), 10, ThreadPool("manifests", 1)).read(str(silent))


def test_what_is_there_is_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 20_000)
    with open_plain(str(tmp_path / "a")) as file:
        assert b"x" * 15_000 == file.read(15_000)
        assert b"x" * 5_000 == file.read(15_000)
        assert b"" == file.read(1)


def test_a_file_larger_than_its_reader_wants_is_an_error_and_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)  # which no machine has the memory to hold

    assert b"x" * 10 == read_plain(tmp_path / "a", 10)
    for name, bytes_max in (("a", 9), ("large", 1000)):
        with pytest.raises(OSError, match=f"it is larger than {bytes_max} bytes"):
            read_plain(tmp_path / name, bytes_max)


def test_what_is_no_plain_file_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")

    for name, why in (("pipe", "not a regular file"), ("endless", "not a regular file"), (".", "Is a directory")):
        with pytest.raises(OSError, match=why):
            read_plain(tmp_path / name, 1000)


def test_a_pipe_is_not_appended_to_whether_it_is_read_or_not(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "pipe")

    with pytest.raises(OSError, match="No such device or address"):
        open_plain_to_append(str(path), 0o600)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        open_plain_to_append(str(path), 0o600)
    os.close(reader)


def test_a_file_is_put_in_place_whatever_lies_there_and_beside(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"gold")
    os.mkfifo(tmp_path / "a")
    (tmp_path / ".a.new").symlink_to(tmp_path / "elsewhere")
    put_plain(tmp_path / "a", b"first")
    os.mkfifo(tmp_path / ".a.new")
    put_plain(tmp_path / "a", b"second")

    assert {"a": b"second", "elsewhere": b"gold"} == {one.name: one.read_bytes() for one in tmp_path.iterdir()}


@pytest.mark.parametrize("put", [put_plain, write_privately])
@pytest.mark.parametrize("name", ["a", ".a.new"])
def test_an_empty_directory_in_its_place_or_beside_goes(
    name: str, put: Callable[[Path, bytes], object], tmp_path: Path
) -> None:
    (tmp_path / name).mkdir()

    put(tmp_path / "a", b"said")

    assert {"a": b"said"} == {one.name: one.read_bytes() for one in tmp_path.iterdir()}


@pytest.mark.parametrize("put", [put_plain, write_privately])
@pytest.mark.parametrize("name", ["a", ".a.new"])
def test_a_directory_with_something_in_it_stays_and_is_named(
    name: str, put: Callable[[Path, bytes], object], tmp_path: Path
) -> None:
    (tmp_path / name / "gold").mkdir(parents=True)

    with pytest.raises(OSError, match=f"Directory not empty: '{tmp_path}/{name}'"):
        put(tmp_path / "a", b"said")

    assert [name] == os.listdir(tmp_path)
    assert ["gold"] == os.listdir(tmp_path / name)


@pytest.mark.parametrize("put", [put_plain, write_privately])
@pytest.mark.parametrize("path", ["none/a", "file/a"])
def test_an_error_names_what_was_to_be_there_and_not_the_file_beside_it(
    path: str, put: Callable[[Path, bytes], object], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match=f"directory: '{tmp_path}/{path}'$"):
        put(tmp_path / path, b"said")


@pytest.mark.parametrize("put", [put_plain, write_privately])
def test_so_does_that_of_the_last_step(
    put: Callable[[Path, bytes], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)

    with pytest.raises(PermissionError, match=f"not permitted: '{tmp_path}/a'$"):
        put(tmp_path / "a", b"said")
    assert [] == os.listdir(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is full is Linux's")
def test_what_could_not_be_written_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a write has no name."""

    def full(path: Path, _: str) -> BinaryIO:
        path.touch()
        return open("/dev/full", "wb")

    monkeypatch.setattr(plain_file, "open", full, raising=False)

    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/a'"):
        put_plain(tmp_path / "a", b"said")

    assert [] == os.listdir(tmp_path)


SOURCE = Path(trikubelet.__file__).parent
NO_AGENT = ("benchmark", "cli", "testing")
THE_SYSTEMS = {
    "kit/heap.py",
    "app/translate.py",
    "embedded/keeper/guard.py",
    "embedded/processes.py",
    "embedded/stats.py",
    "host/cgroup_removal.py",
    "host/cgroups.py",
    "host/examination.py",
    "host/machine.py",
    "host/part_cgroups.py",
    "host/processes.py",
    "host/mounts.py",
    "host/node.py",
    "host/own_process.py",
}
"""These read and write what is the kernel's (/proc, /sys, cgroups) or the system's (/etc), which no pod replaces."""


def _may_wait(call: ast.Call) -> bool:
    """True if a call opens an existing file in Python's own way."""
    match call.func:
        case ast.Attribute(attr="read_bytes" | "read_text" | "write_bytes" | "write_text"):
            return True
        case ast.Attribute(ast.Name("os"), attr="open"):
            return False  # with flags, which say how
        case ast.Attribute(attr="open"):
            modes = call.args[:1]  # of a Path; what else is called so takes no text
        case ast.Name(id="open"):
            if any(keyword.arg in ("opener", "closefd") for keyword in call.keywords):
                return False
            modes = call.args[1:2] or [ast.Constant("r")]
        case _:
            return False
    said = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any("x" not in mode for mode in said)


def test_the_agent_opens_files_of_its_own_in_no_other_way() -> None:
    found = {
        f"{path}:{node.lineno}"
        for path in (one.relative_to(SOURCE) for one in SOURCE.rglob("*.py"))
        if path.parts[0] not in NO_AGENT and str(path) not in THE_SYSTEMS
        for node in ast.walk(ast.parse((SOURCE / path).read_text()))
        if isinstance(node, ast.Call) and _may_wait(node)
    }
    assert set() == found, "a pipe there is waited for, for ever: see kit/plain_file.py, and kit/named_file.py"
