"""How full the node's file systems are."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.statskit import AT_NS, DISK
from shell.stats.statskit import FakeGauges
from trikubelet.model.usage import FsUsage, ImageStore
from trikubelet.stats.file_systems import FileSystems

SMALL, LARGE = FsUsage(AT_NS, 1, 1), FsUsage(AT_NS, 9, 9)


def file_systems(gauges: FakeGauges | None = None) -> FileSystems:
    return FileSystems(gauges or FakeGauges(), Path("/root"))


@pytest.mark.parametrize(
    ("wanted", "stores"),
    [
        (None, []),
        (FsUsage(AT_NS, 1, 1, 600, 1000, 96, 100), [ImageStore("/images", SMALL), ImageStore("/other", LARGE)]),
    ],
)
async def test_a_store_is_what_the_runtime_says_on_its_disk(wanted: FsUsage | None, stores: list[ImageStore]) -> None:
    found = file_systems()
    assert (wanted, DISK) == (await found.store(stores), await found.root())


async def test_a_disk_that_cannot_be_read_is_not_reported() -> None:
    class Broken(FakeGauges):
        def disk(self, path: str) -> FsUsage:
            raise OSError(5, "Input/output error", path)

    found = file_systems(Broken())
    assert (None, SMALL) == (await found.root(), await found.store([ImageStore("/images", SMALL)]))


async def test_what_is_available_to_images_is_as_new_as_its_measurement() -> None:
    found = await file_systems().store([ImageStore("/images", FsUsage(5, 70, 7))])  # the runtime's look is older
    assert found is not None
    assert AT_NS == found.at_ns
