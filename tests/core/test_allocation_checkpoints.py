"""Upstream's files of what pods are allocated, byte for byte as its kubelet verifies them."""

from __future__ import annotations

import msgspec
import pytest

from trikubelet.core.resize.allocation import Allocation, Made
from trikubelet.core.resize.amounts import Amounts
from trikubelet.core.resize.checkpoint import PodResources, actuated, allocated, allocation_of_upstream, read, written
from trikubelet.model import k8s

SMALL = k8s.ResourceRequirements(requests={"cpu": "20m"})
DATA = '{"entries":{"u":{"ContainerResources":{"c":{"requests":{"cpu":"20m"}}},"PodLevelResources":null}}}'
CHECKSUM = 3762180771  # by upstream's own function of these data
PODS = {"u": PodResources({"c": SMALL})}


def upstreams(data: str = DATA, checksum: int = CHECKSUM) -> bytes:
    """The file as upstream's kubelet writes it."""
    return msgspec.json.encode({"data": data, "checksum": checksum})


def test_file_has_the_checksum_that_upstream_verifies() -> None:
    file = msgspec.json.decode(written(PODS))
    assert (DATA, CHECKSUM, "trikubelet") == (file["data"], file["checksum"], file["writer"])


def test_file_shows_which_kubelet_wrote_it_last() -> None:
    assert (PODS, True) == (read(written(PODS)).pods, read(written(PODS)).is_own)
    assert (PODS, False) == (read(upstreams()).pods, read(upstreams()).is_own)


def test_file_of_a_node_without_pods_is_read() -> None:
    assert {} == read(written({})).pods
    assert {} == read(upstreams("{}", 694314937)).pods


@pytest.mark.parametrize("content", [upstreams(checksum=1), b"", b"{}", b"no JSON", upstreams("[]")])
def test_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(content)


def test_containers_have_what_they_were_made_with_and_others_what_the_file_had() -> None:
    large = k8s.ResourceRequirements(requests={"cpu": "3"}, limits={"memory": "1Gi", "example.com/a": "1"})
    made = {"c": Made(0, Amounts(cpu_request=20, memory_limit=1024))}
    allocation = Allocation(7, {"c": large, "d": SMALL}, SMALL, made, large)

    assert PodResources({"c": large, "d": SMALL}, SMALL) == allocated(allocation)
    held = k8s.ResourceRequirements(requests={"cpu": "20m"}, limits={"memory": "1024", "example.com/a": "1"})
    assert PodResources({"c": held}, large) == actuated(allocation)
    assert PodResources({"c": held, "d": SMALL}, large) == actuated(
        allocation, PodResources({"c": large, "d": SMALL}, None)
    )


def test_allocation_of_upstream_says_nothing_of_what_containers_were_made_with() -> None:
    before = Allocation(7, {}, made={"c": Made(0, Amounts())})
    assert Allocation(7, {"c": SMALL}) == allocation_of_upstream(PODS["u"], before)
    assert Allocation(0, {}) == allocation_of_upstream(PodResources())
