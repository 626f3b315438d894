"""The volumes of one pod: what is broken is told together, and what hangs holds up nothing but its pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import pod
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.volume_figures import FAILED, SUCCESS, VolumeFigures
from trikubelet.volumes.side_by_side import AT_ONCE_MAX, set_up_all

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trio.testing import MockClock


class Volumes:
    """Owns which volumes got ready, and how many were under way at most. A volume's name is what becomes of it."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.under_way = self.under_way_at_most = 0

    async def set_up(self, volume: k8s.Volume) -> str:
        self.under_way += 1
        self.under_way_at_most = max(self.under_way, self.under_way_at_most)
        try:
            if volume.name.startswith("hangs"):
                await trio.sleep_forever()
            await trio.sleep(1)
            if volume.name.startswith("broken"):
                raise ValueError(f'configmap "{volume.name}" not found')
        finally:
            self.under_way -= 1
        self.ready.append(volume.name)
        return f"/{volume.name}"


@pytest.fixture
def volumes() -> Volumes:
    return Volumes()


def with_volumes(*names: str) -> k8s.Pod:
    return pod(volumes=tuple(k8s.Volume(name=name) for name in names))


async def all_of(
    it: k8s.Pod, volumes: Volumes, figures: VolumeFigures, hanging: Collection[str] = ()
) -> Mapping[str, str]:
    return await set_up_all(it, it.spec.volumes, volumes.set_up, figures, hanging)


def told(name: str, what: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {what}'


async def test_every_broken_volume_is_told_in_the_pods_order(autojump_clock: MockClock, volumes: Volumes) -> None:
    with pytest.raises(VolumeFailed) as failed:
        await all_of(with_volumes("good", "broken-b", "fine", "broken-a"), volumes, VolumeFigures())

    assert (
        told("broken-b", 'configmap "broken-b" not found'),
        told("broken-a", 'configmap "broken-a" not found'),
    ) == failed.value.messages
    assert ["fine", "good"] == sorted(volumes.ready)


async def test_what_hangs_holds_up_no_other_volume_and_is_reported_in_two_minutes(
    autojump_clock: MockClock, volumes: Volumes
) -> None:
    with pytest.raises(VolumeFailed) as failed:
        await all_of(with_volumes("hangs", "good"), volumes, VolumeFigures())

    assert (told("hangs", "not ready within 123s"),) == failed.value.messages
    assert ["good"] == volumes.ready


async def test_what_is_broken_is_told_soon_though_another_hangs(autojump_clock: MockClock, volumes: Volumes) -> None:
    with trio.fail_after(20), pytest.raises(VolumeFailed) as failed:
        await all_of(with_volumes("hangs", "broken"), volumes, VolumeFigures())

    expected = told("hangs", "not ready within 16s"), told("broken", 'configmap "broken" not found')
    assert expected == failed.value.messages


async def test_a_pod_with_many_volumes_has_a_few_under_way_at_a_time(
    autojump_clock: MockClock, volumes: Volumes
) -> None:
    names = [f"v{number}" for number in range(20)]

    assert {name: f"/{name}" for name in names} == await all_of(with_volumes(*names), volumes, VolumeFigures())
    assert AT_ONCE_MAX == volumes.under_way_at_most


async def test_what_hangs_since_earlier_counts_until_there_is_no_place_left(
    autojump_clock: MockClock, volumes: Volumes
) -> None:
    some = ["h1", "h2"]
    assert 6 == len(await all_of(with_volumes(*(f"v{n}" for n in range(6))), volumes, VolumeFigures(), some))
    assert AT_ONCE_MAX - len(some) == volumes.under_way_at_most

    volumes.ready.clear()
    with trio.fail_after(1), pytest.raises(VolumeFailed, match=r"has not ended: h1, h2, h3, h4$"):
        await all_of(with_volumes("good"), volumes, VolumeFigures(), ["h4", "h3", "h2", "h1"])
    assert [] == volumes.ready


async def test_what_was_given_up_counts_neither_as_done_nor_as_failed(
    autojump_clock: MockClock, volumes: Volumes
) -> None:
    figures = VolumeFigures()
    with pytest.raises(VolumeFailed):
        await all_of(with_volumes("good", "broken", "hangs"), volumes, figures)

    assert {SUCCESS: 1, FAILED: 1} == {status: found.count for (_, status), found in figures.durations.items()}
