"""Upstream's file of the CPUs that containers have, byte for byte as its kubelet verifies it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.cpus.checkpoint import CpuCheckpoint, read, written
from trikubelet.core.cpus.state import CpuState
from trikubelet.core.topology.cpu_list import parse_list

ENTRIES = {"pod": {"container1": "4-6", "container2": "1-3"}}
ASSIGNED = {"pod": {"container1": parse_list("4-6"), "container2": parse_list("1-3")}}


def file(**fields: object) -> bytes:
    return json.dumps({"policyName": "none", "defaultCpuSet": "", **fields}).encode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"checksum": 1353318690}, CpuCheckpoint("none", CpuState())),
        ({"defaultCpuSet": "4-6", "checksum": 354655845}, CpuCheckpoint("none", CpuState(parse_list("4-6")))),
        (
            {"defaultCpuSet": "1-3", "entries": ENTRIES, "checksum": 3610638499},
            CpuCheckpoint("none", CpuState(parse_list("1-3"), ASSIGNED)),
        ),
        (
            {
                "defaultCpuSet": "1-3",
                "entries": ENTRIES,
                "podEntries": {"pod": {"cpuSet": "4-6"}},
                "checksum": 2649431787,
            },
            CpuCheckpoint("none", CpuState(parse_list("1-3"), ASSIGNED, {"pod": parse_list("4-6")})),
        ),
        (
            {"policyName": "static", "defaultCpuSet": "0-63", "checksum": 1058907510},
            CpuCheckpoint("static", CpuState(parse_list("0-63"))),
        ),
        (
            {"policyName": "static", "defaultCpuSet": "0-27", "entries": None, "checksum": 273146150},
            CpuCheckpoint("static", CpuState(parse_list("0-27"))),
        ),
        ({"defaultCpuSet": "3", "checksum": 0}, CpuCheckpoint("none", CpuState(parse_list("3")))),
        (
            {"data": '{"policyName":"none","defaultCPUSet":"4-6"}', "dataChecksum": 657950972, "checksum": 7},
            CpuCheckpoint("none", CpuState(parse_list("4-6"))),
        ),
        (
            {
                "data": '{"policyName":"static","defaultCPUSet":"7-9","entries":'
                '{"pod":{"container1":"4-6","container2":"1-3"}}}',
                "dataChecksum": 1420829534,
            },
            CpuCheckpoint("static", CpuState(parse_list("7-9"), ASSIGNED)),
        ),
    ],
)
def test_file_of_each_version_of_upstream_is_read(fields: dict[str, object], expected: CpuCheckpoint) -> None:
    assert expected == read(file(**fields))


def test_file_has_the_fields_and_checksums_of_both_versions() -> None:
    content = written(CpuCheckpoint("none", CpuState(parse_list("1-3"), ASSIGNED, {"pod": parse_list("4-6")})))
    data = (
        '{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"1-3"}},'
        '"podEntries":{"pod":{"cpuSet":"4-6"}}}'
    )
    found = json.loads(content)
    assert ["policyName", "defaultCpuSet", "entries", "checksum", "data", "dataChecksum"] == list(found)
    assert (ENTRIES, 3610638499, data) == (found["entries"], found["checksum"], found["data"])


def test_file_without_assignments_has_no_entries() -> None:
    content = written(CpuCheckpoint("static", CpuState(parse_list("0-63"))))
    start = (
        b'{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510,'
        b'"data":"{\\"policyName\\":\\"static\\",\\"defaultCpuSet\\":\\"0-63\\"}","dataChecksum":'
    )
    assert content.startswith(start)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"[]",
        file(checksum=1),
        file(defaultCpuSet="x", checksum=0),
        file(entries={"id of a container": "1-3"}, checksum=0),  # before v1.18
        file(entries={"pod": {"a": "3-1"}}, checksum=0),
        file(podEntries={"pod": "1"}, checksum=0),
        file(data='{"policyName":"none"}', dataChecksum=1),
    ],
)
def test_damaged_file_raises_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(content)


NAMES = st.text("ab-ü<", min_size=1, max_size=3)
CPUS = st.frozensets(st.integers(0, 20), max_size=5)
STATES = st.builds(
    CpuState,
    CPUS,
    st.dictionaries(NAMES, st.dictionaries(NAMES, CPUS, min_size=1, max_size=3), max_size=3),
    st.dictionaries(NAMES, CPUS, max_size=2),
)


@given(st.builds(CpuCheckpoint, st.sampled_from(["none", "static"]), STATES))
def test_everything_that_is_written_is_read_again(checkpoint: CpuCheckpoint) -> None:
    assert checkpoint == read(written(checkpoint))


@given(STATES)
def test_fields_of_the_earlier_version_are_read_alone(state: CpuState) -> None:
    fields = json.loads(written(CpuCheckpoint("static", state)))
    del fields["data"], fields["dataChecksum"]
    assert CpuCheckpoint("static", CpuState(state.shared, state.assigned)) == read(json.dumps(fields).encode())
