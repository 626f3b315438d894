"""What the embedded runtime says its containers use, of real processes, over the wire."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest
import trio

from shell.embedded.embeddedkit import Embedded
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceStub, RuntimeServiceStub
from trikubelet.embedded import run_embedded
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trikubelet.cri.channel import Channel

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


@pytest.fixture
async def channel(tmp_path: Path) -> AsyncIterator[Channel]:
    """A connection to a runtime in this process."""
    (tmp_path / "logs").mkdir()
    with tempfile.TemporaryDirectory() as short:
        async with trio.open_nursery() as nursery:
            await nursery.start(run_embedded, f"{short}/cri.sock", tmp_path / "state")
            async with open_channel(f"unix://{short}/cri.sock") as channel:
                yield channel
            nursery.cancel_scope.cancel()


async def test_a_container_counts_what_it_forked(channel: Channel, tmp_path: Path) -> None:
    embedded, stub = Embedded(CriRuntime(channel), CriImages(channel), tmp_path / "logs"), RuntimeServiceStub(channel)
    container_id = await embedded.start("(setsid sleep 4242 &); sleep 4242 & echo up; wait")
    await embedded.wrote("up")

    [pod] = (await stub.ListPodSandboxStats(pb.ListPodSandboxStatsRequest())).stats
    [container] = (await stub.ListContainerStats(pb.ListContainerStatsRequest())).stats

    assert 3 <= pod.linux.process.process_count.value <= 4
    assert container_id == container.attributes.id == pod.linux.containers[0].attributes.id
    assert "uid-1" == pod.attributes.metadata.uid
    assert 100_000 < container.memory.rss_bytes.value < 2**30
    assert 0 < container.memory.timestamp


async def test_the_file_system_of_the_images_is_the_one_of_the_runtimes_files(channel: Channel, tmp_path: Path) -> None:
    found = await ImageServiceStub(channel).ImageFsInfo(pb.ImageFsInfoRequest())

    assert [str(tmp_path / "state")] == [usage.fs_id.mountpoint for usage in found.image_filesystems]
    assert 0 < found.image_filesystems[0].used_bytes.value


async def test_a_file_system_that_has_gone_is_an_error_and_no_bug(
    channel: Channel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    with pytest.raises(RuntimeFailure, match=rf"{tmp_path}/state: No such file or directory"):
        await ImageServiceStub(channel).ImageFsInfo(pb.ImageFsInfoRequest())
    (tmp_path / "elsewhere").rename(tmp_path / "state")

    assert [] == [record.getMessage() for record in caplog.records if record.exc_info]


async def test_what_there_is_not_says_where_it_is(channel: Channel) -> None:
    with pytest.raises(NotImplementedByRuntime, match=r"limit a container's resources; use containerd"):
        await RuntimeServiceStub(channel).UpdateContainerResources(pb.UpdateContainerResourcesRequest())
