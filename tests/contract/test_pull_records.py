"""The contract of ``ports.PullRecords``, held by the real disk and by the memory."""

from __future__ import annotations

import json
import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.host import pull_records
from trikubelet.host.pull_records import DiskPullRecords
from trikubelet.kit import disk
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.pull_records import PulledRecord, PullProofs, PullSecret
from trikubelet.testing.memory_pulls import MemoryPullRecords

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.ports import PullRecords

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

SECRET = PullSecret(uid="u", namespace="default", name="s", credential_hash="h")
RECORD = PulledRecord(
    image_ref="sha256:1",
    last_updated_time="2026-11-21T12:00:00Z",
    credential_mapping={"r.example/app": PullProofs(kubernetes_secrets=(SECRET,))},
)


def on_disk(root: Path) -> DiskPullRecords:
    return DiskPullRecords(root, ThreadPool("records", 1))


@pytest.fixture(params=["disk", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> PullRecords:
    return on_disk(tmp_path) if request.param == "disk" else MemoryPullRecords()


async def test_a_record_is_there_from_when_it_is_kept_until_it_is_forgotten(records: PullRecords) -> None:
    assert None is await records.pulled("sha256:1")
    await records.keep(RECORD)
    assert RECORD == await records.pulled("sha256:1")
    assert [RECORD] == list(await records.all_pulled())
    assert None is await records.pulled("sha256:2")
    await records.forget("sha256:1")
    await records.forget("sha256:1")
    assert None is await records.pulled("sha256:1")
    assert [] == list(await records.all_pulled())


async def test_the_last_record_of_an_image_counts(records: PullRecords) -> None:
    newer = PulledRecord(image_ref="sha256:1", last_updated_time="2026-11-21T13:00:00Z")
    await records.keep(RECORD)
    await records.keep(newer)
    assert [newer] == list(await records.all_pulled())


async def test_an_intent_is_there_until_it_is_settled(records: PullRecords) -> None:
    assert not await records.is_intended("r.example/app:1")
    await records.intend("r.example/app:1")
    await records.intend("r.example/app:1")
    assert await records.is_intended("r.example/app:1")
    assert ["r.example/app:1"] == list(await records.intents())
    await records.settle("r.example/app:1")
    await records.settle("r.example/app:1")
    assert not await records.is_intended("r.example/app:1")
    assert [] == list(await records.intents())


async def test_the_disk_remembers(tmp_path: Path) -> None:
    await on_disk(tmp_path).keep(RECORD)
    await on_disk(tmp_path).intend("a")
    assert RECORD == await on_disk(tmp_path).pulled("sha256:1")
    assert await on_disk(tmp_path).is_intended("a")


async def test_records_are_kept_again_after_their_directory_was_removed(tmp_path: Path) -> None:
    records = on_disk(tmp_path)
    await records.keep(RECORD)
    await records.intend("a")
    shutil.rmtree(tmp_path / "image_manager")

    assert ([], []) == (list(await records.all_pulled()), list(await records.intents()))
    assert None is await records.pulled("sha256:1")
    await records.forget("sha256:1")
    await records.intend("b")
    await records.keep(RECORD)

    assert ([RECORD], ["b"]) == (list(await records.all_pulled()), list(await records.intents()))
    place = tmp_path / "image_manager"
    modes = [path.stat().st_mode & 0o777 for path in (place, *place.iterdir())]
    assert [0o700, 0o700, 0o700] == modes


async def test_record_on_disk_has_upstreams_form_and_is_private(tmp_path: Path) -> None:
    await on_disk(tmp_path).keep(RECORD)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()

    # The name is the digest of "sha256:1", as ``printf sha256:1 | sha256sum`` has it.
    assert "sha256-" in path.name
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == path.parent.stat().st_mode & 0o777
    secret = {"uid": "u", "namespace": "default", "name": "s", "credentialHash": "h"}
    assert {
        "kind": "ImagePulledRecord",
        "apiVersion": "kubelet.config.k8s.io/v1alpha1",
        "imageRef": "sha256:1",
        "lastUpdatedTime": "2026-11-21T12:00:00Z",
        "credentialMapping": {"r.example/app": {"kubernetesSecrets": [secret]}},
    } == json.loads(path.read_text())


async def test_a_disk_that_hangs_is_given_up_and_what_was_begun_there_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """On a clock that stands still until the disk hangs: a thread may begin late."""
    hangs, release = threading.Event(), threading.Event()

    def write(path: Path, content: bytes) -> None:
        hangs.set()
        release.wait(60)

    async def give_up() -> None:
        while not hangs.is_set():
            await wait_all_tasks_blocked(0.01)
        mock_clock.jump(disk.DISK_SECONDS_MAX)

    monkeypatch.setattr(pull_records, "write_privately", write)
    records = DiskPullRecords(tmp_path, ThreadPool("records", 2))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up)
            with pytest.raises(OSError, match="the disk did not answer within 10 s"):
                await records.keep(RECORD)
        with pytest.raises(OSError, match="an earlier operation has not ended yet"):
            await records.forget(RECORD.image_ref)
    finally:
        release.set()


@pytest.mark.parametrize(
    "text", ["", "{", '{"imageRef": "sha256:1"}', '{"kind":"X","imageRef":"a","lastUpdatedTime":"","apiVersion":"v1"}']
)
async def test_a_record_that_cannot_be_read_is_no_record_and_is_overwritten(text: str, tmp_path: Path) -> None:
    records = on_disk(tmp_path)
    await records.keep(RECORD)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    path.write_text(text)
    with pytest.raises(ValueError, match="sha256-"):
        await records.pulled("sha256:1")
    assert [] == list(await records.all_pulled())
    await records.keep(RECORD)
    assert RECORD == await records.pulled("sha256:1")


def larger_than_memory(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("lay", [os.mkfifo, larger_than_memory, lambda path: path.symlink_to(path.name)])
async def test_what_is_no_record_proves_nothing_keeps_none_from_being_read_and_is_replaced(
    lay: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Damaged, or put there: an agent that waited for it, or could not hold it, would do so at each start."""
    records = on_disk(tmp_path)
    await records.keep(RECORD)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    await records.keep(other := PulledRecord(image_ref="sha256:2", last_updated_time="2026-11-21T12:00:00Z"))
    path.unlink()
    lay(path)

    with pytest.raises(ValueError, match="sha256-"):
        await records.pulled("sha256:1")
    assert [other] == list(await records.all_pulled())
    assert 1 == caplog.text.count(f"Cannot read a record of pulled images: {path}: ")
    await records.keep(RECORD)
    assert RECORD == await records.pulled("sha256:1")


@pytest.mark.parametrize("name", ["{}", ".{}.new"])
async def test_an_empty_directory_in_the_place_of_a_record_goes_when_it_is_kept_or_forgotten(
    name: str, tmp_path: Path
) -> None:
    records = on_disk(tmp_path)
    await records.keep(RECORD)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    await records.forget(RECORD.image_ref)
    path.with_name(name.format(path.name)).mkdir()

    await records.keep(RECORD)
    assert RECORD == await records.pulled("sha256:1")
    await records.forget(RECORD.image_ref)
    path.mkdir()
    await records.forget(RECORD.image_ref)
    assert None is await records.pulled("sha256:1")


async def test_what_upstream_wrote_is_read(tmp_path: Path) -> None:
    records = on_disk(tmp_path)
    await records.keep(RECORD)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    path.write_text(
        '{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":'
        '"2024-10-21T12:26:40Z","imageRef":"sha256:1","credentialMapping":{"docker.io/testing/test":'
        '{"kubernetesSecrets":[{"uid":"x","namespace":"default","name":"pull-secret","credentialHash":""}]}}}'
    )
    found = await records.pulled("sha256:1")
    assert found is not None
    assert "pull-secret" == found.credential_mapping["docker.io/testing/test"].kubernetes_secrets[0].name


async def test_a_disk_that_is_full_is_reported_with_what_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names nothing where a write fails, and which disk it was is what an operator must know."""

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pull_records, "write_privately", full)
    with pytest.raises(OSError, match="No space left") as failed:
        await on_disk(tmp_path).intend("r.example/app:1")

    assert failed.value.filename.startswith(f"{tmp_path}/image_manager/pulling/sha256-")
