"""The choice of devices, by upstream's own cases, and what holds for every choice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.podkit import container, pod, sidecar
from drawn_examples import examples
from trikubelet.core.devices.choice import Classes, Open, Question, chosen, classes
from trikubelet.core.devices.decision import Decision, Met, Refused, decide, in_use, released
from trikubelet.core.devices.needs import Need, needs, reusable
from trikubelet.model import k8s
from trikubelet.model.devices import Device, Held, Holder, Holdings, Resource

GPU = "example.com/gpu"
HOLDER = Holder("u", "c", GPU)
OTHER = Holder("v", "c", GPU)


def on(node: int, *ids: object) -> dict[str, Device]:
    return {str(name): Device(str(name), numa_nodes=frozenset({node})) for name in ids}


def holding(*ids: object) -> Held:
    return Held({str(name): frozenset() for name in ids})


def asked(
    count: int,
    devices: dict[str, Device],
    *,
    nodes: tuple[int, ...] = (),
    used: tuple[int, ...] = (),
    reuse: tuple[int, ...] = (),
) -> Decision:
    """The decision about ``count`` devices. Another pod holds ``used``; this pod's init containers leave ``reuse``."""
    holdings = {OTHER: holding(*used), Holder("u", "init", GPU): holding(*reuse)}
    return decide(
        Need(HOLDER, count),
        {GPU: Resource(devices)},
        holdings,
        reusable=frozenset(map(str, reuse)),
        wanted_nodes=frozenset(nodes),
    )


def picked(decision: Decision, *advice: object) -> set[str]:
    assert isinstance(decision, Open)
    return set(chosen(decision, map(str, advice)))


def question(decision: Decision) -> Question | None:
    assert isinstance(decision, Open)
    return decision.question


def test_devices_on_the_wanted_numa_node_come_first() -> None:
    assert {"d2"} == picked(asked(1, on(0, "d1") | on(1, "d2"), nodes=(1,)))
    found = picked(asked(4, on(0, 1, 2, 3) | on(1, 4, 5, 6), nodes=(0,)))
    assert {"1", "2", "3"} < found
    four = on(0, "a0", "a1") | on(1, "b0", "b1") | on(2, "c0", "c1") | on(3, "d0", "d1")
    assert {"b0", "b1", "d0", "d1"} == picked(asked(4, four, nodes=(1, 3)))


def test_devices_are_told_apart_by_their_place() -> None:
    devices = on(1, "d1") | on(2, "d3", "d4") | {"d2": Device("d2", numa_nodes=frozenset({1, 2})), "d0": Device("d0")}
    assert Classes(("d2", "d3", "d4"), ("d1",), ("d0",)) == classes(devices, devices, {2})
    assert Classes((), (), ("d0", "d1", "d2", "d3", "d4")) == classes(devices, devices, frozenset())


def test_advice_is_followed_among_the_aligned_devices() -> None:
    half = on(0, *range(100)) | on(1, *range(100, 200))
    assert {"0", "19", "83", "42", "77"} == picked(asked(5, half, nodes=(0,)), 0, 19, 83, 42, 77)
    found = picked(asked(5, half, nodes=(0,)), 0, 19, 83, 150, 186)
    assert {"0", "19", "83"} < found <= on(0, *range(100)).keys()
    found = picked(asked(5, on(1, *range(100)), nodes=(1,)), 0, 19, 83, "bogus", "bogus")
    assert {"0", "19", "83"} < found
    assert 5 == len(found)


def test_advice_is_followed_beyond_the_aligned_devices_where_those_do_not_suffice() -> None:
    few = on(0, 0, 1, 2) | on(1, *range(3, 100))
    assert {"0", "1", "2", "42", "83"} == picked(asked(5, few, nodes=(0,)), 0, 1, 2, 42, 83)
    found = picked(asked(5, few, nodes=(0,)), 0, 1, 2, 42, "bogus")
    assert {"0", "1", "2", "42"} < found
    assert 5 == len(found)


def test_plugin_is_asked_about_the_free_devices_and_those_that_are_taken() -> None:
    four, eight, halves = on(0, *range(4)), on(0, *range(8)), on(0, *range(4)) | on(1, *range(4, 8))
    assert Question(tuple("0123"), (), 1) == question(asked(1, four, nodes=(0,)))
    assert Question(tuple("01234567"), ("0", "5"), 4) == question(asked(4, eight, nodes=(0,), reuse=(0, 5)))
    used = asked(4, eight, nodes=(0,), used=(4, 1), reuse=(0, 5))
    assert Question(tuple("023567"), ("0", "5"), 4) == question(used)
    both = asked(6, halves, nodes=(0,), reuse=(1, 6))
    assert Question(tuple("01234567"), tuple("01236"), 6) == question(both)
    used = asked(6, halves, nodes=(0,), used=(0, 7), reuse=(1, 6))
    assert Question(tuple("123456"), tuple("1236"), 6) == question(used)


