"""The static CPU policy: which containers get CPUs of their own, and which ones; mostly upstream's own cases."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.machines import OF_UPSTREAM, POWER7, POWER9
from core.podkit import container, pod, sidecar
from trikubelet.core.cpus.layout import layout
from trikubelet.core.cpus.needs import exclusive_count, pod_count
from trikubelet.core.cpus.options import ALPHA_GATE, BETA_GATE, CpuOption, cpu_options
from trikubelet.core.cpus.reserved import check_alignment, reserved_cpus
from trikubelet.core.cpus.state import CpuRules, CpuState, release, release_containers
from trikubelet.core.cpus.static import CpusGiven, allocate, choose
from trikubelet.core.topology.cpu_list import list_text, parse_list
from trikubelet.core.topology.refusal import SMT_ALIGNMENT, UNEXPECTED, Refused
from trikubelet.model import k8s

LAYOUTS = {name: layout(found) for name, found in OF_UPSTREAM.items()}
FULL, UNCORE, SOCKET, STRICT = (
    CpuOption.FULL_CORES,
    CpuOption.PREFER_UNCORE,
    CpuOption.ALIGN_BY_SOCKET,
    CpuOption.STRICT_RESERVATION,
)


def amounts(cpu: object) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(limits={"cpu": str(cpu), "memory": "1Gi"})


def app(name: str, cpu: object) -> k8s.Container:
    return container(name, resources=amounts(cpu))


def side(name: str, cpu: object) -> k8s.Container:
    return sidecar(name, resources=amounts(cpu))


def rules(machine: str, reserved: str = "", *options: CpuOption) -> CpuRules:
    return CpuRules(LAYOUTS[machine], parse_list(reserved), frozenset(options))


def given_cpus(decision: CpusGiven | Refused) -> str:
    assert isinstance(decision, CpusGiven), decision
    return list_text(decision.cpus)


@pytest.mark.parametrize(
    ("machine", "reserved", "options", "free", "count", "nodes", "cpus"),
    [
        ("A", "0", (), "0-7", 1, (), "4"),
        ("A", "0", (), "0,1,4,5", 2, (), "1,5"),
        ("A", "0,1", (), "0-7", 1, (), "4"),
        ("A", "0,1", (), "0,1,4,5", 2, (), "4,5"),
        ("B", "0", (), "0,1,3-7,9-11", 6, (), "1,3,5,7,9,11"),
        ("B", "0", (), "0,1,3-7,9-11", 8, (), "1,3-5,7,9-11"),
        ("B", "0", (), "0,2-4,6-11", 6, (), "2-4,8-10"),
        ("C", "0", (), "0,1,3-7", 4, (), "4-7"),
        ("C", "0", (), "0,1,3,6,7", 4, (), "1,3,6,7"),
        ("B", "0,6", (FULL,), "0-11", 10, (), "1-5,7-11"),
        ("D", "", (SOCKET,), "2,11,21,22", 2, (0, 2), "2,11"),
        ("D", "", (), "2,11,21,22", 2, (0, 2), "2,21"),
        ("B", "", (), "0-11", 2, (), "0,6"),
        ("B", "", (), "0-11", 2, (1,), "1,7"),
        ("B", "", (), "0-11", 8, (0,), "0-2,4,6-8,10"),
        ("B", "", (), "0-11", 8, (1,), "0,1,3,5-7,9,11"),
        ("U5", "0,1,64,65", (UNCORE,), "0-127", 3, (), "2,3,66"),
        ("U5", "0,1,64,65", (UNCORE,), "0-127", 8, (), "4-7,68-71"),
        ("U5", "0,1,64,65", (UNCORE,), "0-3,8-67,72-127", 12, (), "2,3,8-11,66,67,72-75"),
        ("U5", "0,1,64", (UNCORE,), "0-127", 3, (), "2,65,66"),
        ("U5", "0,1,64", (UNCORE,), "0-127", 4, (), "4,5,68,69"),
        ("U5", "0,1,64", (UNCORE,), "0-127", 11, (), "2,4-7,65,66,68-71"),
        ("U6", "0-3", (UNCORE,), "0-31", 5, (), "8-12"),
        ("U8", "0,1,120,121", (UNCORE,), "0-239", 6, (), "2-4,122-124"),
        ("U8", "0,1,120", (UNCORE,), "0-239", 5, (), "2,3,121-123"),
        ("U8", "0,1,120", (UNCORE,), "0-239", 4, (), "60,61,180,181"),
        ("U8", "0,1,120", (UNCORE,), "0-127", 4, (), "2,3,122,123"),
        ("U5", "0,1,64,65", (STRICT, UNCORE), "2-63,66-127", 2, (), "2,66"),
    ],
)
def test_container_gets_these_cpus(
    machine: str,
    reserved: str,
    options: tuple[CpuOption, ...],
    free: str,
    count: int,
    nodes: tuple[int, ...],
    cpus: str,
) -> None:
    asking = pod(app("a", count))
    decision = allocate(
        rules(machine, reserved, *options), CpuState(parse_list(free)), asking, asking.spec.containers[0], set(nodes)
    )
    assert list_text(parse_list(cpus)) == given_cpus(decision)
    assert isinstance(decision, CpusGiven)
    assert parse_list(free) - decision.cpus == decision.state.shared
    assert {"12345678": {"a": decision.cpus}} == decision.state.assigned


@pytest.mark.parametrize(
    ("machine", "reserved", "options", "count", "reason", "message"),
    [
        (
            "A",
            "0",
            (),
            8,
            UNEXPECTED,
            "Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, "
            "which is unexpected",
        ),
        ("A", "", (FULL,), 1, SMT_ALIGNMENT, "SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2"),
        (
            "B",
            "1,6",
            (FULL,),
            10,
            SMT_ALIGNMENT,
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 8, requested CPUs = 10, "
            "CPUs per core = 2",
        ),
    ],
)
def test_refusal_has_upstreams_reason_and_text(
    machine: str, reserved: str, options: tuple[CpuOption, ...], count: int, reason: str, message: str
) -> None:
    asking = pod(app("a", count))
    state = CpuState(LAYOUTS[machine].cpus)
    decision = allocate(rules(machine, reserved, *options), state, asking, asking.spec.containers[0])
    assert decision == Refused(reason, message)


def test_core_of_four_threads_counts_as_four() -> None:
    shown = layout(POWER9)
    decision = choose(CpuRules(shown, frozenset(), frozenset({FULL})), shown.cpus, 15, set())
    message = "SMT Alignment Error: requested 15 cpus not multiple cpus per core = 4"
    assert decision == Refused(SMT_ALIGNMENT, message)


@pytest.mark.parametrize(
    "resources",
    [
        None,
        amounts("977m"),
        amounts("x"),
        k8s.ResourceRequirements(requests={"cpu": "2"}),
        k8s.ResourceRequirements(limits={"cpu": "2"}),
        k8s.ResourceRequirements(requests={"cpu": "2"}, limits={"cpu": "3", "memory": "1Gi"}),
    ],
)
def test_container_without_whole_guaranteed_cpus_runs_on_the_shared_pool(
    resources: k8s.ResourceRequirements | None,
) -> None:
    asking = pod(container("a", resources=resources))
    state = CpuState(LAYOUTS["A"].cpus)
    decision = allocate(rules("A"), state, asking, asking.spec.containers[0])
    assert decision == CpusGiven(state, frozenset())


def test_pod_level_resources_give_no_container_cpus_of_its_own() -> None:
    asking = pod(app("a", 2), resources=amounts(4))
    assert 0 == exclusive_count(asking, asking.spec.containers[0])


def all_given(asking: k8s.Pod, policy: CpuRules, state: CpuState) -> CpuState:
    for one in (*asking.spec.init_containers, *asking.spec.containers):
        decision = allocate(policy, state, asking, one)
        assert isinstance(decision, CpusGiven)
        state = decision.state
    return state


def test_regular_container_takes_over_cpus_of_an_ended_init_container() -> None:
    asking = pod(app("app", 2), init=(app("init", 4),))
    state = all_given(asking, rules("A"), CpuState(LAYOUTS["A"].cpus))
    assert {"init": "0-1,4-5", "app": "0,4"} == {n: list_text(c) for n, c in state.of_pod("12345678").items()}
    assert "2-3,6-7" == list_text(state.shared)
    assert "1-3,5-7" == list_text(release_containers(state, "12345678", ["init"]).shared)


def test_cpus_of_a_sidecar_are_not_taken_over() -> None:
    asking = pod(app("app", 2), init=(side("side", 4),))
    state = all_given(asking, rules("A"), CpuState(LAYOUTS["A"].cpus))
    assert {"side": "0-1,4-5", "app": "2,6"} == {n: list_text(c) for n, c in state.of_pod("12345678").items()}
    assert "3,7" == list_text(state.shared)


def test_full_cores_of_an_init_container_count_as_available() -> None:
    asking = pod(app("app", 8), init=(app("init", 8),))
    state = all_given(asking, rules("A", "", FULL), CpuState(LAYOUTS["A"].cpus))
    assert frozenset() == state.shared


def test_containers_of_one_pod_share_caches() -> None:
    policy = rules("U7", "0,1,128,129", UNCORE)
    state = CpuState(LAYOUTS["U7"].cpus - parse_list("8,9,136,137"))
    small = all_given(pod(app("a", 12), app("b", 12)), policy, state).exclusive
    large = all_given(pod(app("a", 14), app("b", 14)), policy, state).exclusive
    assert small <= parse_list("0-15,128-143")
    assert large <= parse_list("16-31,144-159")


def test_repeated_decision_changes_nothing() -> None:
    """Also where the options would refuse the container now: a running one keeps its CPUs."""
    asking = pod(app("a", 1))
    state = all_given(asking, rules("A"), CpuState(LAYOUTS["A"].cpus))
    decision = allocate(rules("A", "", FULL), state, asking, asking.spec.containers[0])
    assert decision == CpusGiven(state, frozenset({0}))


@pytest.mark.parametrize(
    ("asking", "count"),
    [
        (pod(app("a", 5), init=(app("i", 2),)), 5),
        (pod(app("a", 2), init=(app("i", 5),)), 5),
        (pod(app("a", 2), app("b", 4), init=(app("i", 2), app("j", 4))), 6),
        (pod(app("a", 1), init=(side("s", 1),)), 2),
        (pod(app("a", 1), init=(app("i", 5), side("s", 1), side("t", 2), side("u", 3))), 7),
        (pod(app("a", 1), init=(app("i", 5), side("s", 1), side("t", 2), app("j", 5), side("u", 3))), 8),
        (pod(app("a", 100), init=(side("s", 10), app("i", 200))), 210),
    ],
)
def test_pod_needs_what_runs_at_one_time(asking: k8s.Pod, count: int) -> None:
    assert count == pod_count(asking)


@pytest.mark.parametrize(
    ("given_options", "gates", "expected"),
    [
        ({}, set(), set()),
        ({"full-pcpus-only": "true", "strict-cpu-reservation": "0"}, set(), {FULL}),
        ({"distribute-cpus-across-numa": "T"}, {BETA_GATE}, {CpuOption.ACROSS_NUMA}),
        ({"align-by-socket": "1"}, {ALPHA_GATE}, {SOCKET}),
    ],
)
def test_options_are_read(given_options: dict[str, str], gates: set[str], expected: set[CpuOption]) -> None:
    assert expected == cpu_options(given_options, gates)


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"x": "true"}, 'unknown CPU Manager Policy option: "x"'),
        (
            {"align-by-socket": "true"},
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            {"full-pcpus-only": "yes"},
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            {"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"},
            "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used "
            "at the same time",
        ),
    ],
)
def test_wrong_options_raise_upstreams_text(given_options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="option") as raised:
        cpu_options(given_options, {BETA_GATE})
    assert message == str(raised.value)


def test_disabled_beta_option_is_refused() -> None:
    with pytest.raises(ValueError, match="Beta-level Options not enabled"):
        cpu_options({"distribute-cpus-across-numa": "true"}, set())


def test_reserved_cpus_are_listed_or_packed() -> None:
    assert {1, 3} == reserved_cpus(LAYOUTS["B"], frozenset({1, 3}), Fraction(1))
    assert {0, 4} == reserved_cpus(LAYOUTS["A"], frozenset(), Fraction("1.1"))


@pytest.mark.parametrize(
    ("listed", "amount", "message"),
    [
        ({7, 8}, 0, "reserved-cpus: 7-8 is not a subset of online-cpus: 0-7"),
        (
            set(),
            0,
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
        ),
        (
            set(),
            9,
            "[cpumanager] unable to reserve the required amount of CPUs (size of 0-7 did not equal 9)",
        ),
    ],
)
def test_impossible_reservation_raises_upstreams_text(listed: set[int], amount: int, message: str) -> None:
    with pytest.raises(ValueError, match="reserve") as raised:
        reserved_cpus(LAYOUTS["A"], frozenset(listed), Fraction(amount))
    assert message == str(raised.value)


def test_align_by_socket_needs_a_machine_and_a_policy_that_fit() -> None:
    check_alignment(LAYOUTS["D"], frozenset({SOCKET}), is_single_numa_node=False)
    check_alignment(LAYOUTS["U2"], frozenset(), is_single_numa_node=True)
    with pytest.raises(ValueError, match="single-numa-node"):
        check_alignment(LAYOUTS["D"], frozenset({SOCKET}), is_single_numa_node=True)
    with pytest.raises(ValueError, match="16 sockets and 1 NUMA nodes"):
        check_alignment(layout(POWER7), frozenset({SOCKET}), is_single_numa_node=False)


OPTIONS = st.sampled_from([(), (FULL,), (UNCORE,), (SOCKET,), (CpuOption.ACROSS_NUMA,), (CpuOption.ACROSS_CORES,)])
PODS = st.builds(
    lambda uid, cpus, inits, sides: pod(
        *(app(f"a{n}", cpu) for n, cpu in enumerate(cpus)),
        init=(
            *(app(f"i{n}", cpu) for n, cpu in enumerate(inits)),
            *(side(f"s{n}", cpu) for n, cpu in enumerate(sides)),
        ),
        meta={"uid": uid},
    ),
    st.sampled_from(["u", "v", "w"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.lists(st.integers(1, 4), max_size=2),
    st.lists(st.integers(1, 2), max_size=1),
)
NODES = st.frozensets(st.integers(0, 1))


@given(st.lists(st.tuples(PODS, NODES), max_size=5), OPTIONS)
def test_no_cpu_has_two_owners_and_release_returns_all(
    asking: list[tuple[k8s.Pod, frozenset[int]]], options: tuple[CpuOption, ...]
) -> None:
    policy = rules("B", "0", *options)
    state = CpuState(policy.layout.cpus)
    pods = {}
    for one, nodes in asking:
        if one.metadata.uid in pods:
            continue
        pods[one.metadata.uid] = one
        for each in (*one.spec.init_containers, *one.spec.containers):
            decision = allocate(policy, state, one, each, nodes)
            if isinstance(decision, Refused):
                break
            assert decision.cpus <= (state.shared - policy.reserved) | state.exclusive
            assert exclusive_count(one, each) == len(decision.cpus)
            state = decision.state
    assert policy.layout.cpus == state.shared | state.exclusive
    assert not state.shared & state.exclusive
    assert not policy.reserved & state.exclusive
    seen: set[int] = set()
    for uid, containers in state.assigned.items():
        lasting = [containers[name] for name in containers if not name.startswith("i")]
        assert len(frozenset().union(*lasting)) == sum(map(len, lasting))
        mine = frozenset().union(*containers.values())
        assert not seen & mine
        seen |= mine
        assert uid in pods
    assert CpuState(policy.layout.cpus) == release(state, set(pods))
