"""Files that say they are plain and are not: what is to be waited for is an error, for whoever reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trikubelet.host.manifests import DiskManifests
from trikubelet.kit.plain_file import open_plain
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
