"""The quality-of-service class, row by row."""

import pytest

from core.podkit import container, pod, sidecar
from trikubelet.core.qos import qos_class
from trikubelet.core.requests import resource_level
from trikubelet.model import k8s


def needs(limits: str = "", requests: str = "") -> k8s.ResourceRequirements:
    """``cpu memory`` amounts; ``-`` for none."""

    def amounts(text: str) -> dict[str, k8s.Quantity]:
        return {name: value for name, value in zip(("cpu", "memory"), text.split(), strict=False) if value != "-"}

    return k8s.ResourceRequirements(limits=amounts(limits), requests=amounts(requests))


def one(limits: str = "", requests: str = "") -> k8s.Container:
    return container("a", resources=needs(limits, requests))


NOTHING, FULL = container("b"), one("1 1Gi", "1 1Gi")


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param("BestEffort", pod(NOTHING), id="nobody asks for anything"),
        pytest.param("BestEffort", pod(one("0 0", "0 0")), id="they ask for nothing"),
        pytest.param(
            "BestEffort",
            pod(container("a", resources=k8s.ResourceRequirements(limits={"example.com/gpu": "1"}))),
            id="they ask for something else",
        ),
        pytest.param("Guaranteed", pod(FULL), id="limits and requests are the same"),
        pytest.param("Guaranteed", pod(one("1 1Gi")), id="limits alone"),
        pytest.param("Guaranteed", pod(one("1 1Gi", "1000m 1024Mi")), id="the same, written in another way"),
        pytest.param("Burstable", pod(one("1 1Gi", "1 1G")), id="almost the same"),
        pytest.param("Burstable", pod(one("1 -")), id="only cpu is limited"),
        pytest.param("Burstable", pod(one("- 1Gi", "- 1Gi")), id="only memory is limited"),
        pytest.param("Burstable", pod(one("", "1 1Gi")), id="requests alone"),
        pytest.param("Burstable", pod(one("2 1Gi", "1 1Gi")), id="requests below limits"),
        pytest.param("Burstable", pod(FULL, NOTHING), id="one of two asks for nothing"),
        pytest.param("Guaranteed", pod(FULL, one("2 2Gi")), id="both have all"),
        pytest.param("Burstable", pod(FULL, init=(NOTHING,)), id="an init container asks for nothing"),
        pytest.param("Burstable", pod(FULL, init=(sidecar("s"),)), id="a sidecar asks for nothing"),
        pytest.param("Burstable", pod(NOTHING, init=(FULL,)), id="only an init container asks"),
        pytest.param("Guaranteed", pod(FULL, init=(one("1 1Gi"),)), id="an init container has all"),
        pytest.param("Guaranteed", pod(NOTHING, resources=needs("1 1Gi")), id="the pod's own decide, all"),
        pytest.param("Burstable", pod(FULL, resources=needs("2 2Gi", "1 1Gi")), id="the pod's own decide, some"),
        pytest.param("Guaranteed", pod(FULL, resources=needs()), id="the pod's own are empty and decide nothing"),
        pytest.param("Guaranteed", pod(FULL, ephemeral=("debug",)), id="ephemeral containers do not count"),
    ],
)
def test_qos_class(expected: str, it: k8s.Pod) -> None:
    assert expected == qos_class(it)


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param("", pod(NOTHING), id="no resources"),
        pytest.param("container_level", pod(NOTHING, FULL), id="a container's"),
        pytest.param("container_level", pod(NOTHING, init=(FULL,)), id="an init container's"),
        pytest.param("pod_level", pod(NOTHING, resources=needs("1 1Gi")), id="the pod's"),
        pytest.param("pod_and_container_level", pod(FULL, resources=needs("2 2Gi")), id="both"),
        pytest.param("container_level", pod(FULL, resources=needs()), id="the pod's own are empty"),
    ],
)
def test_resources_are_stated_for_the_pod_or_for_containers(expected: str, it: k8s.Pod) -> None:
    assert expected == resource_level(it)
