"""Whose users are whose: what a node has to give, what stands in the files, and that no two pods share anything."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.user_namespaces import IdPool, ids_of, pool_of, problems, read, subordinate_ranges, written
from trikubelet.model.runtime_config import IdRange

K64 = 65536


def mapping(host: Any = K64, container: Any = 0, length: Any = K64) -> dict[str, Any]:
    return {"hostId": host, "containerId": container, "length": length}


def file(uids: list[dict[str, Any]], gids: list[dict[str, Any]] | None = None) -> bytes:
    return json.dumps({"uidMappings": uids, "gidMappings": uids if gids is None else gids}).encode()


def of(first: int, length: int = K64) -> bytes:
    return written(IdRange(first, length))


def line(first: int, length: int) -> str:
    return f"0: kubelet {first} {length}\n"


# ---- what a node has to give ----


@pytest.mark.parametrize(
    ("first", "last", "each", "set_aside"),
    [
        # The last range of 32 bits has the id that is nobody's: the kernel refuses it whole.
        pytest.param(K64, 2**32 - 2 * K64, K64, None, id="nothing is set aside: all but the node's own"),
        pytest.param(2 * K64, 2**32 - 4 * K64, 2 * K64, None, id="twice as many for each"),
        pytest.param(10 * K64, 119 * K64, K64, (10 * K64, 110 * K64), id="what is set aside, just enough"),
        pytest.param(2**32 - 200 * K64, 2**32 - 2 * K64, K64, (2**32 - 200 * K64, 200 * K64), id="up to the last id"),
        pytest.param(2**32 - 200 * K64, 2**32 - 2 * K64, K64, (2**32 - 200 * K64, 900 * K64), id="and beyond"),
    ],
)
def test_the_ranges_there_are(first: int, last: int, each: int, set_aside: tuple[int, int] | None) -> None:
    told = (line(*set_aside),) * 2 if set_aside else None
    pool = pool_of(each, told, 110)
    ranges = list(pool.ranges())

    assert (set_aside is not None) == pool.is_set_aside
    assert [IdRange(first, each), IdRange(last, each)] == [ranges[0], ranges[-1]]
    assert (last - first) // each + 1 == len(ranges)


def test_without_a_word_the_pool_is_the_default() -> None:
    assert IdPool() == pool_of(K64, None, 110)


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("kubelet user assigned ID 65537 is not a multiple of 65536", (line(K64 + 1, 110 * K64),) * 2),
        ("kubelet user assigned ID 0 must be greater or equal to 65536", (line(0, 110 * K64),) * 2),
        ("kubelet user assigned IDs length 7208961 is not a multiple of 65536", (line(K64, 110 * K64 + 1),) * 2),
        ("kubelet user assigned IDs are not enough to support 110 pods", (line(K64, 109 * K64),) * 2),
        ("kubelet user assigned IDs are not enough to support 110 pods", (line(2**32, 110 * K64),) * 2),
        ('mismatched subuids and subgids for user "kubelet"', (line(K64, 110 * K64), line(K64, 111 * K64))),
        ("must contain only one line", (line(K64, 1) + line(2 * K64, 1),) * 2),
        ("must contain only one line", ("", "")),
        ("invalid line '0: kubelet 65536'", ("0: kubelet 65536\n",) * 2),
        ("invalid line '0: kubelet 65536 many'", ("0: kubelet 65536 many\n",) * 2),
    ],
)
def test_what_is_set_aside_and_will_not_do_is_refused_in_upstreams_words(expected: str, told: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=expected):
        pool_of(K64, told, 110)


def test_more_ids_for_each_pod_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough to support 110 pods"):
        pool_of(2**32, None, 110)


# ---- the file ----


def test_the_file_is_upstreams() -> None:
    theirs = (
        b'{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],'
        b'"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}'
    )
    assert theirs == written(IdRange(2 * K64, K64))
    assert IdRange(2 * K64, K64) == read(theirs)


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        ("mappings file", b"\x00\xff"),
        ("mappings file", b"{"),
        ("mappings file", b'{"uidMappings": "\xff"}'),
        ("mappings file", b"[]"),
        ("mappings file", file([mapping(host="a")])),
        ("should be identical, and one", file([])),
        ("should be identical, and one", file([mapping(), mapping(host=2 * K64)])),
        ("should be identical, and one", file([mapping()], [mapping(host=2 * K64)])),
        ("should be identical, and one", file([mapping()], [])),
        ("UID 0 must be mapped", file([mapping(container=1)])),
        ("65536 ids from 0 on are out of range", file([mapping(host=0)])),
        ("65536 ids from 65535 on", file([mapping(host=K64 - 1)])),
        ("0 ids from 65536 on", file([mapping(length=0)])),
        ("65536 ids from 4294901760 on", file([mapping(host=2**32 - K64)])),
    ],
)
def test_foreign_file_of_user_ids_is_rejected(expected: str, content: bytes) -> None:
    with pytest.raises(ValueError, match=expected):
        read(content)


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    try:
        found = read(content)
    except ValueError:
        return
    assert found == read(written(found))


# ---- who gets what ----


def test_a_pod_gets_any_of_the_free_ranges_and_no_other() -> None:
    pool = IdPool(K64, 5 * K64)
    files = {"x": of(2 * K64), "y": of(4 * K64)}
    free = {IdRange(place * K64, K64) for place in (1, 3, 5)}

    assert free == {ids_of(f"pod-{number}", files, pool) for number in range(50)}


def test_pods_are_spread_over_all_ids_of_the_node() -> None:
    sixteenths = {ids_of(f"pod-{number}", {}, IdPool()).first // 2**28 for number in range(500)}

    assert set(range(16)) == sixteenths


def test_a_range_that_was_given_back_is_not_the_next_pods() -> None:
    first, second = (ids_of(uid, {}, IdPool()) for uid in ("a", "b"))

    assert first != second


def test_a_pod_has_no_id_that_a_user_of_the_node_may_take_for_a_container() -> None:
    pool = IdPool(K64, 4 * K64)
    alice, bob = IdRange(100000, K64), IdRange(4 * K64, 1)  # touches the first range and the second; the fourth
    beyond = IdRange(2**32, K64)

    for number in range(20):
        assert IdRange(3 * K64, K64) == ids_of(f"pod-{number}", {}, pool, [alice, bob, beyond])
    with pytest.raises(ValueError, match="could not find an empty slot"):
        ids_of("pod", {"other": of(3 * K64)}, pool, [alice, bob])


def test_the_ids_of_users_are_in_the_form_of_subuid() -> None:
    content = (
        "alice:100000:65536\n\n# a comment:1:2\n1001:165536:65536\nno count:5\nempty:7:0\nwords:a:b\n"
        "minus:-5:9\nlxd:1000000:1000000000\nendless:1:99999999999\n"
    )

    expected = [IdRange(1, 2), IdRange(100000, K64), IdRange(165536, K64), IdRange(1000000, 10**9)]
    assert expected == sorted(subordinate_ranges(content), key=lambda ids: ids.first)


@given(st.text(max_size=100))
def test_any_file_of_subordinate_ids_is_read(content: str) -> None:
    pool = IdPool(K64, 4 * K64)
    users = list(subordinate_ranges(content))

    assert all(ids.length > 0 for ids in users)
    with suppress(ValueError):  # no range is left
        assert not any(share(ids_of("pod", {}, pool, users), ids) for ids in users)


def test_a_pod_keeps_what_it_has_wherever_that_is() -> None:
    assert IdRange(900 * K64, 5) == ids_of("a", {"a": of(900 * K64, 5), "b": of(K64)}, IdPool(K64, 2 * K64))


def test_what_was_given_out_of_another_pool_is_kept_clear_of() -> None:
    pool = IdPool(4 * K64, 6 * K64, each=2 * K64)

    assert IdRange(8 * K64, 2 * K64) == ids_of("a", {"below": of(K64, 2 * K64), "across": of(5 * K64, 2 * K64)}, pool)
    left = {ids_of(f"pod-{number}", {"next": of(5 * K64)}, pool).first // K64 for number in range(50)}
    assert {6, 8} == left


def test_when_none_is_left_that_is_reported() -> None:
    with pytest.raises(ValueError, match="could not find an empty slot to allocate a user namespace"):
        ids_of("c", {"a": of(K64), "b": of(2 * K64)}, IdPool(K64, 2 * K64))


def test_unreadable_file_blocks_every_new_range() -> None:
    with pytest.raises(ValueError, match=r"^the file userns of pod torn: invalid user namespace mappings file"):
        ids_of("a", {"torn": b"{"}, IdPool())


def test_pods_with_overlapping_ids_get_no_new_sandboxes() -> None:
    files = {"a": of(K64, 2 * K64), "b": of(2 * K64), "c": of(3 * K64)}

    for uid, other in (("a", "b"), ("b", "a")):
        with pytest.raises(ValueError, match=f"^pods {uid} and {other} have ids in common"):
            ids_of(uid, files, IdPool())
    assert IdRange(3 * K64, K64) == ids_of("c", files, IdPool())


@pytest.mark.parametrize(
    ("expected", "files"),
    [
        ([], {}),
        ([], {"a": of(K64), "b": of(2 * K64)}),
        (["pods a and b have ids in common (see their files userns)"], {"a": of(K64), "b": of(K64)}),
        (
            [f"pods wide and {one} have ids in common (see their files userns)" for one in ("in", "late")],
            {"wide": of(K64, 9 * K64), "in": of(2 * K64), "late": of(9 * K64), "out": of(10 * K64)},
        ),
        (
            ["the file userns of pod bad: invalid user namespace configuration: UID 0 must be mapped"],
            {"bad": file([mapping(container=7)]), "a": of(K64)},
        ),
    ],
)
def test_what_is_wrong_with_the_files_is_reported(expected: list[str], files: dict[str, bytes]) -> None:
    assert expected == list(problems(files))


def share(one: IdRange, other: IdRange) -> bool:
    return max(one.first, other.first) < min(one.first + one.length, other.first + other.length)


POOLS = (IdPool(K64, 3 * K64), IdPool(2 * K64, 6 * K64, 2 * K64), IdPool(K64, 5 * K64))
STEPS = st.tuples(st.sampled_from(("comes", "comes", "goes")), st.integers(0, 5), st.sampled_from(POOLS))


@given(st.lists(STEPS, max_size=40))
def test_no_two_pods_share_an_id_whatever_comes_and_goes_and_is_configured(
    steps: list[tuple[str, int, IdPool]],
) -> None:
    files: dict[str, bytes] = {}  # all that lives on when an agent is killed
    for verb, number, pool in steps:
        uid = f"u{number}"
        if verb == "goes":
            files.pop(uid, None)
            continue
        before = files.get(uid)
        try:
            files[uid] = written(ids_of(uid, files, pool))
        except ValueError:
            assert before is None
            assert all(any(share(one, read(content)) for content in files.values()) for one in pool.ranges())
            continue
        assert before in (None, files[uid])
        assert not any(share(read(one), read(other)) for one, other in combinations(files.values(), 2))
        assert [] == list(problems(files))
