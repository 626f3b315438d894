"""What is written down of pulls, and what becomes of it when pulls are cut short, images go, or the disk fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.pull_rights import VerificationPolicy
from trikubelet.images.rights import PullRights
from trikubelet.model.registry import Credential, Login, SecretOwner
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_pulls import MemoryPullRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

    from trikubelet.model.runtime import ImageInfo

IMAGE, REF = "web:2", "sha256:web:2"
MINE = Credential(Login("joe", "p"), SecretOwner("u", "default", "s"))


class Bench:
    """Rights over records in memory, and the images there are."""

    def __init__(self, policy: VerificationPolicy | None = VerificationPolicy()) -> None:  # noqa: B008 - it is frozen
        self.records = MemoryPullRecords()
        self.rights = PullRights(self.records, policy, VirtualClock())

    async def may(self, *credentials: Credential, image: str = IMAGE) -> bool:
        async def find() -> Sequence[Credential]:
            await trio.lowlevel.checkpoint()
            return credentials

        return await self.rights.may_have(image, REF, find)

    async def pulled(self, credential: Credential | None) -> None:
        await self.rights.begin(IMAGE)
        await self.rights.succeeded(IMAGE, REF, credential)

    async def tidy(self, *present: str, busy: Sequence[str] = ()) -> None:
        await self.rights.tidy(MemoryImages(present).list_images, busy)


async def test_an_image_that_we_did_not_pull_is_everybodys(autojump_clock: MockClock) -> None:
    assert await Bench().may()


@pytest.mark.parametrize(
    ("before", "after", "policy"),
    [
        (True, True, VerificationPolicy("NeverVerify")),
        (True, False, VerificationPolicy("NeverVerifyPreloadedImages")),
        (True, True, VerificationPolicy("NeverVerifyAllowlistedImages", ("docker.io/library/*",))),
        (False, False, VerificationPolicy("NeverVerifyAllowlistedImages", ("docker.io/other/*",))),
        (False, False, VerificationPolicy("AlwaysVerify")),
    ],
)
async def test_the_policy_says_of_which_images_a_right_must_be_shown(
    before: bool, after: bool, policy: VerificationPolicy, autojump_clock: MockClock
) -> None:
    bench = Bench(policy)
    assert before == await bench.may()
    await bench.pulled(MINE)
    assert after == await bench.may()
    assert await bench.may(MINE)


async def test_image_belongs_to_the_secret_that_pulled_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.pulled(MINE)
    assert set() == bench.records.pulling
    assert await bench.may(MINE)
    assert not await bench.may()
    assert not await bench.may(MINE, image="alias:1")


async def test_while_it_is_pulled_and_when_that_was_cut_short_it_is_nobodys(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    assert not await bench.may(MINE)


async def test_failed_pull_of_an_interrupted_one_does_not_make_the_image_public(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    await bench.rights.begin(IMAGE)
    await bench.rights.failed(IMAGE)
    assert not await bench.may()
    await bench.pulled(MINE)
    await bench.rights.begin(IMAGE)
    await bench.rights.failed(IMAGE)
    assert set() == bench.records.pulling


async def test_a_pull_that_failed_leaves_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    await bench.rights.failed(IMAGE)
    assert await bench.may()


async def test_a_record_that_cannot_be_read_proves_nothing_until_it_is_reopened(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.pulled(MINE)
    bench.records.broken.add(REF)
    assert not await bench.may(MINE)
    await bench.pulled(MINE)
    assert await bench.may(MINE)


async def test_a_disk_that_fails_gives_nothing_away(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.records.fails = OSError(5, "Input/output error")
    assert not await bench.may(MINE)
    assert not await bench.rights.has_shown(IMAGE, REF, [MINE])
    with pytest.raises(OSError, match="Input/output error"):
        await bench.rights.begin(IMAGE)


async def test_a_right_that_is_proved_does_not_depend_on_room_for_another_proof(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(28, "No space left on device")

    bench = Bench()
    await bench.pulled(MINE)
    monkeypatch.setattr(bench.records, "keep", fails)

    assert await bench.may(Credential(Login("joe", "new"), MINE.owner))


async def test_image_without_a_written_record_stays_intended(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    bench.records.fails = OSError(28, "No space left on device")
    await bench.rights.succeeded(IMAGE, REF, None)
    bench.records.fails = None
    assert not await bench.may(MINE)


async def test_a_changed_login_of_a_known_secret_is_learnt(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.pulled(MINE)
    changed = Credential(Login("joe", "new"), MINE.owner)
    assert await bench.may(changed)
    assert await bench.may(Credential(Login("joe", "new"), SecretOwner("v", "other", "t")))


async def test_without_the_feature_nothing_is_written_and_everything_allowed(autojump_clock: MockClock) -> None:
    bench = Bench(None)
    await bench.pulled(MINE)
    await bench.tidy()
    assert {} == bench.records.records
    assert await bench.may()
    assert not await bench.rights.has_shown(IMAGE, REF, [MINE])


async def test_what_a_pull_left_that_was_cut_short_is_ours_under_every_name(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    await bench.rights.begin("never:came")
    await bench.tidy(IMAGE)
    assert set() == bench.records.pulling
    assert not await bench.may(MINE)
    assert not await bench.may(MINE, image="alias:1")


async def test_pulls_under_way_are_left_alone(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.rights.begin(IMAGE)
    await bench.tidy(IMAGE, busy=[IMAGE])
    assert {IMAGE} == bench.records.pulling
    assert {} == bench.records.records


async def test_records_go_with_their_images(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.pulled(MINE)
    await bench.tidy(IMAGE)
    assert {REF} == bench.records.records.keys()
    await bench.tidy()
    assert {} == bench.records.records


async def test_but_not_that_of_an_image_that_comes_back_meanwhile(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.pulled(MINE)

    async def list_images() -> Sequence[ImageInfo]:
        await bench.pulled(MINE)
        return ()

    await bench.rights.tidy(list_images, ())
    assert {REF} == bench.records.records.keys()


async def test_concurrent_records_are_both_kept(autojump_clock: MockClock) -> None:
    bench = Bench()
    other = Credential(Login("ann", "q"), SecretOwner("v", "default", "t"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.pulled, MINE)
        nursery.start_soon(bench.pulled, other)
    assert await bench.may(MINE)
    assert await bench.may(other)
