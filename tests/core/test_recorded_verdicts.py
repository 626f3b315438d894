"""What this agent has against a pod is what a real API server had against it, but for what is explained."""

import pytest

from corpus import cases, explained
from corpus.explained import KINDS, NAMED, NONE, OURS, THEIRS, UNASKED, differences
from corpus.verdicts import recorded

RECORDED = recorded()
POOLS = 20
GATE = "spec.readinessGates[0].conditionType"


def test_every_pod_of_the_corpus_and_no_other_is_recorded() -> None:
    assert list(cases()) == list(RECORDED), "run make record"


@pytest.mark.parametrize("pool", range(POOLS))
def test_both_have_the_same_against_a_pod_or_it_is_explained(pool: int) -> None:
    found = {name: differences(name, pod, RECORDED[name]) for name, pod in list(cases().items())[pool::POOLS]}

    assert {} == {name: differ for name, differ in found.items() if differ != NONE}


def test_every_explanation_is_needed() -> None:
    used: set[object] = set()
    for name, pod in cases().items():
        differences(name, pod, RECORDED[name], used)

    assert set() == {*NAMED, *OURS, *THEIRS, *KINDS, *UNASKED} - used


@pytest.mark.parametrize(("expected", "held"), [(set(), ""), ({f"{GATE}: Required value | Invalid value"}, "a")])
def test_only_what_is_empty_may_be_called_missing_here_and_wrong_there(
    monkeypatch: pytest.MonkeyPatch, expected: set[str], held: str
) -> None:
    monkeypatch.setattr(explained, "ours", lambda _: [f"{GATE}: Required value"])
    found = differences("", {"spec": {"readinessGates": [{"conditionType": held}]}}, [f"{GATE}: Invalid value"])

    assert expected == found.kinds


def test_both_take_some_and_both_refuse_some() -> None:
    """Else the comparison would prove nothing."""
    taken = [name for name, said in RECORDED.items() if not said]

    assert len(taken) > 300
    assert len(RECORDED) - len(taken) > 300
