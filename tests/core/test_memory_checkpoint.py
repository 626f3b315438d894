"""Upstream's file of the memory that containers have, and the state at the start that is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.machines import GIB
from trikubelet.core.numa_memory.checkpoint import MemoryCheckpoint, read, written
from trikubelet.core.numa_memory.start import Kept, Migrated, start_none, start_static
from trikubelet.core.numa_memory.state import Block, MemoryState
from trikubelet.core.numa_memory.supply import Amount, Supply

SMALL: Supply = {0: {"memory": Amount(2048, 512, 1536)}}
HELD = MemoryState({"pod": {"container1": (Block((0,), "memory", 512),)}})
FIELDS = {
    "policyName": "static",
    "machineState": {
        "0": {
            "numberOfAssignments": 0,
            "memoryMap": {
                "memory": {"total": 2048, "systemReserved": 512, "allocatable": 1536, "reserved": 512, "free": 1024}
            },
            "cells": [],
        }
    },
    "entries": {"pod": {"container1": [{"numaAffinity": [0], "type": "memory", "size": 512}]}},
    "checksum": 4215593881,
}


def test_file_of_upstream_is_read() -> None:
    assert MemoryCheckpoint("static", HELD) == read(json.dumps(FIELDS).encode())


def test_data_counts_before_the_fields_of_the_earlier_version() -> None:
    fields = json.loads(written("Static", SMALL, HELD))
    fields["entries"] = {}
    assert MemoryCheckpoint("Static", HELD) == read(json.dumps(fields).encode())


def test_file_has_the_fields_of_both_versions() -> None:
    found = json.loads(written("Static", SMALL, HELD))
    assert ["policyName", "machineState", "entries", "checksum", "data", "dataChecksum"] == list(found)
    table = {"total": 2048, "systemReserved": 512, "allocatable": 1536, "reserved": 512, "free": 1024}
    assert {"0": {"numberOfAssignments": 1, "memoryMap": {"memory": table}, "cells": [0]}} == found["machineState"]
    assert FIELDS["entries"] == found["entries"]
    assert {name: found[name] for name in ("policyName", "machineState", "entries")} == json.loads(found["data"])


def test_file_without_a_policy_has_no_machine() -> None:
    found = json.loads(written("None", {}, MemoryState()))
    assert ["policyName", "checksum", "data", "dataChecksum"] == list(found)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        json.dumps({**FIELDS, "checksum": 1}).encode(),
        json.dumps({**FIELDS, "data": "{}", "dataChecksum": 1}).encode(),
        b'{"policyName":"Static","entries":{"u":{"c":[{"numaAffinity":[],"type":"memory","size":1}]}}}',
        b'{"policyName":"Static","entries":{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":-1}]}}}',
    ],
)
def test_damaged_file_raises_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(content)


NODES: Supply = {
    node: {"memory": Amount(4 * GIB, 0, 4 * GIB), "hugepages-1Gi": Amount(GIB, 0, GIB)} for node in range(3)
}
BLOCKS = st.builds(
    Block,
    st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]),
    st.sampled_from(["memory", "hugepages-1Gi"]),
    st.integers(0, 5 * GIB),
)
STATES = st.builds(
    MemoryState,
    st.dictionaries(
        st.sampled_from("uvw"),
        st.dictionaries(st.sampled_from("ab"), st.lists(BLOCKS, max_size=2).map(tuple), min_size=1),
        max_size=3,
    ),
)


@given(STATES)
def test_everything_that_is_written_is_read_again(state: MemoryState) -> None:
    content = written("Static", NODES, state)
    assert MemoryCheckpoint("Static", state) == read(content)
    fields = json.loads(content)
    del fields["data"], fields["dataChecksum"]
    assert MemoryCheckpoint("Static", state) == read(json.dumps(fields).encode())


@given(STATES)
def test_every_file_leads_to_a_state_that_is_kept_next_time(state: MemoryState) -> None:
    found = start_static(NODES, MemoryCheckpoint("Static", state)).state
    assert found.blocks.items() <= state.blocks.items()
    assert Kept(found) == start_static(NODES, MemoryCheckpoint("Static", found))


def held(gib: float, *nodes: int, resource: str = "memory") -> MemoryState:
    return MemoryState({"u": {"c": (Block(nodes, resource, int(gib * GIB)),)}})


@pytest.mark.parametrize("state", [MemoryState(), held(4, 0), held(12, 0, 1, 2), held(4.03, 0)])
def test_fitting_state_is_kept_also_if_the_machine_lost_one_percent(state: MemoryState) -> None:
    assert Kept(state) == start_static(NODES, MemoryCheckpoint("Static", state))
    assert Kept(MemoryState()) == start_static(NODES, None)


START = "[memorymanager] (pod: u, container: c) the memory assignment uses"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (held(1, 3), f"{START} the NUMA that does not exist"),
        (held(1, 0, resource="hugepages-2Mi"), f"{START} memory resource that does not exist"),
        (
            held(4.1, 0),
            "[memorymanager] (pod: u) the memory assignment exceeds the memory of NUMA node 0 by 107374182 bytes",
        ),
        (
            MemoryState({"a": {"c": (Block((0,), "memory", 1),)}, "u": {"c": (Block((0, 1), "memory", 1),)}}),
            f"{START} NUMA nodes [0, 1], which another pod uses in another group",
        ),
        (
            MemoryState({"u": {"c": (Block((0, 1), "memory", 1), Block((1,), "memory", 1))}}),
            "[memorymanager] (pod: u) the memory assignment uses a NUMA node in two groups",
        ),
    ],
)
def test_pod_with_wrong_blocks_loses_them_and_is_named(state: MemoryState, reason: str) -> None:
    found = start_static(NODES, MemoryCheckpoint("Static", state))
    assert isinstance(found, Migrated)
    assert ("u",) == found.drained
    assert "u" not in found.state.blocks
    assert found.reasons[0].startswith(reason)


def test_other_policy_migrates() -> None:
    reason = '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"'
    found = start_static(NODES, MemoryCheckpoint("None", MemoryState()))
    assert Migrated(MemoryState(), (reason,), ()) == found
    reason = '[memorymanager] configured policy "None" differs from state checkpoint policy "Static"'
    assert Migrated(MemoryState(), (reason,), ("u",)) == start_none(MemoryCheckpoint("Static", held(1, 0)))
    assert Kept(MemoryState()) == start_none(None) == start_none(MemoryCheckpoint("None", MemoryState()))
