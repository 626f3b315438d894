"""The state at the start of the static CPU policy: kept, made anew, or migrated with upstream's text as the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.machines import A, B
from trikubelet.core.cpus.checkpoint import CpuCheckpoint
from trikubelet.core.cpus.layout import layout
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.start import Kept, Migrated, start_none, start_static
from trikubelet.core.cpus.state import CpuRules, CpuState
from trikubelet.core.topology.cpu_list import parse_list

STRICT = frozenset({CpuOption.STRICT_RESERVATION})
RULES = CpuRules(layout(B), frozenset({0}))
STRICTLY = CpuRules(layout(B), frozenset({0, 1}), STRICT)


def state(shared: str, pods: dict[str, str] | None = None, **containers: str) -> CpuState:
    """The state in which each pod has one container ``c``, named by its UID."""
    assigned = {uid: {"c": parse_list(cpus)} for uid, cpus in containers.items()}
    return CpuState(parse_list(shared), assigned, {uid: parse_list(cpus) for uid, cpus in (pods or {}).items()})


def static(found: CpuState) -> CpuCheckpoint:
    return CpuCheckpoint("static", found)


@pytest.mark.parametrize(
    ("rules", "file", "expected"),
    [
        (RULES, None, state("0-11")),
        (RULES, static(CpuState()), state("0-11")),
        (RULES, static(state("0-11")), state("0-11")),
        (RULES, static(state("0-5,8-11", u="6,7")), state("0-5,8-11", u="6,7")),
        (RULES, static(state("0-5", {"u": "6-11"}, u="6,7")), state("0-5", {"u": "6-11"}, u="6,7")),
        (STRICTLY, None, state("2-11")),
        (STRICTLY, static(state("2-5,8-11", u="6,7")), state("2-5,8-11", u="6,7")),
        (STRICTLY, static(state("", u="2-11")), state("", u="2-11")),
    ],
)
def test_fitting_state_is_kept(rules: CpuRules, file: CpuCheckpoint | None, expected: CpuState) -> None:
    assert Kept(expected) == start_static(rules, file)


@pytest.mark.parametrize(
    ("rules", "file", "reason", "expected", "drained"),
    [
        (
            RULES,
            CpuCheckpoint("none", CpuState()),
            'configured policy "static" differs from state checkpoint policy "none"',
            state("0-11"),
            (),
        ),
        (RULES, static(state("", u="1,7")), "default cpuset cannot be empty", state("0,2-6,8-11", u="1,7"), ()),
        (
            RULES,
            static(state("1-11")),
            'not all reserved cpus: "0" are present in defaultCpuSet: "1-11"',
            state("0-11"),
            (),
        ),
        (
            STRICTLY,
            static(state("0-5", u="6-11")),
            'some of strictly reserved cpus: "0-1" are present in defaultCpuSet: "0-5"',
            state("2-5", u="6-11"),
            (),
        ),
        (
            RULES,
            static(state("2-11", fakePod="0-2")),
            'pod: fakePod, container: c cpuset: "0-2" overlaps with default cpuset "2-11"',
            state("0-11"),
            ("fakePod",),
        ),
        (
            RULES,
            static(state("0-12")),
            'current set of available CPUs "0-11" doesn\'t match with CPUs in state "0-12"',
            state("0-11"),
            (),
        ),
        (
            CpuRules(layout(A), frozenset({0})),  # CPUs 8-11 were taken offline
            static(state("0-5,8-10", u="6,7", v="11")),
            'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-11"',
            state("0-5", u="6,7"),
            ("v",),
        ),
        (
            CpuRules(layout(B), frozenset({6})),  # the list of reserved CPUs changed
            static(state("0-5,8-11", u="6,7")),
            'not all reserved cpus: "6" are present in defaultCpuSet: "0-5,8-11"',
            state("0-11"),
            ("u",),
        ),
        (
            RULES,
            static(state("0-5,9-11", u="6,7", v="7,8")),
            'assigned CPUs "8" are reserved, are not online or have two owners',
            state("0-5,8-11", u="6,7"),
            ("v",),
        ),
        (
            RULES,
            static(state("0-11", {"u": "6,7"})),
            'pod: u cpuset: "6-7" overlaps with default cpuset "0-11"',
            state("0-5,8-11", {"u": "6,7"}),
            (),
        ),
    ],
)
def test_state_that_does_not_fit_is_migrated(
    rules: CpuRules, file: CpuCheckpoint, reason: str, expected: CpuState, drained: tuple[str, ...]
) -> None:
    found = start_static(rules, file)
    assert isinstance(found, Migrated)
    assert (expected, drained) == (found.state, found.drained)
    assert reason in found.reasons


def test_container_that_lost_its_cpus_leaves_others_of_its_pod_theirs() -> None:
    both = CpuState(parse_list("0-5"), {"u": {"a": parse_list("6,7"), "b": parse_list("8,12")}})
    found = start_static(RULES, static(both))
    assert isinstance(found, Migrated)
    assert {"u": {"a": parse_list("6,7")}} == found.state.assigned
    assert ("u",) == found.drained


def test_policy_none_assigns_nothing_and_names_the_pods() -> None:
    assert Kept(CpuState()) == start_none(None) == start_none(CpuCheckpoint("none", state("0-11")))
    found = start_none(static(state("0-5", {"v": "8"}, u="6,7")))
    reason = 'configured policy "none" differs from state checkpoint policy "static"'
    assert Migrated(CpuState(), (reason,), ("u", "v")) == found


CPUS = st.frozensets(st.integers(0, 13), max_size=8)
FILES = st.builds(
    CpuCheckpoint,
    st.sampled_from(["none", "static"]),
    st.builds(
        CpuState,
        CPUS,
        st.dictionaries(st.sampled_from("uvw"), st.dictionaries(st.sampled_from("ab"), CPUS, min_size=1), max_size=3),
        st.dictionaries(st.sampled_from("uv"), CPUS, max_size=1),
    ),
)


@given(FILES, st.sampled_from([RULES, STRICTLY]))
def test_every_file_leads_to_a_consistent_state_that_is_kept_next_time(file: CpuCheckpoint, rules: CpuRules) -> None:
    found = start_static(rules, file).state
    assert not found.shared & found.exclusive
    assert not found.exclusive & rules.reserved
    assert rules.layout.cpus == found.shared | found.exclusive | rules.reserved
    for uid, containers in found.assigned.items():
        others = (cpus for other, of_other in found.assigned.items() if other != uid for cpus in of_other.values())
        assert not frozenset().union(*containers.values()) & frozenset().union(*others)
        assert containers.items() <= file.state.of_pod(uid).items()
    assert Kept(found) == start_static(rules, static(found))
