"""The image directory on a real disk: what is found in it, and what is read again."""

from __future__ import annotations

import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from trikubelet.host import image_directory
from trikubelet.host.image_directory import DiskImageDirectory, scan
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import ImportFailed

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.model.image_archives import Archive

APP = "docker.io/library/app:1"


def tar(path: Path, *, prefix: str = "", last: int = 2000, **members: bytes) -> Path:
    """An archive with a layer, its members, and another layer at its end."""
    with tarfile.open(path, "w") as out:
        for name, content in (("layer", b"x" * 5000), *members.items(), ("last", b"y" * last)):
            info = tarfile.TarInfo(prefix + name.replace("_json", ".json"))
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return path


def saved(path: Path, *tags: str, **form: object) -> Path:
    return tar(path, manifest_json=json.dumps([{"RepoTags": tags}]).encode(), **form)  # type: ignore[arg-type]


def names(archives: list[Archive]) -> dict[str, list[str]]:
    return {os.path.basename(one.path): [image.name for image in one.images] for one in archives}


def directory_of(place: Path, **environment: str) -> DiskImageDirectory:
    return DiskImageDirectory(place, environment, ThreadPool("archives", 1))


@pytest.mark.parametrize("prefix", ["", "./"])
def test_each_plain_file_that_is_not_hidden_is_an_archive(tmp_path: Path, prefix: str) -> None:
    saved(tmp_path / "b.tar", "app:1", prefix=prefix)
    saved(tmp_path / "a", "r.io/other:2")
    saved(tmp_path / ".part.tar", "hidden:1")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "link").symlink_to("b.tar")
    (tmp_path / "dangling").symlink_to("nowhere")

    assert {"a": ["r.io/other:2"], "b.tar": [APP], "link": [APP]} == names(list(scan(tmp_path, {})))


def test_a_file_that_cannot_be_used_is_named_with_the_reason_and_the_others_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "good.tar", "app:1")
    whole = saved(tmp_path / "cut.tar", "cut:1", last=100_000)
    whole.write_bytes(whole.read_bytes()[:60_000])
    (tmp_path / "empty.tar").touch()
    (tmp_path / "text").write_text("not an archive\n" * 100)
    (tmp_path / "small.tar.gz").write_bytes(b"\x1f\x8b\x08" + bytes(100))
    os.mkfifo(tmp_path / "pipe")
    tar(tmp_path / "rootfs.tar", etc=b"")
    tar(tmp_path / "large.tar", manifest_json=b" " * 30_000)
    monkeypatch.setattr(image_directory, "MEMBER_BYTES_MAX", 20_000)
    for number in range(4):
        tar(tmp_path / "many.tar", **{f"layer{one}": b"" for one in range(number)})
    monkeypatch.setattr(image_directory, "MEMBERS_MAX", 4)

    found = {os.path.basename(one.path): one for one in scan(tmp_path, {})}
    assert {
        "cut.tar": "is damaged, or is no tar archive: unexpected end of data",
        "empty.tar": "is damaged, or is no tar archive: empty file",
        "large.tar": "cannot be used: manifest.json is larger than 20000 bytes",
        "many.tar": "cannot be used: it has more than 4 members",
        "pipe": "cannot be read: not a regular file",
        "rootfs.tar": "cannot be used: it has neither oci-layout with index.json (OCI) nor manifest.json (docker save)",
        "small.tar.gz": "cannot be used: it is compressed with gzip (decompress it: gzip -d small.tar.gz)",
    } == {name: one.problem for name, one in found.items() if one.problem and name != "text"}
    assert found["text"].problem.startswith("is damaged, or is no tar archive: ")
    assert [APP] == [image.name for image in found["good.tar"].images]


def test_an_archive_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really = image_directory.open_plain

    def opening(path: str) -> object:
        opened.append(os.path.basename(path))
        return really(path)

    monkeypatch.setattr(image_directory, "open_plain", opening)
    read: dict[str, Archive] = {}
    first = saved(tmp_path / "a.tar", "app:1")
    saved(tmp_path / "b.tar", "app:2")
    scan(tmp_path, read)
    scan(tmp_path, read)
    assert ["a.tar", "b.tar"] == opened

    before = first.stat()
    saved(tmp_path / "new", "app:3")
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new").rename(first)  # of the same size and time of modification
    (tmp_path / "b.tar").unlink()
    assert {"a.tar": ["docker.io/library/app:3"]} == names(list(scan(tmp_path, read)))
    assert {str(first)} == read.keys()


def test_a_file_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "a.tar", "app:1")
    read: dict[str, Archive] = {}

    def failing(_: str) -> object:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(image_directory, "open_plain", failing)
        assert ["cannot be read: I/O error"] == [one.problem for one in scan(tmp_path, read)]
    assert {"a.tar": [APP]} == names(list(scan(tmp_path, read)))


async def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await directory_of(tmp_path / "gone").scan()
    saved(tmp_path / "a.tar", "app:1")
    assert {"a.tar": [APP]} == names(list(await directory_of(tmp_path).scan()))


async def test_a_program_that_fails_or_is_missing_is_reported_by_its_name(tmp_path: Path) -> None:
    directory = directory_of(tmp_path, PATH="/usr/bin:/bin")
    await directory.run(["true"])
    with pytest.raises(ImportFailed, match=r"^sh ended with 3: broken layer$"):
        await directory.run(["sh", "-c", "echo broken layer >&2; exit 3"])
    missing = (
        r"^the program ctr cannot be started: No such file or directory \(it is part of containerd, and must be on"
    )
    with pytest.raises(ImportFailed, match=missing):
        await directory_of(tmp_path, PATH=str(tmp_path)).run(["ctr", "images"])
