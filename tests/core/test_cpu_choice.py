"""The choice of free CPUs, by upstream's own cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.machines import KNOWN, METEOR_LAKE, OF_UPSTREAM
from trikubelet.core.cpus.distributed import distributed
from trikubelet.core.cpus.layout import Level, layout
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.packed import packed
from trikubelet.core.topology.cpu_list import list_text, parse_list

if TYPE_CHECKING:
    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions

# METEOR_LAKE has cores with one and with two threads.
LAYOUTS = {name: layout(found) for name, found in OF_UPSTREAM.items()} | {"odd": layout(METEOR_LAKE)}


def available(name: str, text: str) -> frozenset[int]:
    """``+40`` at the end stands for the siblings of the CPUs before it."""
    if text == "all":
        return LAYOUTS[name].cpus
    own, plus, siblings = text.partition("+")
    return parse_list(own) | ({cpu + int(siblings) for cpu in parse_list(own)} if plus else set())


def text(name: str, cpus: str) -> str:
    return list_text(available(name, cpus))


@pytest.mark.parametrize(
    ("machine", "free", "count", "cpus"),
    [
        ("A", "all", 1, "0"),
        ("A", "all", 2, "0,4"),
        ("A", "all", 3, "0,1,4"),
        ("A", "all", 5, "0-2,4,5"),
        ("A", "all", 8, "0-7"),
        ("A", "1-3,5-7", 2, "1,5"),
        ("A", "1,2,3,5,6", 1, "3"),
        ("A", "1,2,3,5,6", 3, "1,3,5"),
        ("A", "0,1,2,3,6", 2, "2,6"),
        ("B", "all", 2, "0,6"),
        ("B", "all", 6, "0,2,4,6,8,10"),
        ("B", "all", 7, "0-2,4,6,8,10"),
        ("B", "all", 8, "0-2,4,6-8,10"),
        ("B", "1-5,7-11", 1, "2"),
        ("B", "1-5,7-11", 6, "1,3,5,7,9,11"),
        ("B", "1-5,7-11", 8, "1-3,5,7-9,11"),
        ("A", "0-3", 2, "0,1"),
        ("B", "1-11", 5, "2,4,6,8,10"),
        ("C", "all", 4, "0-3"),
        ("C", "all", 5, "0-4"),
        ("C", "0,1,3,6,7", 2, "6,7"),
        ("C", "0,1,3,6,7", 4, "0,1,6,7"),
        ("C", "1-7", 4, "4-7"),
        ("D", "all", 20, "0-9,40-49"),
        ("D", "all", 21, "0-10,40-49"),
        ("D", "all", 40, "0-19,40-59"),
        ("D", "all", 60, "0-29,40-69"),
        ("D", "all", 64, "0-31,40-71"),
        ("D", "10-39,50-79", 20, "10-19,50-59"),
        ("D", "1-39,41-79", 18, "1-9,41-49"),
        ("D", "1-39,41-79", 20, "10-19,50-59"),
        ("D", "1-39,41-79", 60, "10-39,50-79"),
        ("B", "all", 12, "0-11"),
        ("B", "2-5,8-11", 4, "2,4,8,10"),
        ("A", "1-3,5-7", 1, "1"),
    ],
)
def test_packed_choice_breaks_as_few_parts_as_possible(machine: str, free: str, count: int, cpus: str) -> None:
    assert text(machine, cpus) == list_text(packed(LAYOUTS[machine], available(machine, free), count))


@pytest.mark.parametrize(
    ("machine", "free", "count", "cpus"),
    [
        ("U1", "all", 5, "0-4"),
        ("U1", "1-15", 3, "1-3"),
        ("U1", "1-15", 4, "4-7"),
        ("U1", "1-15", 6, "1,2,4-7"),
        ("U1", "1-15", 10, "1,2,4-11"),
        ("U2", "2-15", 6, "2-7"),
        ("U2", "8-15", 4, "8-11"),
        ("U2", "all", 12, "0-11"),
        ("U3", "3,4-8,12", 2, "4,5"),
        ("U3", "3-8,12", 1, "8"),
        ("U3", "1-15", 7, "1-7"),
        ("U4", "2-7,10-15", 6, "4-6,12-14"),
        ("U4", "1-7,9-15", 10, "1,4-7,9,12-15"),
        ("U4", "1-7,9-15", 5, "1-3,9,10"),
        ("U5", "2-63,66-127", 3, "2,3,66"),
        ("U5", "2-63,66-127", 8, "4-7,68-71"),
        ("U5", "2-63,65-127", 5, "2,3,65-67"),
        ("U6", "4-31", 9, "4,8-15"),
        ("U6", "4-31", 5, "8-12"),
        ("U6", "0-3,8-11,16-19,24-27", 8, "0-3,8-11"),
        ("U8", "2-119,122-239", 6, "2-4,122-124"),
        ("U8", "2-119,121-239", 5, "2,3,121-123"),
        ("U8", "2-119,121-239", 4, "60,61,180,181"),
        ("U8", "2-119,121-127", 4, "2,3,122,123"),
    ],
)
def test_choice_prefers_whole_and_single_uncore_caches(machine: str, free: str, count: int, cpus: str) -> None:
    options = frozenset({CpuOption.PREFER_UNCORE})
    assert text(machine, cpus) == list_text(packed(LAYOUTS[machine], available(machine, free), count, options))


@pytest.mark.parametrize(
    ("machine", "free", "count", "cpus"),
    [
        ("A", "all", 3, "0-2"),
        ("A", "1-7", 5, "1-5"),
        ("B", "all", 3, "0,2,4"),
        ("C", "all", 2, "0,1"),
        ("B", "all", 8, "0-4,6,8,10"),
        ("B", "1-11", 4, "2,4,6,8"),
        ("D", "all", 8, "0-7"),
        ("D", "all", 22, "0-11,40-49"),
    ],
)
def test_choice_across_cores_takes_a_thread_of_each(machine: str, free: str, count: int, cpus: str) -> None:
    options = frozenset({CpuOption.ACROSS_CORES})
    assert text(machine, cpus) == list_text(packed(LAYOUTS[machine], available(machine, free), count, options))


CORES = CpuOption.FULL_CORES
OF_E = "0,128,30,31,158,159,43-47,171-175,62,63,190,191,75-79,203-207,94,96,222,223,101-111,229-239,126,127,254,255"


@pytest.mark.parametrize(
    ("machine", "free", "count", "options", "cpus"),
    [
        ("B", "all", 8, set(), "0-3,6-9"),
        ("B", "all", 8, {CORES}, "0-3,6-9"),
        ("B", "all", 7, set(), "0-3,6-8"),
        ("B", "all", 7, {CORES}, "0-2,4,6,8,10"),
        ("B", "1-5,7-11", 1, set(), "1"),
        ("B", "1-5,7-11", 1, {CORES}, "2"),
        ("D", "all", 10, {CORES}, "0-4,40-44"),
        ("D", "all", 21, set(), "0-5,10-14,40-44,50-54"),
        ("D", "all", 22, {CORES}, "0-5,10-14,40-45,50-54"),
        ("D", "all", 26, set(), "0-6,10-16,40-45,50-55"),
        ("D", "all", 26, {CORES}, "0-6,10-15,40-46,50-55"),
        ("D", "all", 30, {CORES}, "0-7,10-16,40-47,50-56"),
        ("D", "all", 48, set(), "0-7,10-17,20-27,40-47,50-57,60-67"),
        ("D", "all", 62, set(), "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        ("D", "all", 62, {CORES}, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
        ("D", "all", 64, set(), "0-7,10-17,20-27,30-37+40"),
        ("D", "1-29,32-39,41-69,72-79", 48, set(), "1-8,10-17,20-27,41-48,50-57,60-67"),
        ("D", "2-29,31-39,42-69,71-79", 48, set(), "10-17,20-27,31-38+40"),
        ("D", "0-2,10-12,20-22,30-32,40,41,50,51,60,61,70,71", 16, set(), "0,1,10,11,20,21,30,31+40"),
        ("D", "0-3,10-13,20-23,30-36+40", 34, set(), "0-3,10-13,20-23,30-34+40"),
        (
            "D",
            "0-8,10-18,20-39,40-48,50-58,60-79",
            62,
            set(),
            "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77",
        ),
        (
            "D",
            "0-8,10-18,20-39,40-48,50-58,60-79",
            62,
            {CORES},
            "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77",
        ),
        ("D", "1-39,41-79", 24, {CORES}, "10-15,20-25,50-55,60-65"),
        ("D", "0-5,10-15,20-25,30-35+40", 20, {CORES}, "0-4,10-14,40-44,50-54"),
        ("E", OF_E, 28, set(), "43-47,75-79,96,101-105,171-174,203-206,229-232"),
        ("D", "0-15,20-35,40-55,60-75", 24, {CORES}, "0-5,20-25,40-45,60-65"),
        ("D", "0-15,20-35,40-55,60-75", 24, {CORES, CpuOption.ALIGN_BY_SOCKET}, "0-5,10-15,40-45,50-55"),
        (
            "E",
            "0-62,64-126,128-190,192-254",
            120,
            {CpuOption.ALIGN_BY_SOCKET},
            "0-14,16-30,32-46,48-62,128-142,144-158,160-174,176-190",
        ),
    ],
)
def test_distributed_choice_leaves_the_nodes_even(
    machine: str, free: str, count: int, options: set[CpuOption], cpus: str
) -> None:
    found = distributed(LAYOUTS[machine], available(machine, free), count, frozenset(options))
    assert text(machine, cpus) == list_text(found)


@pytest.mark.parametrize(
    ("count", "cpus"),
    [(30, "0-3,10-13,20-23,30-33,40-43,50-53,60-62,70-72"), (10, "0,1,10,11,20,30,40,50,60,70")],
)
def test_distributed_choice_uses_as_many_nodes_as_the_topology_manager_chose(count: int, cpus: str) -> None:
    found = distributed(LAYOUTS["D"], LAYOUTS["D"].cpus, count, frozenset(), nodes_wanted=4)
    assert text("D", cpus) == list_text(found)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Layout, frozenset[int], int]:
    """A machine, a part of its CPUs that is free, and a number of CPUs that it can give."""
    shown = LAYOUTS[draw(st.sampled_from(["A", "B", "C", "U2", "U3", "U4", "odd"]))]
    free = draw(st.frozensets(st.sampled_from(sorted(shown.cpus)), min_size=1))
    return shown, free, draw(st.integers(0, len(free)))


OPTIONS = st.sampled_from(
    [frozenset(), *(frozenset({one}) for one in CpuOption), frozenset({CORES, CpuOption.PREFER_UNCORE})]
)


@given(cases(), OPTIONS)
def test_every_choice_is_a_part_of_the_free_cpus_of_the_right_size(
    case: tuple[Layout, frozenset[int], int], options: CpuOptions
) -> None:
    shown, free, count = case
    for found in (packed(shown, free, count, options), distributed(shown, free, count, options)):
        assert count == len(found)
        assert found <= free


@given(cases(), st.sampled_from([frozenset({CORES}), frozenset({CORES, CpuOption.ACROSS_NUMA})]))
def test_choice_of_as_many_cpus_as_whole_cores_have_breaks_no_core(
    case: tuple[Layout, frozenset[int], int], options: CpuOptions
) -> None:
    shown, free, count = case
    assume(count % shown.threads_per_core == 0 and shown is not LAYOUTS["odd"])
    assume(count <= len(shown.whole(Level.CORE, free)))
    for found in (packed(shown, free, count, options), distributed(shown, free, count, options)):
        assert found == shown.whole(Level.CORE, found)


def test_remainder_on_sixteen_nodes_needs_no_search_of_all_subsets() -> None:
    """Three to the power of sixteen combinations of nodes and subsets would take minutes."""
    shown = layout(KNOWN["AMD EPYC 7763, two sockets, a node for each cache"])
    assert 131 == len(distributed(shown, shown.cpus, 131, frozenset()))
