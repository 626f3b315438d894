"""Images: pulled when they must be, once, within the bound, with back-off, and told in upstream's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Said
from trikubelet.images.puller import Puller
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import ImageUnavailable, RetryAt
from trikubelet.model.runtime_config import SandboxConfig
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryImages

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.runtime import ImageInfo

SANDBOX = SandboxConfig.__new__(SandboxConfig)  # nobody looks into it


class Registry(MemoryImages):
    """Images whose pulls take a second, and that count how many run at a time."""

    def __init__(self, present: list[str], registry: list[str]) -> None:
        super().__init__(present, registry)
        self.at_once = 0
        self.at_once_most = 0
        self.hangs = False
        self.status_fails = False

    async def image_status(self, image: str) -> ImageInfo | None:
        if self.status_fails:
            raise RuntimeFailure("disk is gone")
        if self.hangs:
            await trio.sleep_forever()
        return await super().image_status(image)

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None) -> str:
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        try:
            await trio.sleep(1)
            return await super().pull_image(image, sandbox)
        finally:
            self.at_once -= 1


class Bench:
    """A puller, its registry and what it said."""

    def __init__(self, present: list[str], registry: list[str], pulls_max: int = 5) -> None:
        self.registry = Registry(present, registry)
        self.said = Said()
        self.puller = Puller(self.registry, self.said, Bounds(), pulls_max=pulls_max)

    async def ensure(self, image: str, policy: str = "IfNotPresent", uid: str = "u") -> ImageInfo:
        asking = container(image=image, image_pull_policy=policy)
        return await self.puller.ensure(pod("web", asking, uid=uid), asking, SANDBOX)


async def test_an_image_that_is_there_is_not_pulled(autojump_clock: MockClock) -> None:
    bench = Bench(["app:1"], [])
    await bench.ensure("app:1")

    assert [] == bench.registry.pulls
    assert [("Normal", "Pulled", 'Container image "app:1" already present on machine')] == bench.said.events


async def test_an_image_that_is_missing_is_pulled_and_the_time_it_took_is_told(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    await bench.ensure("web:2")

    assert [
        ("Normal", "Pulling", 'Pulling image "web:2"'),
        (
            "Normal",
            "Pulled",
            'Successfully pulled image "web:2" in 1s (1s including waiting). Image size: 1000 bytes.',
        ),
    ] == bench.said.events


async def test_always_pulls_although_it_is_there(autojump_clock: MockClock) -> None:
    bench = Bench(["web:2"], ["web:2"])
    await bench.ensure("web:2", "Always")

    assert ["web:2"] == bench.registry.pulls


async def test_never_does_not_pull(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("web:2", "Never")

    assert "ErrImageNeverPull" == told.value.reason
    assert 'Container image "web:2" is not present with pull policy of Never' == told.value.message
    assert ["ErrImageNeverPull"] == bench.said.reasons


async def test_a_name_without_a_tag_means_latest(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:latest"])
    await bench.ensure("web")

    assert ["web:latest"] == bench.registry.pulls


async def test_a_name_that_is_none_is_refused(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("UPPER CASE")

    assert "InvalidImageName" == told.value.reason
    assert [] == bench.registry.pulls


async def test_a_runtime_that_cannot_say_is_told_as_such(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    bench.registry.status_fails = True
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("web:2")

    assert ("ImageInspectError", 'Failed to inspect image "web:2": disk is gone') == (
        told.value.reason,
        told.value.message,
    )
    assert ["InspectFailed"] == bench.said.reasons


async def test_a_runtime_that_hangs_is_given_up_after_the_time_of_a_call(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    bench.registry.hangs = True
    with pytest.raises(ImageUnavailable, match="did not answer within 120s"):
        await bench.ensure("web:2")

    assert 120 == trio.current_time()


async def test_a_failed_pull_backs_off_twice_as_long_each_time_up_to_five_minutes(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    waits = []
    for _ in range(8):
        with pytest.raises(ImageUnavailable) as failed:
            await bench.ensure("nowhere:1")
        with pytest.raises(RetryAt) as later:
            await bench.ensure("nowhere:1")
        waits.append(later.value.at - trio.current_time())
        await trio.sleep_until(later.value.at)

    assert [10, 20, 40, 80, 160, 300, 300, 300] == waits
    assert "ErrImagePull" == failed.value.reason
    assert "ImagePullBackOff" == later.value.reason
    assert f'Back-off pulling image "nowhere:1": ErrImagePull: {failed.value.message}' == later.value.message
    assert ["Pulling", "Failed", "Failed", "BackOff"] == bench.said.reasons[:4]
    assert ("Warning", "Failed", "Error: ErrImagePull") == bench.said.events[2]
    assert ("Normal", "BackOff", 'Back-off pulling image "nowhere:1"') == bench.said.events[3]


async def test_a_back_off_is_each_pods_own_and_ends_with_success(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    with pytest.raises(ImageUnavailable):
        await bench.ensure("web:2", "Always", uid="a")
    bench.registry._registry.add("web:2")
    await bench.ensure("web:2", "Always", uid="b")
    with pytest.raises(RetryAt):
        await bench.ensure("web:2", "Always", uid="a")
    await trio.sleep(10)
    await bench.ensure("web:2", "Always", uid="a")
    bench.registry._registry.clear()
    with pytest.raises(ImageUnavailable):
        await bench.ensure("web:2", "Always", uid="a")
    with pytest.raises(RetryAt) as later:
        await bench.ensure("web:2", "Always", uid="a")

    assert 10 == later.value.at - trio.current_time()


async def test_many_pods_that_want_one_image_pull_it_once(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(bench.ensure, "web:2", "IfNotPresent", f"u{n}")

    assert ["web:2"] == bench.registry.pulls
    assert 20 == bench.said.reasons.count("Pulled")
    assert {} == bench.puller._pulling


async def test_a_waiting_pod_pulls_itself_when_the_one_it_waited_for_is_gone(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.5):
            nursery.start_soon(bench.ensure, "web:2", "IfNotPresent", "patient")
            async with trio.open_nursery() as hasty:
                hasty.start_soon(bench.ensure, "web:2", "IfNotPresent", "hasty")

    assert ["web:2"] == bench.registry.pulls
    assert {} == bench.puller._pulling


@pytest.mark.parametrize("pulls_max", [1, 3])
async def test_no_more_images_are_pulled_at_a_time_than_the_bound_allows(
    pulls_max: int, autojump_clock: MockClock
) -> None:
    names = [f"web:{n}" for n in range(9)]
    bench = Bench([], names, pulls_max)
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(bench.ensure, name)

    assert pulls_max == bench.registry.at_once_most
    assert 9 / pulls_max == trio.current_time()
    assert any("(3s including waiting)" in message for _, _, message in bench.said.events)
