"""The record of upstream's node suite: which specs count as lost, what a repetition changes, and what is kept."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from live.kit import node_conformance
from live.kit.node_conformance import AGENT, UPSTREAM, Release, load, pattern, save, settled


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an empty record."""
    path = tmp_path / "node_conformance.json"
    monkeypatch.setattr(node_conformance, "RECORD", path)
    return path


@pytest.mark.parametrize(
    ("expected", "ours", "upstreams"),
    [
        ("failed: no event", ["failed: no event"] * 3, []),
        ("failed: no event", ["failed: another reason", "timedout: ", ""], []),
        (
            "flaky: fails 2 of 4 times, with upstream's kubelet 0 of 3: no event",
            ["passed", "failed: x", "passed"],
            ["passed"] * 3,
        ),
        (
            "flaky: fails 1 of 4 times, with upstream's kubelet 2 of 3: no event",
            ["passed"] * 3,
            ["passed", "failed: x", ""],
        ),
    ],
)
def test_a_failed_spec_is_flaky_only_where_it_passes_when_repeated(
    expected: str, ours: Sequence[str], upstreams: Sequence[str]
) -> None:
    assert expected == settled("failed: no event", ours, upstreams)


def test_a_spec_is_lost_unless_upstream_fails_it_too() -> None:
    release = Release("v1.37.2", "2.2.9", upstream={"a": "passed", "b": "failed: no dummy device", "c": "passed"})
    verdicts = {"a": "failed: x", "b": "failed: x", "c": "passed", "d": "failed: x", "e": "skipped: wants two nodes"}

    assert ["a", "d"] == release.lost(verdicts)


def test_a_whole_run_replaces_the_results_of_its_kubelet_alone(record: Path) -> None:
    release = Release("v1.37.2", "2.2.9", agent={"gone": "passed"}, upstream={"a": "passed"})

    save("1.37", release, AGENT, {"a": "passed"}, whole=True)

    kept = load("v1.37.2", "1.37")
    assert {"a": "passed"} == kept.agent
    assert {"a": "passed"} == kept.upstream


def test_a_narrow_run_adds_to_the_results(record: Path) -> None:
    save("1.37", Release("v1.37.2", "2.2.9", upstream={"a": "passed"}), UPSTREAM, {"b": "failed: x"}, whole=False)

    assert {"a": "passed", "b": "failed: x"} == load("v1.37.2", "1.37").upstream


def test_results_of_another_patch_release_are_not_used(record: Path) -> None:
    save("1.36", Release("v1.36.2", "2.2.9"), UPSTREAM, {"a": "failed: x"}, whole=True)
    save("1.37", Release("v1.37.2", "2.2.9"), UPSTREAM, {"a": "passed"}, whole=True)

    assert {} == load("v1.36.3", "1.36").upstream
    assert ["1.36", "1.37"] == list(json.loads(record.read_text()))


def test_the_pattern_of_names_matches_them_whatever_they_contain() -> None:
    names = ["[sig-node] PLR resize - 1 container (cpu & mem) + resize", 'a "quoted" | name, 10.5% <b>']

    expression = pattern(names)

    assert all(re.search(expression, f"E2eNode Suite {name}") for name in names)
    assert not re.search(expression, "[sig-node] PLR resize - 1 container")
    assert not re.search(r"\\[\s\w]", expression)  # Go's expressions know no such escape, or give it a meaning
