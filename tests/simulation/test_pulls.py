"""What the simulation's registry does to a pull: it may let it wait, however long, and answers in the end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

from trikubelet.testing.chance import NO_PROBLEM, ImageProblems
from trikubelet.testing.memory_images import MemoryImages

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_a_pull_hangs_until_its_registry_goes_on_and_no_other_call_does(autojump_clock: MockClock) -> None:
    problems = ImageProblems(NO_PROBLEM, random.Random(1), random.Random(1))
    problems.hang = 1.0
    images = MemoryImages((), ["web:2"], problems)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(images.pull_image, "web:2")
        await trio.sleep(3600)
        assert await images.image_status("web:2") is None
        problems.end_hangs()

    assert await images.image_status("web:2") is not None
    assert "sha256:web:2" == await images.pull_image("web:2")
