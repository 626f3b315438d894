"""The merge of hints and the topology manager's policies, by upstream's own cases and compared with the definition."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from trikubelet.core.topology.hints import IMPOSSIBLE, NO_PREFERENCE, Hint, Hints, mask_of, node_sets, nodes_of
from trikubelet.core.topology.merge import NODES_MAX, Nodes, best_mask, closest_first, enough_nodes, merge
from trikubelet.core.topology.options import TopologyOptions, check_nodes, topology_options
from trikubelet.core.topology.policy import REFUSED, Affinity, TopologyPolicy, affinity
from trikubelet.model.machine import NumaNode

ROWS = [(10, 11, 12, 12), (11, 10, 12, 12), (12, 12, 10, 11), (12, 12, 11, 10)]
CLOSEST = closest_first({node: NumaNode(distances=dict(enumerate(row))) for node, row in enumerate(ROWS)})
PLAIN = Nodes((0, 1, 2, 3))


def nodes(count: int) -> Nodes:
    return Nodes(tuple(range(count)))


def hints(text: str) -> Hints:
    """``01+ 2-``: nodes 0 and 1 preferred, node 2 not; ``n`` for any nodes."""
    return tuple(
        Hint(None if one[:-1] == "n" else mask_of(map(int, one[:-1])), is_preferred=one[-1] == "+")
        for one in text.split()
    )


def text(hint: Hint, among: Nodes) -> str:
    found = "n" if hint.mask is None else "all" if hint.mask == among.all else "".join(map(str, nodes_of(hint.mask)))
    return f"{found}{'+' if hint.is_preferred else '-'}"


@pytest.mark.parametrize(
    ("count", "answers", "expected"),
    [
        (2, ("0+", "0+"), "0+"),
        (2, ("0+ 1+", "1+"), "1+"),
        (2, ("0+ 1+", "0+ 01-"), "0+"),
        (2, ("1+ 01-", "0+ 1+ 01-"), "1+"),
        (2, ("n+", "0+"), "0+"),
        (4, ("01+ 02+", "01+ 02+"), "01+"),
        (2, (), "all+"),
        (2, ("n-",), "all-"),
        (2, ("n+",), "all+"),
        (2, ("0+", "1+"), "all-"),
        (2, ("0+", "0-"), "0-"),
        (2, ("0+", "01+"), "0-"),
        (2, ("0+ 1+", "01-"), "0-"),
        (2, ("0+", "n-"), "0-"),
        (3, ("01+", "0+ 1+ 01-"), "01-"),
        (4, ("0123- 01-", "01-"), "01-"),
        (4, ("0123- 01-", "03-"), "03-"),
        (4, ("0123- 01-", "12-"), "12-"),
        (4, ("0123- 01-", "23-"), "23-"),
        (4, ("0123- 01-", "12- 23-"), "12-"),
        (4, ("0123- 01-", "123- 12- 13- 23-"), "12-"),
        (4, ("0123- 01-", "0-"), "0-"),
        (4, ("0123- 01-", "0123-"), "all-"),
        (4, ("02+ 23+", "02+ 23+"), "02+"),
        (4, ("03+ 12+ 23+",), "12+"),
        (4, ("013- 012-",), "012-"),
        (3, ("012-", "01- 12-"), "01-"),
        # A preferred hint for any nodes next to others, which no resource gives today.
        (2, ("n+ 1+", "n+"), "1+"),
    ],
)
def test_merge_of_upstreams_cases(count: int, answers: tuple[str, ...], expected: str) -> None:
    among = nodes(count)
    assert expected == text(merge([hints(one) for one in answers], among), among)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("0123- 01-", "12- 23-"), "23-"),
        (("0123- 01-", "123- 12- 13- 23-"), "23-"),
        (("02+ 23+", "02+ 23+"), "23+"),
        (("03+ 12+ 23+",), "23+"),
        (("0+", "0+"), "0+"),
    ],
)
def test_closest_nodes_win_among_equally_many(answers: tuple[str, ...], expected: str) -> None:
    assert expected == text(merge([hints(one) for one in answers], CLOSEST), CLOSEST)


def test_fewer_nodes_win_before_closer_ones() -> None:
    near = {frozenset({0, 2}): 11}
    rows = {
        one: {other: 10 if one == other else near.get(frozenset({one, other}), 20) for other in range(8)}
        for one in range(8)
    }
    among = Nodes(tuple(range(8)), rows)
    assert "02+" == text(merge([hints("04+ 02+")] * 2, among), among)
    assert "4+" == text(merge([hints("4+ 02+")] * 2, among), among)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [(("01- 012-",), 2), (("01- 012-", "012-"), 3), (("01- 012-", "012- 0123-"), 3), (("n-",), 0)],
)
def test_narrowest_masks_tell_how_many_nodes_are_enough(answers: tuple[str, ...], expected: int) -> None:
    assert expected == enough_nodes([hints(one) for one in answers])


@pytest.mark.parametrize(
    ("enough", "one", "other", "expected"),
    [
        (1, "12", "01", "01"),
        (2, "01", "0", "01"),
        (2, "0", "012", "0"),
        (3, "0", "12", "12"),
        (4, "01", "123", "123"),
        (4, "123", "012", "012"),
    ],
)
def test_best_of_two_masks(enough: int, one: str, other: str, expected: str) -> None:
    masks = [mask_of(map(int, digits)) for digits in (one, other)]
    assert mask_of(map(int, expected)) == best_mask(masks, enough, PLAIN)


MASKS = st.none() | st.integers(1, 15)
HINTS = st.lists(st.builds(Hint, MASKS, st.booleans()), min_size=1, max_size=5).map(tuple)


def as_defined(answers: list[Hints], among: Nodes) -> Hint:
    """Every combination of one hint of each resource."""
    found = set()
    for combination in product(*answers):
        masks = {hint.mask for hint in combination if hint.mask is not None}
        mask = among.all
        for one in masks:
            mask &= one
        if mask:
            found.add((mask, all(hint.is_preferred for hint in combination) and len(masks) <= 1))
    preferred = [mask for mask, is_preferred in found if is_preferred]
    if preferred:
        return Hint(min(preferred, key=lambda mask: (mask.bit_count(), *among.rank(mask))), True)
    return Hint(best_mask([mask for mask, _ in found], enough_nodes(answers), among), False)


@settings(max_examples=examples(2000))
@given(st.lists(HINTS, max_size=4), st.sampled_from([PLAIN, CLOSEST]))
def test_merge_equals_its_definition(answers: list[Hints], among: Nodes) -> None:
    assert as_defined(answers, among) == merge(answers, among)


def test_ids_of_nodes_may_have_gaps() -> None:
    among = Nodes((0, 8, 255))
    answers = [
        (Hint(mask_of({0, 8}), False), Hint(mask_of({8, 255}), False)),
        (Hint(mask_of({255}), False),),
    ]
    assert Hint(mask_of({255}), False) == merge(answers, among)


def test_hints_without_agreement_on_a_huge_machine_are_not_aligned() -> None:
    among = nodes(NODES_MAX + 1)
    assert Hint(among.all, False) == merge([hints("0+"), hints("01+")], among)
    assert Hint(1, True) == merge([hints("0+"), hints("0+ 1+")], among)


def test_number_of_masks_is_bounded() -> None:
    assert [(0,), (8,), (0, 8)] == list(node_sets([8, 0]))
    assert 16_384 == sum(1 for _ in node_sets(range(34)))
    assert 8 == len(next(node_sets(range(16), 8)))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((), "+"),
        (("n-",), "-"),
        (("0+", "1+"), "-"),
        (("0+", "0-"), "-"),
        (("01+", "0+ 1+ 01-"), "-"),
        (("0+ 1+ 01-", "n+"), "0+"),
        (("0+ 1+ 01-", "1+ 01-"), "1+"),
    ],
)
def test_single_numa_node_takes_one_preferred_node_or_refuses(answers: tuple[str, ...], expected: str) -> None:
    decision = affinity(TopologyPolicy.SINGLE_NUMA_NODE, [hints(one) for one in answers], nodes(2))
    if expected == "-":
        assert decision == REFUSED
    else:
        assert decision == Affinity(frozenset(map(int, expected[:-1])))


def test_single_numa_node_on_a_machine_of_one_node_has_no_affinity() -> None:
    assert Affinity() == affinity(TopologyPolicy.SINGLE_NUMA_NODE, [hints("0+")], nodes(1))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (TopologyPolicy.NONE, Affinity(is_preferred=False)),
        (TopologyPolicy.BEST_EFFORT, Affinity(frozenset({0}), is_preferred=False)),
        (TopologyPolicy.RESTRICTED, REFUSED),
        (TopologyPolicy.SINGLE_NUMA_NODE, REFUSED),
    ],
)
def test_policy_decides_about_resources_of_different_nodes(policy: TopologyPolicy, expected: object) -> None:
    assert expected == affinity(policy, [hints("0+"), hints("01+"), None], nodes(3))


def test_missing_and_empty_answers_are_no_preference_and_impossible() -> None:
    assert Affinity(frozenset({0, 1})) == affinity(TopologyPolicy.RESTRICTED, [None], nodes(2))
    assert REFUSED == affinity(TopologyPolicy.RESTRICTED, [()], nodes(2))
    assert ("n+", "n-") == (text(NO_PREFERENCE[0], PLAIN), text(IMPOSSIBLE[0], PLAIN))


def test_options_are_read() -> None:
    assert TopologyOptions() == topology_options({})
    given_options = {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "16"}
    assert TopologyOptions(prefers_closest=True, nodes_max=16) == topology_options(given_options)
    check_nodes(TopologyOptions(), 8)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", "1", 'unknown Topology Manager Policy option: "x"'),
        ("max-allowable-numa-nodes", "7", 'the minimum value of "max-allowable-numa-nodes" should not be less than 8'),
        ("max-allowable-numa-nodes", "x", "unable to convert policy option to integer"),
        ("prefer-closest-numa-nodes", "x", 'bad value for option "prefer-closest-numa-nodes"'),
    ],
)
def test_wrong_option_raises_upstreams_text(name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"option|minimum") as raised:
        topology_options({name: value})
    assert str(raised.value).startswith(message)


def test_machine_with_too_many_nodes_raises_upstreams_text() -> None:
    with pytest.raises(ValueError, match=r"^unsupported on machines with more than 8 NUMA Nodes$"):
        check_nodes(TopologyOptions(), 9)
