"""Feature gates: defaults, stages, what is refused."""

from __future__ import annotations

import pytest

from trikubelet.model.feature_gates import GATES, FeatureGates, Stage, gate_problem, parse_gates


def test_a_gate_has_its_default_until_the_operator_speaks() -> None:
    assert True is FeatureGates().enabled("PLEGOnDemandRelist")
    assert False is FeatureGates().enabled("EventedPLEG")
    assert True is FeatureGates({"EventedPLEG": True}).enabled("EventedPLEG")


def test_a_whole_stage_can_be_switched_and_a_named_gate_keeps_what_it_was_given() -> None:
    gates = FeatureGates({"AllAlpha": True, "EventedPLEG": False, "AllBeta": False})

    assert True is gates.enabled("PodsAPI")
    assert False is gates.enabled("EventedPLEG")
    assert False is gates.enabled("PLEGOnDemandRelist")
    assert True is gates.enabled("SidecarContainers")


def test_asking_for_a_gate_that_is_none_is_a_slip_in_the_agent() -> None:
    with pytest.raises(KeyError):
        FeatureGates().enabled("EventedPleg")


def test_the_default_follows_from_the_stage_except_for_a_few() -> None:
    assert all(not gate.default for gate in GATES.values() if gate.stage is Stage.ALPHA)
    assert all(gate.default for gate in GATES.values() if gate.stage is Stage.GA)


@pytest.mark.parametrize(
    ("name", "value", "problem", "remedy"),
    [
        ("EventedPLEG", True, "", ""),
        ("AllAlpha", False, "", ""),
        ("SidecarContainers", True, "", ""),
        (
            "SidecarContainers",
            False,
            "cannot set feature gate SidecarContainers to false, feature is locked to true",
            "remove it",
        ),
        ("EventPLEG", True, "unrecognized feature gate: EventPLEG", 'did you mean "EventedPLEG"?'),
        ("Zzz", True, "unrecognized feature gate: Zzz", "remove it"),
    ],
)
def test_unknown_gates_and_finished_ones_switched_off_are_refused(
    name: str, value: bool, problem: str, remedy: str
) -> None:
    assert (problem, remedy) == gate_problem(name, value)


def test_the_flag_gives_gates_by_commas() -> None:
    assert {"A": True, "B": False} == parse_gates(" A=true, B=False,")
    assert {} == parse_gates("")


@pytest.mark.parametrize(("text", "said"), [("A", "missing bool value for A"), ("A=on", "invalid value of A")])
def test_a_gate_without_a_boolean_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_gates(text)


def test_everything_wrong_with_the_flag_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"missing .* A: .*; invalid value of B: .*; unrecognized feature gate: Zzz"):
        parse_gates("A,B=x,Zzz=true,EventedPLEG=true")
