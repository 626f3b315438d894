"""When a node is short of something, who ends for it, and what is said of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from core.podkit import container, pod, sidecar
from trikubelet.core.admission.under_pressure import is_kept_out
from trikubelet.core.eviction import limits, messages
from trikubelet.core.eviction.observations import has_image_disk, observe
from trikubelet.core.eviction.pressure import Observed, Pressure, advance, met
from trikubelet.core.eviction.ranking import Candidate, rank
from trikubelet.core.eviction.thresholds import (
    ALLOCATABLE_MEMORY,
    IMAGEFS,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Amount,
    Threshold,
    parse_amount,
    parse_thresholds,
)
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.model import k8s
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, Used, VolumeUsed
from trikubelet.model.usage import FsUsage, NodeGauges, Usage

MIB, GIB = 1 << 20, 1 << 30
LOW = Threshold(MEMORY, Amount(100 * MIB))
DISK = Threshold(NODEFS, Amount(10 * GIB))


# ---- thresholds ----


def test_the_defaults_are_upstreams() -> None:
    found = parse_thresholds(KubeletConfiguration().eviction_hard, {}, {}, {})

    assert {
        MEMORY: 100 * MIB,
        NODEFS: 10,
        NODEFS_INODES: 5,
        IMAGEFS: 15,
        "imagefs.inodesFree": 5,
    } == {one.signal: one.value.of(100) for one in found}
    assert all(one.is_hard for one in found)


@pytest.mark.parametrize(
    ("text", "of_a_thousand"), [("10%", 100), ("0.5%", 5), ("7", 7), ("1Ki", 1024), ("0%", None), ("100%", None)]
)
def test_a_value_is_a_quantity_or_a_share_and_nothing_or_everything_switches_it_off(
    text: str, of_a_thousand: int | None
) -> None:
    amount = parse_amount(text)

    assert of_a_thousand == (None if amount is None else amount.of(1000))


def test_soft_thresholds_have_their_grace_and_all_their_reclaim() -> None:
    found = parse_thresholds({MEMORY: "1Mi"}, {MEMORY: "2Mi"}, {MEMORY: 90.0}, {MEMORY: "10%"})

    assert [(1 * MIB, 0.0, 10), (2 * MIB, 90.0, 10)] == [
        (one.value.of(100), one.grace_seconds, one.reclaim.of(100)) for one in found
    ]


def test_what_all_pods_may_use_has_the_threshold_of_memory_where_it_is_limited() -> None:
    limited = parse_thresholds({MEMORY: "1Mi"}, {MEMORY: "2Mi"}, {MEMORY: 9.0}, {}, pods_limited=True)

    assert [MEMORY, ALLOCATABLE_MEMORY, MEMORY] == [one.signal for one in limited]
    assert () == parse_thresholds({}, {}, {}, {}, pods_limited=True)


# ---- pressure ----


def memory(available: int, at_ns: int) -> dict[str, Observed]:
    return {MEMORY: Observed(available, GIB, at_ns)}


def test_a_hard_threshold_is_due_at_once_and_the_condition_outlasts_it() -> None:
    first = advance(Pressure(), [LOW], memory(99 * MIB, 1), 0.0, 300)
    assert ((LOW,), ("MemoryPressure",)) == (first.due, first.conditions)
    second = advance(first, [LOW], memory(GIB, 2), 10.0, 300)
    assert ((), ("MemoryPressure",)) == (second.due, second.conditions)
    third = advance(second, [LOW], memory(GIB, 3), 299.0, 300)
    assert ("MemoryPressure",) == third.conditions
    assert () == advance(third, [LOW], memory(GIB, 4), 300.0, 300).conditions


def test_without_a_transition_period_a_condition_holds_as_long_as_its_threshold() -> None:
    low = advance(Pressure(), [LOW], memory(1, 1), 0.0, 0)

    assert ("MemoryPressure",) == low.conditions
    assert () == advance(low, [LOW], memory(GIB, 2), 10.0, 0).conditions


def test_a_soft_threshold_is_due_after_its_grace_unless_it_was_resolved_meanwhile() -> None:
    soft = replace(LOW, grace_seconds=30.0)
    now = advance(Pressure(), [soft], memory(1, 1), 0.0, 300)
    assert ((), ("MemoryPressure",)) == (now.due, now.conditions)
    assert () == advance(now, [soft], memory(1, 2), 29.0, 300).due
    assert (soft,) == advance(now, [soft], memory(1, 2), 30.0, 300).due
    resolved = advance(now, [soft], memory(GIB, 2), 20.0, 300)
    assert () == advance(resolved, [soft], memory(1, 3), 30.0, 300).due


def test_a_met_threshold_is_resolved_only_beyond_its_minimum_reclaim() -> None:
    wants_more = replace(LOW, reclaim=Amount(50 * MIB))
    fresh = advance(Pressure(), [wants_more], memory(120 * MIB, 1), 0.0, 300)
    assert () == fresh.due
    was_met = advance(Pressure(), [wants_more], memory(1, 1), 0.0, 300)
    assert (wants_more,) == advance(was_met, [wants_more], memory(120 * MIB, 2), 10.0, 300).due
    assert () == advance(was_met, [wants_more], memory(150 * MIB, 2), 10.0, 300).due


def test_within_its_grace_a_soft_threshold_is_resolved_by_its_value_alone() -> None:
    soft = replace(LOW, grace_seconds=30.0, reclaim=Amount(50 * MIB))
    low = advance(Pressure(), [soft], memory(1, 1), 0.0, 300)
    better = advance(low, [soft], memory(120 * MIB, 2), 10.0, 300)
    assert {} == better.met_since
    assert () == advance(better, [soft], memory(120 * MIB, 3), 40.0, 300).due

    acted_on = advance(low, [soft], memory(1, 2), 30.0, 300)
    assert (soft,) == advance(acted_on, [soft], memory(120 * MIB, 3), 40.0, 300).due


def test_an_old_measurement_ends_no_second_pod() -> None:
    first = advance(Pressure(), [LOW], memory(1, 7), 0.0, 300)

    assert () == advance(first, [LOW], memory(1, 7), 10.0, 300).due
    assert (LOW,) == advance(first, [LOW], memory(1, 8), 10.0, 300).due


def test_memory_is_the_most_urgent_and_what_was_not_measured_is_not_short() -> None:
    seen = {MEMORY: Observed(1, GIB, 1), NODEFS: Observed(1, GIB, 1)}

    assert (LOW, DISK) == advance(Pressure(), [DISK, LOW], seen, 0.0, 300).due
    assert ("DiskPressure", "MemoryPressure") == advance(Pressure(), [DISK, LOW], seen, 0.0, 300).conditions
    assert () == met([DISK, LOW], {})


# ---- observations ----


def machine(**more: Any) -> NodeUsed:
    gauges = NodeGauges(Usage(5, working_set_bytes=3 * GIB, processes=400), 8 * GIB, 0, 2, 0, 1000)
    return NodeUsed("n", gauges, **more)


def test_signals_are_what_is_left_of_memory_processes_and_disks() -> None:
    disk = FsUsage(6, 1, 1, 20, 100, 7, 70, 1)

    found = observe(machine(disk=disk, images=replace(disk, available_bytes=30, file_system=2)))

    assert {
        MEMORY: (5 * GIB, 8 * GIB),
        PIDS: (600, 1000),
        NODEFS: (20, 100),
        NODEFS_INODES: (7, 70),
        IMAGEFS: (30, 100),
        "imagefs.inodesFree": (7, 70),
    } == {name: one[:2] for name, one in found.items()}


def test_what_cannot_be_measured_is_no_signal() -> None:
    nothing = NodeUsed("n", NodeGauges(Usage(5), 0, 0, 0, 0, 0))
    no_inodes = machine(disk=FsUsage(6, 1, 1, 20, 100, 0, 0))

    assert {} == observe(nothing)
    assert {MEMORY, PIDS, NODEFS} == set(observe(no_inodes))


def test_what_all_pods_may_use_is_their_cgroups_limit() -> None:
    part = Used(Usage(5, working_set_bytes=GIB, limit_bytes=3 * GIB))

    assert (2 * GIB, 3 * GIB, 5) == observe(machine(parts={"pods": part}))[ALLOCATABLE_MEMORY]
    unlimited = Used(Usage(5, working_set_bytes=GIB))
    assert ALLOCATABLE_MEMORY not in observe(machine(parts={"pods": unlimited, "kubelet": part}))


def test_images_are_on_a_disk_of_their_own_where_the_kernel_says_so() -> None:
    disk = FsUsage(6, 1, 1, 20, 100, 7, 70, file_system=1)

    assert has_image_disk(machine(disk=disk, images=replace(disk, file_system=2)))
    assert not has_image_disk(machine(disk=disk, images=disk))
    assert not has_image_disk(machine(disk=disk))


# ---- ranking ----


def asking(name: str, priority: int | None = None, **requests: str) -> k8s.Pod:
    named = {key.replace("_", "-"): value for key, value in requests.items()}
    resources = k8s.ResourceRequirements(requests=named)
    return pod(container("c", resources=resources), meta={"name": name}, priority=priority)


def using(
    bytes_: int = 0,
    *,
    layer: int = 0,
    logs: int = 0,
    volume: int = 0,
    processes: int = 0,
    messages: int = 0,
    own_files: int = 0,
) -> PodUsed:
    usage = Usage(1, working_set_bytes=bytes_, processes=processes)
    files = (FsUsage(1, layer, layer), FsUsage(1, logs, logs))
    one = ContainerUsed("c", "id", "", 0, Used(usage), *files, messages=FsUsage(1, messages, messages))
    volumes = (VolumeUsed("v", FsUsage(1, volume, volume), is_local=True), VolumeUsed("n", FsUsage(1, 10**12, 10**12)))
    own = FsUsage(1, own_files, own_files)
    return PodUsed("u", "p", "ns", 0, containers=(one,), volumes=volumes, own_files=own)


def ranked(signal: str, *candidates: Candidate, image_disk: bool = False) -> list[str]:
    return [one.pod.metadata.name for one in rank(candidates, signal, image_disk=image_disk)]


def test_memory_ranks_by_request_exceeded_then_priority_then_how_far() -> None:
    within = Candidate(asking("within", -5, memory="9Gi"), using(8 * GIB))
    important = Candidate(asking("important", 100, memory="1Mi"), using(5 * GIB))
    little = Candidate(asking("little", memory="1Gi"), using(GIB + 1))
    much = Candidate(asking("much", memory="1Mi"), using(GIB))
    unknown = Candidate(asking("unknown", 200), None)

    assert ["unknown", "much", "little", "important", "within"] == ranked(
        MEMORY, within, important, little, much, unknown
    )


def test_process_ids_rank_by_priority_then_how_many() -> None:
    few, many = Candidate(asking("few"), using(processes=2)), Candidate(asking("many"), using(processes=90))
    vital = Candidate(asking("vital", 7), using(processes=900))

    assert ["many", "few", "vital"] == ranked(PIDS, vital, few, many)


def test_a_disk_ranks_by_what_is_on_it() -> None:
    layers = Candidate(asking("layers"), using(layer=70))
    local = Candidate(asking("local"), using(logs=30, volume=31))
    asked = Candidate(asking("asked", ephemeral_storage="1Ki"), using(layer=1000))

    assert ["layers", "local", "asked"] == ranked(NODEFS, local, layers, asked)
    assert ["local", "layers", "asked"] == ranked(NODEFS, layers, local, asked, image_disk=True)
    assert ["layers", "local", "asked"] == ranked(IMAGEFS, local, layers, asked, image_disk=True)
    assert ["asked", "layers", "local"] == ranked(NODEFS_INODES, local, layers, asked)


def test_a_disk_ranks_by_the_files_of_the_pods_own_directory_too() -> None:
    hosts, messages = Candidate(asking("hosts"), using(own_files=80)), Candidate(asking("messages"), using(messages=90))
    layers = Candidate(asking("layers"), using(layer=70))

    assert ["messages", "hosts", "layers"] == ranked(NODEFS, layers, hosts, messages)
    assert ["messages", "hosts", "layers"] == ranked(NODEFS_INODES, layers, hosts, messages)
    assert ["layers", "hosts", "messages"] == ranked(IMAGEFS, layers, hosts, messages, image_disk=True)


def test_pod_with_unmeasured_disk_ranks_first_for_disk_only() -> None:
    honest = Candidate(asking("honest"), using(layer=70))
    hidden = Candidate(asking("hidden", 100), replace(using(layer=1), is_disk_measured=False))

    assert ["hidden", "honest"] == ranked(NODEFS, honest, hidden)
    assert ["hidden", "honest"] == ranked(NODEFS_INODES, honest, hidden, image_disk=True)
    assert ["honest", "hidden"] == ranked(IMAGEFS, hidden, honest, image_disk=True)
    assert ["honest", "hidden"] == ranked(MEMORY, hidden, honest)


def test_pod_being_measured_ranks_by_its_count_so_far() -> None:
    so_far = FsUsage(0, used_bytes=50, inodes_used=100)
    honest = Candidate(asking("honest"), using(layer=70))
    counting = replace(using(layer=1), is_disk_measured=False, disk_so_far=so_far)
    slow = Candidate(asking("slow"), counting)
    slower = Candidate(asking("slower"), replace(counting, disk_so_far=replace(so_far, used_bytes=70)))

    assert ["slower", "honest", "slow"] == ranked(NODEFS, slow, slower, honest)
    assert ["slow", "slower", "honest"] == ranked(NODEFS_INODES, honest, slow, slower)
    assert ["honest", "slow"] == ranked(IMAGEFS, slow, honest, image_disk=True), "layers are elsewhere"


# ---- limits ----


def limited(**more: Any) -> k8s.Pod:
    resources = k8s.ResourceRequirements(limits={"ephemeral-storage": "100"})
    volumes = (k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Ki")),)
    return pod(container("c", resources=resources), volumes=volumes, **more)


@pytest.mark.parametrize(
    ("used", "image_disk", "signal", "message"),
    [
        (using(volume=1025), False, limits.EMPTY_DIR, 'Usage of EmptyDir volume "v" exceeds the limit "1Ki". '),
        (using(volume=90, logs=11), False, limits.POD,
         "Pod ephemeral local storage usage exceeds the total limit of containers 100. "),
        (using(layer=60, logs=41), True, limits.POD,
         "Pod ephemeral local storage usage exceeds the total limit of containers 100. "),
        (using(volume=60, logs=40), False, None, None),
        (using(own_files=101), True, limits.POD,
         "Pod ephemeral local storage usage exceeds the total limit of containers 100. "),
        (using(messages=60, own_files=41), True, limits.POD,
         "Pod ephemeral local storage usage exceeds the total limit of containers 100. "),
        (using(messages=60, own_files=40), True, None, None),
        (using(volume=0, layer=50, logs=50), False, None, None),
    ],
)  # fmt: skip
def test_a_pod_ends_beyond_a_limit_of_its_own(
    used: PodUsed, image_disk: bool, signal: str | None, message: str | None
) -> None:
    found = limits.violation(limited(), used, image_disk=image_disk)

    assert (signal, message) == (found or (None, None))


def test_one_containers_limit_holds_beside_one_without() -> None:
    resources = k8s.ResourceRequirements(limits={"ephemeral-storage": "100"})
    two = pod(container("c", resources=resources), container("d"), container("e", resources=resources))
    over = using(layer=60, logs=41)

    assert (limits.CONTAINER, 'Container c exceeded its local ephemeral storage limit "100". ') == limits.violation(
        two, over, image_disk=False
    )
    assert None is limits.violation(two, over, image_disk=True)
    written = limits.violation(two, using(messages=101), image_disk=True)
    assert (limits.CONTAINER, 'Container c exceeded its local ephemeral storage limit "100". ') == written
    assert None is limits.violation(two, using(own_files=101), image_disk=True), "no container's own"


def test_a_sidecars_own_limit_is_enforced_and_an_init_containers_counts_in_the_pods_alone() -> None:
    resources = k8s.ResourceRequirements(limits={"ephemeral-storage": "100"})
    other = container("d", resources=k8s.ResourceRequirements(limits={"ephemeral-storage": "1000"}))
    beside = pod(other, init=(sidecar("c", resources=resources),))
    once = pod(other, init=(container("c", resources=resources),))
    said = (limits.CONTAINER, 'Container c exceeded its local ephemeral storage limit "100". ')

    assert said == limits.violation(beside, using(layer=101), image_disk=False)
    assert None is limits.violation(beside, using(layer=100), image_disk=False)
    assert None is limits.violation(once, using(layer=101), image_disk=False)
    assert limits.POD == (limits.violation(once, using(layer=1001), image_disk=False) or said)[0]


def test_only_pods_with_a_limit_need_to_be_measured() -> None:
    assert limits.has_limits(limited())
    assert not limits.has_limits(asking("p", memory="1Gi"))
    unlimited = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource(size_limit="0"))
    assert not limits.has_limits(pod(container("c"), volumes=(unlimited,)))


# ---- what is said ----


def test_eviction_message_names_threshold_and_containers_above_their_requests() -> None:
    candidate = Candidate(asking("p", memory="1Mi"), using(5 * MIB))

    said = messages.evicted(candidate, LOW, Observed(50 * MIB, GIB, 1))

    assert (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 5Mi, "
        "request is 1Mi, has larger consumption of memory. "
    ) == said.message
    assert {
        "starved_resource": "memory",
        "offending_containers": "c",
        "offending_containers_usage": "5Mi",
    } == said.annotations


def test_of_pieces_the_message_names_no_container() -> None:
    few = Threshold(NODEFS_INODES, Amount(5000))

    said = messages.evicted(Candidate(asking("p"), using(layer=9)), few, Observed(1234, 10**6, 1))

    assert "The node was low on resource: inodes. Threshold quantity: 5k, available: 1234. " == said.message
    assert {"starved_resource": "inodes"} == said.annotations


def test_of_disk_layers_and_logs_are_named_together() -> None:
    said = messages.evicted(Candidate(asking("p"), using(layer=1024, logs=1024)), DISK, Observed(0, GIB, 1))

    assert "Container c was using 2Ki, request is 0, has larger consumption of ephemeral-storage. " in said.message


# ---- admission ----

BEST_EFFORT, BURSTABLE = pod(container("c")), asking("p", memory="1Gi")
TOLERANT = pod(
    container("c"), tolerations=(k8s.Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists"),)
)
STATIC = pod(container("c"), meta={"annotations": {CONFIG_SOURCE: "file"}})
VITAL = pod(container("c"), priority=2_000_000_000)


@pytest.mark.parametrize(
    ("pressures", "kept_out"),
    [
        ((), []),
        (("MemoryPressure",), ["best effort"]),
        (("DiskPressure",), ["best effort", "burstable", "tolerant"]),
        (("DiskPressure", "MemoryPressure"), ["best effort", "burstable", "tolerant"]),
        (("PIDPressure",), ["best effort", "burstable", "tolerant"]),
    ],
)
def test_a_node_under_pressure_takes_critical_pods_and_with_memory_alone_those_that_asked(
    pressures: tuple[str, ...], kept_out: list[str]
) -> None:
    pods = {
        "best effort": BEST_EFFORT,
        "burstable": BURSTABLE,
        "tolerant": TOLERANT,
        "static": STATIC,
        "vital": VITAL,
    }

    assert kept_out == [name for name, one in pods.items() if is_kept_out(one, pressures)]


def test_rejected_pod_gets_the_pressure_conditions() -> None:
    assert "The node had condition: [DiskPressure MemoryPressure]. " == messages.refused(
        ("DiskPressure", "MemoryPressure")
    )


# ---- snapshots that miss something ----


def of_disk(available: int, at_ns: int) -> dict[str, Observed]:
    return {NODEFS: Observed(available, 100, at_ns)}


def test_a_look_that_misses_a_signal_keeps_its_grace_running() -> None:
    soft = Threshold(NODEFS, Amount(10), 30.0)
    now = advance(Pressure(), [soft], of_disk(1, 1), 0.0, 300)
    now = advance(now, [soft], {}, 20.0, 300)
    assert () == now.due
    assert (soft,) == advance(now, [soft], of_disk(1, 3), 30.0, 300).due


def test_a_look_that_misses_a_signal_resolves_nothing() -> None:
    hard = Threshold(NODEFS, Amount(10), reclaim=Amount(20))
    now = advance(Pressure(), [hard], of_disk(1, 1), 0.0, 300)
    now = advance(now, [hard], {}, 10.0, 300)
    assert (hard,) == advance(now, [hard], of_disk(12, 3), 20.0, 300).due


def test_whether_images_have_a_disk_of_their_own_may_be_unknown() -> None:
    disk = FsUsage(6, 1, 1, 20, 100, 7, 70, file_system=1)
    assert has_image_disk(machine(disk=disk, images=FsUsage(6, 1, 1))) is None
    assert has_image_disk(machine(disk=disk, images=None)) is None
    assert has_image_disk(machine(disk=disk, images=disk)) is False


# ---- limits of a pod's own ----


def limit(text: str) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(limits={"ephemeral-storage": text})


def writing(name: str, layer: int) -> ContainerUsed:
    return ContainerUsed(name, name, "", 0, None, FsUsage(1, layer, 1), FsUsage(1, 0, 1))


def test_an_init_container_may_use_its_limit_beside_the_sidecars_before_it() -> None:
    sidecar = msgspec.structs.replace(container("side", resources=limit("1000")), restart_policy="Always")
    spec = pod(container("main", resources=limit("1")), init=[sidecar, container("init", resources=limit("2000"))])
    used = PodUsed("u", "p", "ns", 0, containers=(writing("side", 900), writing("init", 1900)))
    assert limits.violation(spec, used, image_disk=False) is None


def test_overhead_is_added_to_a_pods_limit() -> None:
    spec = pod(container("c", resources=limit("100")), overhead={"ephemeral-storage": "50"})
    assert limits.violation(spec, using(layer=60, volume=60), image_disk=False) is None


def test_an_init_container_is_held_to_the_pods_limit_alone() -> None:
    spec = pod(container("main", resources=limit("1000")), init=[container("c", resources=limit("10"))])
    assert limits.violation(spec, using(layer=20), image_disk=False) is None


def test_the_message_names_what_the_pod_itself_requested() -> None:
    it = pod(container("c"), meta={"name": "p"}, resources=k8s.ResourceRequirements(requests={"memory": "1Mi"}))
    said = messages.evicted(Candidate(it, using(5 * MIB)), LOW, Observed(50 * MIB, GIB, 1))
    assert "Pod p was using 5Mi, request is 1Mi, has larger consumption of memory. " in said.message
    assert ("p", "5Mi") == (said.annotations.get("offending_pod"), said.annotations.get("offending_pod_usage"))