def test_plugin_is_not_asked_where_nothing_is_left_to_choose() -> None:
    assert question(asked(2, on(0, 0, 1, 2), reuse=(1, 2))) is None
    assert question(asked(2, on(0, 0, 1) | on(1, 2), nodes=(0,))) is None


def test_need_that_is_met_is_not_decided_again() -> None:
    inventory = {GPU: Resource(on(0, 0, 1))}
    assert Met() == decide(Need(HOLDER, 2), inventory, {HOLDER: holding(0, 1)})
    assert Met() == decide(Need(HOLDER, 2), {}, {HOLDER: holding(0, 1)}, keeps_running=True)


SICK = {name: Device(name, is_healthy=False) for name in ("dev1", "dev2")}


@pytest.mark.parametrize(
    ("inventory", "count", "held", "message"),
    [
        (
            {GPU: Resource(on(0, 0, 1))},
            3,
            (0, 1),
            'pod "u" container "c" changed request for resource "{}" from 2 to 3',
        ),
        ({}, 1, ("dev1",), "cannot allocate unregistered device {}"),
        ({}, 1, (), "cannot allocate unregistered device {}"),
        (
            {GPU: Resource(SICK)},
            2,
            ("dev1", "dev2"),
            "no healthy devices present; cannot allocate unhealthy devices {}",
        ),
        (
            {GPU: Resource(on(0, "dev7", "dev8"))},
            1,
            ("dev5",),
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices {}",
        ),
        (
            {GPU: Resource(on(0, 0, 1) | SICK)},
            3,
            (),
            "requested number of devices unavailable for {}. Requested: 3, Available: 2",
        ),
    ],
)
def test_refusals_have_the_words_of_upstream(
    inventory: dict[str, Resource], count: int, held: tuple[object, ...], message: str
) -> None:
    holdings = {HOLDER: holding(*held)} if held else {}
    assert Refused(message.format(GPU)) == decide(Need(HOLDER, count), inventory, holdings)


def test_unhealthy_device_of_an_init_container_is_not_reused() -> None:
    devices = {"a": Device("a", is_healthy=False), "b": Device("b")}
    decision = decide(Need(HOLDER, 1), {GPU: Resource(devices)}, {}, reusable=frozenset({"a"}))
    assert {"b"} == picked(decision)


def wants(count: int) -> dict[str, k8s.ResourceRequirements]:
    return {"resources": k8s.ResourceRequirements(limits={GPU: str(count), "cpu": "1"} if count else {})}


def given_to(one: k8s.Pod, inventory: dict[str, Resource], holdings: Holdings) -> tuple[Holdings, list[str]]:
    """The holdings after as many of the pod's needs were met as can be, and the refusals."""
    refusals = []
    for need in needs(one, inventory):
        own = reusable(one, need.holder, holdings)
        match decide(need, inventory, holdings, reusable=own):
            case Open() as choice:
                nodes = inventory[need.holder.resource].devices
                held = Held({name: nodes[name].numa_nodes for name in chosen(choice)})
                holdings = {**holdings, need.holder: held}
            case Refused(message):
                refusals.append(message)
            case Met():
                pass
    return holdings, refusals


def test_regular_containers_take_over_the_devices_of_ordinary_init_containers() -> None:
    one = pod(
        container("a", **wants(1)),
        container("b", **wants(1)),
        init=(container("i", **wants(1)), container("j", **wants(2))),
    )
    holdings, refusals = given_to(one, {GPU: Resource(on(0, "x", "y"))}, {})
    of = {holder.container: set(held.devices) for holder, held in holdings.items()}
    assert ([], {"x", "y"}) == (refusals, of["j"])
    assert of["i"] < of["j"]
    assert of["a"] | of["b"] == of["j"]
    assert not of["a"] & of["b"]


