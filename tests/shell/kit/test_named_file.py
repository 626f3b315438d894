"""Files named by hand: whatever they are, they are read or it is told why not."""

import errno
import os
import threading
from pathlib import Path

import pytest

from trikubelet.kit.named_file import read_named


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert b"12345" == read_named(path, 5)
    with pytest.raises(OSError, match="it is larger than 4 bytes") as failed:
        read_named(path, 4)
    assert errno.EFBIG == failed.value.errno


def test_a_device_without_end_is_too_large() -> None:
    with pytest.raises(OSError, match="it is larger than 100 bytes"):
        read_named("/dev/zero", 100)


def test_pipe_without_a_writer_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="it is a pipe without a writer"):
        read_named(tmp_path / "pipe")


def test_a_pipe_is_read_to_its_end_however_long_its_writer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    set_blocking = os.set_blocking

    def say() -> None:
        os.write(write, b"one")
        os.close(write)

    writer = threading.Thread(target=say)

    def opened(descriptor: int, blocking: bool) -> None:
        set_blocking(descriptor, blocking)
        writer.start()

    monkeypatch.setattr("os.set_blocking", opened)
    try:
        assert b"one" == read_named(f"/dev/fd/{read}")
    finally:
        writer.join()
        os.close(read)


def test_a_directory_is_reported_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")

    with pytest.raises(IsADirectoryError):
        read_named(tmp_path)

    assert before == os.listdir("/proc/self/fd")
