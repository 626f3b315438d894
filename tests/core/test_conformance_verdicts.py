"""What is written down of a spec of upstream's suite, by what ginkgo's report says of it."""

from typing import Any

import pytest

from live.kit.conformance import name_of, verdict


def spec(state: str, message: str = "", group: str = "[sig-node] Pods") -> dict[str, Any]:
    """As the report has it; the failure is left out where there is none."""
    failure = {"Failure": {"Message": message}} if message else {}
    return {"State": state, "ContainerHierarchyTexts": [group], "LeafNodeText": "should be [Conformance]", **failure}


def test_a_spec_has_the_name_that_upstreams_lists_have() -> None:
    assert "[sig-node] Pods should be [Conformance]" == name_of(spec("passed"))


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("passed", spec("passed")),
        ("failed: no pod was there:", spec("failed", "no pod was there:\n  it was gone")),
        ("timedout: took an hour", spec("timedout", "took an hour")),
        ("panicked: ", spec("panicked")),
        ("skipped: wants two nodes", spec("skipped", "wants two nodes")),
        ("left out: needs kube-proxy, which is not there", spec("skipped", group="[sig-network] DNS")),
    ],
)
def test_a_spec_that_did_not_pass_says_why_in_one_line(expected: str, told: dict[str, Any]) -> None:
    assert expected == verdict(told)
