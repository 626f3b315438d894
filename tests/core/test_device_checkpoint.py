"""Upstream's file of the devices that containers hold, byte for byte as its kubelet verifies it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.devices.checkpoint import read, written
from trikubelet.model.devices import Device, Held, Holder, Resource

GPU = "nvidia.com/gpu"
UPSTREAMS = (
    b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":'
    b'{"nvidia.com/gpu":["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]}},"Checksum":3952659280}'
)


def test_file_is_the_one_that_upstream_writes() -> None:
    device = Device("GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0")
    sick = Device("sick", is_healthy=False)
    assert UPSTREAMS == written({}, {GPU: Resource({device.id: device, sick.id: sick})})


def test_file_of_upstream_is_read() -> None:
    assert ({}, {GPU}) == read(UPSTREAMS)


def test_devices_are_listed_by_their_numa_nodes() -> None:
    held = Held({"b": frozenset({0, 1}), "a": frozenset({1}), "c": frozenset()}, b"\x0ak")
    entry = msgspec.json.decode(written({Holder("u", "c", GPU): held}, {}))["Data"]["PodDeviceEntries"][0]
    assert {"-1": ["c"], "0": ["b"], "1": ["a", "b"]} == entry["DeviceIDs"]
    assert ("u", "c", GPU, "Cms=") == (
        entry["PodUID"],
        entry["ContainerName"],
        entry["ResourceName"],
        entry["AllocResp"],
    )


NAMES = st.text("abc-ü", min_size=1, max_size=4)
HELD = st.builds(
    Held,
    st.dictionaries(NAMES, st.frozensets(st.integers(0, 12), max_size=3), max_size=4),
    st.binary(max_size=5),
)
INVENTORY = st.dictionaries(NAMES, st.builds(Resource, st.dictionaries(NAMES, st.builds(Device, NAMES), max_size=3)))


@given(st.dictionaries(st.builds(Holder, NAMES, NAMES, NAMES), HELD, max_size=4), INVENTORY)
def test_everything_that_is_written_is_read_again(holdings: dict[Holder, Held], inventory: dict[str, Resource]) -> None:
    assert (holdings, set(inventory)) == read(written(holdings, inventory))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"{}",
        b'{"Data":{},"Checksum":1}',
        UPSTREAMS.replace(b"0650a168", b"0650a169"),
        UPSTREAMS[:-1],
    ],
)
def test_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(content)