def test_sidecars_keep_the_devices_that_they_took_over() -> None:
    init = (container("i", **wants(3)), sidecar("s", **wants(1)), sidecar("t", **wants(2)))
    one = pod(container("a", **wants(1)), container("b", **wants(2)), init=init)
    holdings, refusals = given_to(one, {GPU: Resource(on(0, *range(6)))}, {})
    of = {holder.container: set(held.devices) for holder, held in holdings.items()}
    assert [] == refusals
    assert of["s"] | of["t"] == of["i"]
    assert 6 == len(of["s"] | of["t"] | of["a"] | of["b"]) == sum(len(of[name]) for name in "stab")


def test_only_limits_of_device_resources_count() -> None:
    requested = k8s.ResourceRequirements(requests={GPU: "1"}, limits={"example.com/other": "1", "memory": "1Gi"})
    assert [] == list(needs(pod(container("a", resources=requested), container("b")), {GPU}))
    with pytest.raises(ValueError, match=r".+"):
        list(needs(pod(container("a", resources=k8s.ResourceRequirements(limits={GPU: "many"}))), {GPU}))


# ---- properties ----

COUNTS = st.integers(0, 3)
CONTAINERS = st.tuples(st.lists(st.tuples(st.booleans(), COUNTS), max_size=3), st.lists(COUNTS, min_size=1, max_size=3))
STEPS = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(["give", "release"])), max_size=12)
HEALTH = st.lists(st.tuples(st.booleans(), st.frozensets(st.integers(0, 1))), max_size=8)


def drawn_pod(uid: str, shape: tuple[list[tuple[bool, int]], list[int]]) -> k8s.Pod:
    inits, regular = shape
    init = tuple((sidecar if stays else container)(f"i{n}", **wants(c)) for n, (stays, c) in enumerate(inits))
    return pod(*(container(f"c{n}", **wants(c)) for n, c in enumerate(regular)), init=init, meta={"uid": uid})


@settings(max_examples=examples(200))
@given(shapes=st.fixed_dictionaries(dict.fromkeys("uvw", CONTAINERS)), steps=STEPS, health=HEALTH)
def test_device_has_one_pod_and_one_container_that_keeps_it(
    shapes: dict[str, tuple[list[tuple[bool, int]], list[int]]],
    steps: list[tuple[str, str]],
    health: list[tuple[bool, frozenset[int]]],
) -> None:
    devices = {str(n): Device(str(n), ok, nodes) for n, (ok, nodes) in enumerate(health)}
    inventory = {GPU: Resource(devices)}
    pods = {uid: drawn_pod(uid, shape) for uid, shape in shapes.items()}
    holdings: Holdings = {}
    for uid, step in steps:
        if step == "release":
            before = holdings
            holdings = released(holdings, {uid})
            gone = {name for holder, held in before.items() if holder.pod_uid == uid for name in held.devices}
            assert in_use(holdings, GPU) == in_use(before, GPU) - gone
        else:
            holdings, _ = given_to(pods[uid], inventory, holdings)
            again, _ = given_to(pods[uid], inventory, holdings)
            assert again.items() >= holdings.items()
        assert in_use(holdings, GPU) <= {name for name, one in devices.items() if one.is_healthy}
        for name in in_use(holdings, GPU):
            owners = [holder for holder, held in holdings.items() if name in held.devices]
            assert 1 == len({holder.pod_uid for holder in owners})
            ordinary = {f"i{n}" for n, (stays, _) in enumerate(shapes[owners[0].pod_uid][0]) if not stays}
            assert len([holder for holder in owners if holder.container not in ordinary]) <= 1
    assert {} == released(holdings, set("uvw"))


@settings(max_examples=examples(200))
@given(
    health=HEALTH,
    count=st.integers(1, 8),
    nodes=st.frozensets(st.integers(0, 2)),
    reuse=st.frozensets(st.integers(0, 7)),
    advice=st.lists(st.integers(0, 9).map(str)),
)
def test_choice_has_the_right_number_of_free_devices_whatever_the_advice(
    health: list[tuple[bool, frozenset[int]]],
    count: int,
    nodes: frozenset[int],
    reuse: frozenset[int],
    advice: list[str],
) -> None:
    devices = {str(n): Device(str(n), ok, close) for n, (ok, close) in enumerate(health)}
    decision = asked(count, devices, nodes=tuple(nodes), reuse=tuple(reuse))
    healthy = {name for name, one in devices.items() if one.is_healthy}
    if isinstance(decision, Open):
        found = chosen(decision, advice)
        assert count == len(found)
        assert found <= healthy
        assert decision.question is None or set(decision.question.must) <= found <= set(decision.question.available)
    else:
        assert isinstance(decision, Refused)
        assert len(healthy) < count
