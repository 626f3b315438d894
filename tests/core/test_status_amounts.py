"""What pods and containers are told to have been given, and that a status has every member a kubelet fills."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from core.podkit import container, exited, observe, pod, running, sidecar
from core.statuskit import runs
from trikubelet.core.pod_status import StatusFacts, generate
from trikubelet.core.pod_status.amounts import given, given_to_all
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.resize.amounts import Amounts
from trikubelet.model import k8s
from trikubelet.model.runtime import HeldResources, User

Stated = dict[str, Any]
ID = "containerd://1"


def needs(requests: Stated | None = None, limits: Stated | None = None) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(requests=requests or {}, limits=limits or {})


def of(name: str, requests: Stated | None = None, limits: Stated | None = None) -> k8s.Container:
    return container(name, resources=needs(requests, limits))


# ---- a container ----

SMALL = needs({"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "64Mi"})
LARGE = needs({"cpu": "2", "memory": "128Mi"}, {"cpu": "4", "memory": "128Mi"})
MADE_SMALL = Amounts(100, 200, 64 << 20, 64 << 20)
TINY = HeldResources(100_000, 1000, 2)
HELD_SMALL = HeldResources(100_000, 20_000, 102, 64 << 20)
BEFORE = runs("a", container_id=ID, resources=SMALL)


@pytest.mark.parametrize(
    ("expected", "stated", "made", "told"),
    [
        (needs(), None, None, None),
        (needs({"cpu": "500m"}, {"memory": "1Gi"}), needs({"cpu": 0.5}, {"memory": "1024Mi"}), None, None),
        (needs({"cpu": "lots"}), needs({"cpu": "lots"}), None, None),
        (SMALL, LARGE, MADE_SMALL, HELD_SMALL),
        (SMALL, LARGE, MADE_SMALL, None),
        (needs({**SMALL.requests, "memory": "128Mi"}, SMALL.limits), LARGE, None, HELD_SMALL),
        (needs({"cpu": "2", "memory": "64Mi"}, {"cpu": "4", "memory": "64Mi"}), LARGE, MADE_SMALL,
         HeldResources(100_000, 400_000, 2048)),
        (needs({"cpu": "2m"}, {"cpu": "10m"}), needs({"cpu": "2m"}, {"cpu": "10m"}), None, TINY),
        (needs({"cpu": "1m"}, {"cpu": "5m"}), needs({"cpu": "1m"}, {"cpu": "5m"}), None, TINY),
        (needs({"cpu": "100m"}), needs({"cpu": "100m"}, {"cpu": "200m"}), Amounts(100), HeldResources(0, 0, 102)),
        (needs({}, {"memory": "1001"}), needs({}, {"memory": "1Mi"}), None, HeldResources(memory_limit_bytes=1001)),
        (needs({}, {"cpu": "200m", "memory": "64Mi"}), needs({}, {"cpu": "200m"}), Amounts(0, 200, 0, 64 << 20),
         HeldResources(100_000, 20_000, 2, 64 << 20)),
        (needs({"memory": "1Mi"}), needs({"memory": "1Mi"}), None, HeldResources(100_000, 20_000, 2, 64 << 20)),
    ],
    ids=[
        "nothing", "as the server writes it", "no amount", "what the runtime tells", "what it was made with",
        "nobody noted a request of memory", "some of both", "equal shares", "equal shares again", "a limit that is new",
        "odd bytes", "the whole pod's limit", "the whole pod's limit where it states none",
    ],
)  # fmt: skip
def test_a_container_that_runs_has_what_its_runtime_tells_or_what_it_was_made_with(
    expected: k8s.ResourceRequirements,
    stated: k8s.ResourceRequirements | None,
    made: Amounts | None,
    told: HeldResources | None,
) -> None:
    assert expected == given(container("a", resources=stated), running("a", resources=told), made, None)


def test_unreported_and_unnoted_amounts_stay_as_last_shown() -> None:
    asked = container("a", resources=LARGE)

    assert SMALL == given(asked, running("a"), None, BEFORE)
    assert LARGE == given(asked, running("a"), None, None)
    assert LARGE == given(asked, running("a"), None, msgspec.structs.replace(BEFORE, resources=None))


def test_a_container_that_does_not_run_has_what_it_would_be_made_with() -> None:
    assert LARGE == given(container("a", resources=LARGE), exited("a", 1, resources=HELD_SMALL), MADE_SMALL, BEFORE)


def test_claims_of_a_container_are_told_with_its_amounts() -> None:
    claims = (k8s.ResourceClaim(name="gpu"),)
    stated = k8s.ResourceRequirements(claims=claims)

    assert claims == given(container("a", resources=stated), running("a"), None, None).claims


# ---- a pod ----


class Case(NamedTuple):
    id: str
    requests: Stated
    limits: Stated
    it: k8s.Pod


ALL_LIMITED = of("a", {"cpu": "1"}, {"cpu": "2", "memory": "64Mi"}), of("b", {}, {"cpu": "1500m", "memory": "64Mi"})
CASES = [
    Case("nothing asked for", {}, {}, pod("a")),
    Case("requests are added up", {"cpu": "350m", "memory": "192Mi"}, {},
         pod(of("a", {"cpu": "100m", "memory": "64Mi"}), of("b", {"cpu": "250m", "memory": "128Mi"}))),
    Case("the largest init container counts beside sidecars", {"cpu": "3"}, {},
         pod(of("a", {"cpu": "1"}), init=(sidecar("s", resources=needs({"cpu": "500m"})), of("i", {"cpu": "2500m"})))),
    Case("limits are added up, and what has none counts as none", {"cpu": "1"}, {"cpu": "3500m", "memory": "128Mi"},
         pod(*ALL_LIMITED, "c")),
    Case("the pod's own count, and its overhead", {"cpu": "2100m", "memory": "1Gi"}, {"cpu": "4100m"},
         pod(of("a", {"cpu": "1"}), resources=needs({"cpu": "2", "memory": "1Gi"}, {"cpu": "4"}),
             overhead={"cpu": "100m"})),
    Case("overhead on limits, and nothing where there is none", {"cpu": "120m", "memory": "12Mi"}, {"cpu": "120m"},
         pod(of("a", {"cpu": "100m"}, {"cpu": "100m"}), overhead={"cpu": "20m", "memory": "12Mi"})),
    Case("limits of every kind", {"example.com/dongle": "1"},
         {"example.com/dongle": "2", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"},
         pod(of("a", {"example.com/dongle": "1"},
                {"example.com/dongle": "2", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}))),
    Case("less than a byte, as it is written for the pod", {"cpu": "1", "memory": "10m"}, {"memory": "64M"},
         pod(of("a", {"cpu": "1"}), resources=needs({"memory": "10m"}, {"memory": "64M"}))),
    Case("an amount with a decimal suffix, as it is written for the pod", {"cpu": "1500m", "memory": "64M"}, {},
         pod(of("a"), resources=needs({"cpu": "1.5", "memory": "64M"}))),
    Case("pieces and odd bytes", {"example.com/dongle": "2048", "memory": "1001", "ephemeral-storage": "1Gi"}, {},
         pod(of("a", {"example.com/dongle": "2048", "memory": "1001", "ephemeral-storage": "1Gi"}))),
    Case("no amount", {}, {}, pod(of("a", {"cpu": "lots"}, {"cpu": "lots"}))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_pod_has_what_its_containers_have_or_what_it_asks_for_itself(case: Case) -> None:
    resources, requests = given_to_all(case.it, (), case.it.spec.resources)

    assert (case.requests, case.limits) == (resources.requests, resources.limits)
    assert case.requests == requests


def test_a_pod_has_what_its_containers_have_and_is_allocated_what_they_shall_have() -> None:
    it = pod(of("a", {"cpu": "2"}), of("b", {"cpu": "1"}))
    resources, allocated = given_to_all(it, [runs("a", resources=needs({"cpu": "100m"})), runs("b")], None)

    assert ({"cpu": "1100m"}, {"cpu": "3"}) == (resources.requests, allocated)


def test_a_pod_has_of_its_own_what_its_cgroup_has() -> None:
    it = pod(of("a", {"cpu": "1"}), resources=needs({"cpu": "2"}, {"cpu": "4"}))
    resources, allocated = given_to_all(it, (), needs({"cpu": "1500m"}, {"cpu": "3"}))

    assert ({"cpu": "1500m"}, {"cpu": "3"}, {"cpu": "2"}) == (resources.requests, resources.limits, allocated)


# ---- the whole status ----

OTHERS = {
    "extended_resource_claim_status": "the scheduler's",
    "node_allocatable_resource_claim_statuses": "the scheduler's",
    "nominated_node_name": "the scheduler's",
    "resource_claim_statuses": "a controller's",
    "volume_health": "of the gate CSIVolumeHealth, which is off",
    "resize": "not written by upstream any more: conditions tell of a resize",
    "reason": "only where somebody ended the pod",
    "message": "only where somebody ended the pod",
}
NOT_HERE = {
    "allocated_resources_status": "the health of devices, which are not built",
    "stop_signal": "of the gate ContainerStopSignals, which is off",
}


def test_a_status_has_every_member_that_a_kubelet_fills() -> None:
    it = pod(
        of("a", {"cpu": "1"}, {"cpu": "1"}), init=("i",), ephemeral=("e",), meta={"uid": "u", "generation": 3}
    )  # fmt: skip
    mounted = msgspec.structs.replace(
        it.spec.containers[0], volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),)
    )
    it = msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, containers=(mounted,)))
    seen = [
        exited("a", 1, attempt=0),
        running("a", attempt=1, image_ref="sha", user=User(0, 0, (10,))),
        exited("i", 0),
        running("e"),
    ]
    facts = StatusFacts("2026-01-01T12:00:00Z", ("192.0.2.1",), containers=ContainerFacts())
    status = generate(it, observe(it, *seen), facts)

    assert OTHERS.keys() == empty(status)
    assert NOT_HERE.keys() == empty(status.container_statuses[0])
    assert {3} == {one.observed_generation for one in (status, *status.conditions)}
    user = status.container_statuses[0].user
    assert user == k8s.ContainerUser(linux=k8s.LinuxContainerUser(uid=0, gid=0, supplemental_groups=(10,)))
    assert ({"cpu": "1"}, {"cpu": "1"}) == (
        status.container_statuses[0].allocated_resources,
        status.allocated_resources,
    )


def test_what_was_never_made_was_given_nothing() -> None:
    it = pod(of("a", {"cpu": "1"}), ephemeral=("e",))
    status = generate(it, observe(it), StatusFacts("2026-01-01T12:00:00Z"))

    for one in (*status.container_statuses, *status.ephemeral_container_statuses):
        assert (None, {}, None) == (one.resources, one.allocated_resources, one.user)


def empty(record: msgspec.Struct) -> set[str]:
    """The members that say nothing."""
    said = msgspec.structs.asdict(record)
    return {name for name, value in said.items() if value in (None, "", (), {})}
