"""Which unused images are removed, in which order, and how many bytes must go."""

from __future__ import annotations

import pytest

from trikubelet.core.image_garbage import ImageRules, Seen, bytes_to_free, look, outdated, removable
from trikubelet.core.image_names import normalized
from trikubelet.model.runtime import ImageInfo
from trikubelet.model.usage import FsUsage

APP = ImageInfo("sha256:a", ("r/app:1",), ("r/app@sha256:0",), 100)
OLD = ImageInfo("sha256:o", ("r/old:1",), (), 200)
PAUSE = ImageInfo("sha256:p", ("r/pause:3",), (), 1, pinned=True)


def seen_at(*times: float, use: frozenset[str] = frozenset()) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    for time in times:
        found = look(found, [APP, OLD, PAUSE], use, time)
    return found


@pytest.mark.parametrize("reference", ["sha256:a", "r/app:1", "r/app@sha256:0"])
def test_an_image_is_used_by_its_id_tag_or_digest(reference: str) -> None:
    found = seen_at(0, use=frozenset({reference}))

    assert [OLD] == [one.image for one in removable(found.values(), 200, 120)]


def test_a_new_image_is_kept_for_a_while_and_a_pinned_one_forever() -> None:
    found = seen_at(0)

    assert [] == removable(found.values(), 119, 120)
    assert {APP.id, OLD.id} == {one.image.id for one in removable(found.values(), 120, 120)}
    assert [APP, OLD] == [one.image for one in removable(look({}, [APP, OLD], frozenset(), 0, 120).values(), 0, 120)]


def test_the_one_unused_for_longest_goes_first() -> None:
    used = look(look({}, [OLD, APP], frozenset({OLD.id}), 0), [OLD, APP], frozenset({OLD.id}), 50)
    idle = look(used, [OLD, APP], frozenset(), 60)

    assert [APP, OLD] == [one.image for one in removable(idle.values(), 1000, 120)]


def test_what_is_gone_is_forgotten() -> None:
    assert {APP.id} == set(look(seen_at(0), [APP], frozenset(), 1))


def test_image_unused_for_too_long_is_removed() -> None:
    rules = ImageRules(unused_seconds_max=1000)
    found = look(seen_at(0), [APP, OLD], frozenset({APP.id}), 500)

    assert [OLD] == [one.image for one in outdated(found.values(), 1001, 0, rules)]
    assert () == outdated(found.values(), 10**6, 0, ImageRules())
    assert () == outdated(found.values(), 1001, 1, rules)  # what was used before the collection began nobody knows


@pytest.mark.parametrize(("available", "to_free"), [(16, 0), (15, 5), (0, 20), (1000, 0)])  # of 100, with 85 % and 80 %
def test_as_much_goes_as_brings_the_disk_below_the_low_threshold(available: int, to_free: int) -> None:
    assert to_free == bytes_to_free(FsUsage(0, available_bytes=available, capacity_bytes=100), ImageRules())


def test_nothing_goes_for_space_where_that_is_switched_off() -> None:
    rules = ImageRules(high_percent=100)

    assert 0 == bytes_to_free(FsUsage(0, available_bytes=0, capacity_bytes=100), rules)
    assert not rules.collects
    assert ImageRules(high_percent=100, unused_seconds_max=1).collects


def test_a_disk_without_a_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="invalid capacity 0 on image filesystem"):
        bytes_to_free(FsUsage(0, available_bytes=1), ImageRules())


@pytest.mark.parametrize(
    ("reference", "whole"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("me/app:1", "docker.io/me/app:1"),
        ("localhost:5000/app@sha256:" + "0" * 64, "localhost:5000/app@sha256:" + "0" * 64),
    ],
)
def test_a_reference_in_full_is_what_runtimes_list(reference: str, whole: str) -> None:
    assert whole == normalized(reference)
