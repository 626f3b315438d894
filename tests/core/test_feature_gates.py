"""Feature gates: defaults, stages, what is refused."""

from __future__ import annotations

import pytest

from trikubelet.model.feature_gates import GATES, FeatureGates, Stage, gate_problem, gates_of, parse_gates
from trikubelet.model.upstream import FOLLOWED, Minor


def test_a_gate_has_its_default_until_the_operator_speaks() -> None:
    assert True is FeatureGates().enabled("ContainerRestartRules")
    assert False is FeatureGates().enabled("EventedPLEG")
    assert True is FeatureGates({"EventedPLEG": True}).enabled("EventedPLEG")


def test_a_whole_stage_can_be_switched_and_a_named_gate_keeps_what_it_was_given() -> None:
    gates = FeatureGates({"AllAlpha": True, "EventedPLEG": False, "AllBeta": False})

    assert True is gates.enabled("DefaultPodSysctls")
    assert False is gates.enabled("EventedPLEG")
    assert False is gates.enabled("ContainerRestartRules")
    assert True is gates.enabled("NodeSwap")


def test_asking_for_a_gate_that_is_none_is_a_slip_in_the_agent() -> None:
    with pytest.raises(KeyError):
        FeatureGates().enabled("EventedPleg")


@pytest.mark.parametrize("minor", [Minor(1, 36), Minor(1, 37), Minor(1, 38)])
def test_an_alpha_feature_is_off_in_every_release_and_a_locked_one_is_finished_or_deprecated(minor: Minor) -> None:
    gates = gates_of(minor).values()

    assert all(not gate.default for gate in gates if gate.stage is Stage.ALPHA)
    assert {Stage.GA, Stage.DEPRECATED} == {gate.stage for gate in gates if gate.locked}


# Read from the sources of the three releases: stage, default, and whether it is locked.
BY_RELEASE = {
    "ClusterTrustBundleProjection": ("beta off", "ga on", "ga on"),
    "SELinuxMount": ("beta off", "ga on", "ga on"),
    "MemoryQoS": ("alpha off", "beta on", "beta on"),
    "HugepageAwareEviction": ("", "beta on", "beta on"),
    "AtomicWriteVolumeUserFields": ("", "alpha off", "beta on"),
    "ExtendWebSocketsToKubelet": ("beta on", "beta on", "ga on locked"),
    "PreventStaticPodAPIReferences": ("beta on", "", ""),
    "SidecarContainers": ("ga on locked", "", ""),
    "NodeSwap": ("ga on locked", "ga on locked", ""),
    "SecurityProfileOCI": ("", "", "alpha off"),
}


@pytest.mark.parametrize("name", BY_RELEASE)
def test_a_gate_is_in_each_release_what_that_release_has_it(name: str) -> None:
    found = []
    for minor in (Minor(1, 36), Minor(1, 37), Minor(1, 38)):
        gate = gates_of(minor).get(name)
        words = [gate.stage.value.lower(), "on" if gate.default else "off", *["locked"] * gate.locked] if gate else []
        found.append(" ".join(words))

    assert BY_RELEASE[name] == tuple(found)


def test_the_gates_are_those_of_the_followed_release() -> None:
    assert gates_of(FOLLOWED) == GATES
    assert Minor(1, 37) == FOLLOWED


@pytest.mark.parametrize(
    ("name", "value", "problem", "remedy"),
    [
        ("EventedPLEG", True, "", ""),
        ("AllAlpha", False, "", ""),
        ("NodeSwap", True, "", ""),
        ("NodeSwap", False, "cannot set feature gate NodeSwap to false, feature is locked to true", "remove it"),
        (
            "SidecarContainers",
            True,
            "unrecognized feature gate: SidecarContainers: Kubernetes 1.37 removed it",
            "remove it",
        ),
        ("MemoryManager", False, "unrecognized feature gate: MemoryManager: Kubernetes 1.36 removed it", "remove it"),
        (
            "SecurityProfileOCI",
            True,
            "unrecognized feature gate: SecurityProfileOCI: Kubernetes 1.38 brings it",
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
