"""What an informer keeps: lists and changes as the server tells them, and as it does not but might."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from trikubelet.kube import known as known_module
from trikubelet.kube.known import Known, Listing
from trikubelet.model.api import Change, ChangeKind, Item, Unread
from trikubelet.model.api_errors import ApiFailure


def decode(raw: bytes) -> str:
    """An object that is its own text."""
    if raw == b"broken":
        raise ValueError("broken")
    return raw.decode()


def item(name: str, version: int, raw: bytes = b"", uid: str = "u1") -> Item:
    """An object whose text is its version."""
    return Item("", name, uid, str(version), raw or str(version).encode())


def added(name: str, version: int, raw: bytes = b"", uid: str = "u1") -> Change:
    return Change(ChangeKind.ADDED, item(name, version, raw, uid))


def modified(name: str, version: int, raw: bytes = b"") -> Change:
    return replace(added(name, version, raw), kind=ChangeKind.MODIFIED)


def deleted(name: str, version: int) -> Change:
    return replace(added(name, version), kind=ChangeKind.DELETED)


def known(*items: Item, version: int) -> Known[str]:
    """Return the state after a list."""
    result = Known("things", decode)
    listing = Listing(result)
    listing.add(items)
    result.adopt(listing, str(version))
    return result


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([added("a", 5), added("b", 3)], {"a": "5", "b": "3"}, id="they come in no order"),
        pytest.param([added("a", 5), modified("a", 7)], {"a": "7"}, id="what happened meanwhile comes after them"),
        pytest.param([added("a", 5), modified("a", 7), added("a", 5)], {"a": "7"}, id="nothing goes back"),
        pytest.param([added("a", 5), deleted("a", 8)], {}, id="what goes meanwhile is gone"),
        pytest.param([added("a", 5), deleted("a", 8), added("a", 5)], {}, id="and does not come again"),
        pytest.param([added("a", 5), deleted("a", 8), added("a", 9, uid="u2")], {"a": "9"}, id="but another may"),
        pytest.param([added("a", 5), modified("a", 7, b"broken")], {"a": "5"}, id="what breaks meanwhile stays"),
        pytest.param([added("a", 5, b"broken")], {}, id="what nobody could read is not there"),
    ],
)
async def test_a_watch_that_begins_with_all_objects_gathers_them(
    changes: list[Change], expected: dict[str, str]
) -> None:
    fresh = Known("things", decode)
    listing = Listing(fresh)

    for change in changes:
        listing.take(change)
    keys = fresh.adopt(listing, "10")

    assert expected == {name: thing for (_, name), thing in fresh.objects.items()}
    assert {*expected, *(name for _, name in fresh.faults())} == {name for _, name in keys}


def test_a_change_is_reported_once() -> None:
    things = known(item("a", 5), version=10)

    assert (("", "a"),) == things.take(modified("a", 11))
    assert () == things.take(modified("a", 11))
    assert (("", "a"),) == things.take(deleted("a", 12))
    assert () == things.take(modified("a", 11))
    assert {} == things.objects


def test_deletion_of_an_unknown_object_is_no_news() -> None:
    things = known(version=10)

    assert () == things.take(deleted("a", 11))
    assert "11" == things.version


def test_a_bookmark_only_moves_the_version() -> None:
    things = known(item("a", 5), version=10)

    assert () == things.take(Change(ChangeKind.BOOKMARK, Item("", "", "", "99", b"{}")))
    assert () == things.take(Change(ChangeKind.BOOKMARK, Item("", "", "", "98", b"{}")))

    assert ("99", {("", "a"): "5"}) == (things.version, things.objects)


async def test_another_object_of_the_name_that_cannot_be_read_is_not_the_old_one() -> None:
    things = known(item("a", 5), item("b", 6), version=10)
    listing = Listing(things)

    things.take(added("a", 11, b"broken", uid="u2"))
    assert {("", "b"): "6"} == things.objects

    listing.add([item("b", 12, b"broken", uid="u2")])
    things.adopt(listing, "12")
    assert {} == things.objects
    assert {("", "b"): Unread("u2", "broken")} == things.faults()


async def test_a_fault_is_over_when_the_object_can_be_read_again() -> None:
    things = known(item("a", 5), version=10)

    things.take(modified("a", 11, b"broken"))
    assert ({("", "a"): "5"}, ["broken"]) == (things.objects, [one.why for one in things.faults().values()])
    things.take(modified("a", 12))
    assert ({("", "a"): "12"}, {}) == (things.objects, things.faults())


async def test_an_object_without_end_is_one_that_cannot_be_read() -> None:
    def sink(_: bytes) -> str:
        raise RecursionError("maximum recursion depth exceeded")

    things = Known("things", sink)

    assert (("", "a"),) == things.take(added("a", 11))
    assert {("", "a"): Unread("u1", "maximum recursion depth exceeded")} == things.faults()


def test_a_list_older_than_what_was_known_shows_that_the_server_was_set_back() -> None:
    found = known(item("a", 5), version=9)
    assert not found.is_set_back
    listing = Listing(found)
    listing.add([item("a", 3)])
    assert (("", "a"),) == found.adopt(listing, "4")
    assert found.is_set_back
    found.take(modified("a", 6))

    assert not found.is_set_back
    assert {("", "a"): "6"} == found.objects


def test_the_first_list_after_a_server_was_seen_set_back_counts_as_such_however_new_it_is() -> None:
    found = known(item("a", 5), version=9)
    found.outdate()
    assert ("", {("", "a"): "5"}) == (found.version, found.objects)
    listing = Listing(found)
    listing.add([item("a", 3)])
    assert (("", "a"),) == found.adopt(listing, "12")
    assert found.is_set_back
    found.adopt(Listing(found), "13")

    assert not found.is_set_back


def test_a_server_that_was_set_back_may_have_given_a_version_to_another_content() -> None:
    result = known(item("a", 5), item("b", 6), version=7)
    result.outdate()
    listing = Listing(result)
    listing.add([item("a", 5, b"another"), item("b", 6)])

    assert (("", "a"),) == result.adopt(listing, "7")
    assert {("", "a"): "another", ("", "b"): "6"} == result.objects


def test_a_list_without_end_is_read_no_further_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "OBJECTS_MAX", 3)
    items = (item(f"a{n}", n) for n in range(1, 100))

    with pytest.raises(ApiFailure, match="the server's list has more than 3 objects"):
        Listing(Known("things", decode)).add(items)

    assert "a5" == next(items).name


def test_a_watch_adds_no_more_objects_than_a_list_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "OBJECTS_MAX", 3)
    things = known(item("a", 5), item("b", 6), item("c", 7), version=10)

    with pytest.raises(ApiFailure, match="the server's watch has brought more than 3 objects"):
        things.take(added("d", 11))
    assert ("10", {"a", "b", "c"}) == (things.version, {name for _, name in things.objects})

    things.take(modified("a", 11))
    things.take(deleted("b", 12))
    things.take(added("d", 13))
    assert ("13", {"a", "c", "d"}) == (things.version, {name for _, name in things.objects})


async def test_few_of_many_undecodable_objects_are_named_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    things = known(*[item(f"a{n}", n, b"broken") for n in range(1, 1001)], version=1001)
    for n in range(1, 1001):
        things.take(modified(f"a{n}", 1001 + n, b"broken"))

    assert 1000 == len(things.faults())
    told = [record.getMessage() for record in caplog.records]
    assert 'Cannot read "a1" of things in version 1: broken; what is known of it counts on' == told[0]
    assert "1000 of things cannot be read" == told[-1]
    assert 12 == len(told)  # ten of them, and that there are more


async def test_what_breaks_again_after_it_could_be_read_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    things = known(version=10)
    for n in (11, 12):
        things.take(modified("a", n, b"broken"))
    assert 1 == len(caplog.records)

    things.take(modified("a", 13))
    things.take(modified("a", 14, b"broken"))
    assert 2 == len(caplog.records)
