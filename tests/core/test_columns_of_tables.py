"""What users ask of a table: columns of their own, labels, and an order by a field."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.jsonpath import OutOfBounds, parse_relaxed
from trikubelet.core.kubectl.custom_columns import custom_cells, parse_columns
from trikubelet.core.kubectl.label_columns import LabelColumns
from trikubelet.core.kubectl.sorting import in_order_of

POD = {
    "metadata": {"name": "web", "labels": {"b": "2", "a": "1"}, "annotations": {"example.com/x": "y"}},
    "spec": {
        "containers": [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:1"}],
        "hostNetwork": True,
    },
    "status": {"startTime": None, "containerStatuses": [{"restartCount": 0}]},
}


@pytest.mark.parametrize(
    ("headings", "cells", "columns"),
    [
        (["NAME"], ["web"], "NAME:.metadata.name"),
        (["A", "B", "C"], ["web"] * 3, "A:metadata.name,B:{.metadata.name},C:{metadata.name}"),
        (["IMAGES"], ["app:1,side:1"], "IMAGES:.spec.containers[*].image"),
        (["none", ""], ["<none>", "web"], "none:.metadata.nothing.here,:.metadata.name"),
        (["N", "B"], ["0", "true"], "N:.status.containerStatuses[0].restartCount,B:.spec.hostNetwork"),
        (["L"], ["map[a:1 b:2]"], "L:.metadata.labels"),
        (["C"], ["[map[image:app:1 name:app] map[image:side:1 name:side]]"], "C:.spec.containers"),
        (["T"], ["<nil>"], "T:.status.startTime"),
        (["X"], ["y"], r"X:.metadata.annotations.example\.com/x"),
        (["X", "N"], ["side:1", "web"], 'X:.spec.containers[?(@.name=="side")].image,N:.metadata.name'),
        (["X"], ["web,map[a:1 b:2]"], "X:.metadata['name','labels']"),
    ],
)
def test_custom_columns_show_what_their_paths_lead_to(headings: list[str], cells: list[str], columns: str) -> None:
    parsed = parse_columns(columns)

    assert headings == [column.heading for column in parsed]
    assert tuple(cells) == custom_cells(parsed, POD)


@pytest.mark.parametrize(
    ("why", "columns"),
    [
        ("custom-columns format specified but no custom columns given", ""),
        ("unexpected custom-columns spec: NAME, expected <header>:<json-path-expr>", "NAME"),
        ("unexpected custom-columns spec: , expected <header>:<json-path-expr>", "A:.a,"),
        ("unexpected path string, expected a 'name1.name2'", "A:"),
        ("unexpected path string, expected a 'name1.name2'", "A:{.a}{.b}"),
        ("is no step of a path", "A:.a["),
    ],
)
def test_faulty_custom_columns_are_refused_in_kubectls_words(why: str, columns: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_columns(columns)


def test_an_element_that_a_list_is_too_short_for_is_an_error() -> None:
    with pytest.raises(OutOfBounds):
        custom_cells(parse_columns("A:.spec.containers[7].name"), POD)


def test_labels_have_columns_of_their_own_and_one_together() -> None:
    columns = LabelColumns(("app", "example.com/tier"), with_all=True)

    assert ("APP", "TIER", "LABELS") == columns.headings
    assert ("web", "", "app=web,zone=a") == columns.cells({"zone": "a", "app": "web"})
    assert ("", "", "<none>") == columns.cells(None)
    assert ((), ()) == (LabelColumns().headings, LabelColumns().cells({"a": "b"}))


@pytest.mark.parametrize(
    "values",
    [
        [None, 0, 2, 10],
        [0, 1.5, 2],
        [None, None, "web-2", "web-10", "web-10a", "web-b"],
        ["500m", "1", "64Ki", "1M", "1Mi"],
        ["2026-11-21T07:00:00Z", "2026-11-21T07:00:01Z", "2026-12-01T00:00:00Z"],
        ["10.0.0.9", "10.0.0.10", "10.0.1.0"],
        ["a01", "a1", "a2"],
        ["", "a"],
        ["a", "a1"],
        [False, True],
        ["x" + "9" * 6000, "x1" + "0" * 6000],  # more digits than Python makes an integer of
    ],
)
def test_things_are_sorted_by_the_values_as_their_kind_is_compared(values: list[Any]) -> None:
    things = [{} if value is None else {"a": value} for value in values]
    path = parse_relaxed(".a")

    assert things == in_order_of(path, things, dict)
    assert values == [thing.get("a") for thing in in_order_of(path, things[::-1], dict)]


def test_equal_things_and_those_without_the_field_keep_their_order() -> None:
    things = [("b", 1), ("a", 1), ("d", None), ("c", None)]

    found = in_order_of(parse_relaxed("v[0]"), things, lambda one: {"v": [one[1]] if one[1] else []})

    assert [("d", None), ("c", None), ("b", 1), ("a", 1)] == found


@pytest.mark.parametrize(
    ("why", "things"),
    [
        ("couldn't find any field with this path", [{"b": 1}]),
        ("unsortable type: dict", [{"a": {}}]),
        ("unsortable type: list", [{"a": "x"}, {"a": []}]),
        ("unsortable type: int", [{"a": "x"}, {"a": 1}]),
    ],
)
def test_things_that_have_no_order_are_refused(why: str, things: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=why):
        in_order_of(parse_relaxed("a"), things, dict)


def test_nothing_is_in_order() -> None:
    assert [] == in_order_of(parse_relaxed("a"), [], dict)


@given(st.lists(st.text("ab019-.", max_size=6)))
def test_texts_have_one_order_whatever_order_they_come_in(texts: list[str]) -> None:
    path = parse_relaxed("a")

    def ordered(some: list[str]) -> list[str]:
        return in_order_of(path, some, lambda one: {"a": f"x{one}"})

    assert ordered(sorted(texts)) == ordered(sorted(texts, reverse=True))
