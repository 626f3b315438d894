"""The page about upstream's tests, as `packaging/generate_conformance.py` makes it of what was recorded."""

from __future__ import annotations

from shell.nightlykit import loaded

node_part = loaded("generate_conformance").node_part

RECORDED = {
    "1.37": {
        "release": "v1.37.2",
        "containerd": "2.2.9",
        "upstream": {"a": "passed", "b": "passed", "c": "passed", "d": "passed", "e": "failed: no dummy device"},
        "agent": {"a": "passed", "b": "failed: no <event> | none", "c": "flaky: fails 1 of 4 times", "e": "failed: x"},
    }
}


def test_the_table_counts_the_specs_that_upstream_passes() -> None:
    assert "| v1.37.2 | 2.2.9 | 4 | 3 | 1 | 1 | 1 |\n" in node_part(RECORDED)


def test_a_spec_that_only_the_agent_fails_is_listed_with_the_reason() -> None:
    listed = node_part(RECORDED).partition("| Spec |")[2]

    assert r"| b | 1.37 | failed: no &lt;event> \| none |" in listed
    assert "| c | 1.37 | flaky: fails 1 of 4 times |" in listed


def test_a_spec_that_upstream_fails_as_well_is_not_listed() -> None:
    assert "| e |" not in node_part(RECORDED)


def test_a_run_without_losses_says_so() -> None:
    passed = {
        "1.36": {"release": "v1.36.3", "containerd": "2.2.9", "upstream": {"a": "passed"}, "agent": {"a": "passed"}}
    }

    assert "The agent passes every spec that was run" in node_part(passed)
