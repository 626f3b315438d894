"""/metrics/cadvisor: every series dashboards ask for, with its labels and type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.statskit import AT_NS, SDA, detailed, snapshot, usage
from trikubelet.model.usage import MachineIds
from trikubelet.server.cadvisor_metrics import cadvisor_metrics

if TYPE_CHECKING:
    from trikubelet.model.stats_snapshot import StatsSnapshot

S = AT_NS / 1e9
NODE = {"container": "", "id": "/", "image": "", "name": "", "namespace": "", "pod": ""}
POD = NODE | {"id": "/kubepods/podu1", "namespace": "default", "pod": "web"}
APP = POD | {"id": "/kubepods/podu1/c1", "container": "app", "image": "app:1", "name": "c1"}


BLKIO = {"device": "8:0", "major": "8", "minor": "0"}
CADVISOR_OF_MIXIN = {
    **dict.fromkeys(
        (
            "container_cpu_usage_seconds_total",
            "container_memory_working_set_bytes",
            "container_memory_rss",
            "container_memory_cache",
            "container_memory_swap",
            "container_cpu_cfs_periods_total",
            "container_cpu_cfs_throttled_periods_total",
        ),
        frozenset({"namespace", "pod", "container", "image"}),
    ),
    **dict.fromkeys(
        (f"container_fs_{what}_total" for what in ("reads", "writes", "reads_bytes", "writes_bytes")),
        frozenset({"namespace", "pod", "container", "device"}),
    ),
    **dict.fromkeys(
        (
            f"container_network_{way}_{what}_total"
            for way in ("receive", "transmit")
            for what in ("bytes", "packets", "packets_dropped")
        ),
        frozenset({"namespace", "pod", "interface"}),
    ),
}
"""The metrics of ``/metrics/cadvisor`` that the rules and dashboards of kubernetes-mixin read, each with the labels
that they select by and join on, which must not be empty. (rules/apps.libsonnet and dashboards/ of kubernetes-mixin)"""


def read(it: StatsSnapshot) -> tuple[dict[str, str], dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """Each metric's type, and each sample."""
    types, samples = {}, {}
    for family in text_string_to_metric_families(cadvisor_metrics(it).decode()):
        for one in family.samples:
            types[one.name] = family.type
            samples[one.name, tuple(sorted(one.labels.items()))] = one.value
    return types, samples


@pytest.mark.parametrize(
    ("value", "type_", "name", "more"),
    [
        (2.0, "counter", "container_cpu_usage_seconds_total", {"cpu": "total"}),
        (2e-9, "counter", "container_cpu_user_seconds_total", {}),
        (1e-9, "counter", "container_cpu_system_seconds_total", {}),
        (9, "counter", "container_cpu_cfs_periods_total", {}),
        (8, "counter", "container_cpu_cfs_throttled_periods_total", {}),
        (7, "counter", "container_cpu_cfs_throttled_seconds_total", {}),
        (18, "counter", "container_cpu_cfs_burst_periods_total", {}),
        (19, "counter", "container_cpu_cfs_burst_seconds_total", {}),
        (21, "gauge", "container_memory_total_active_file_bytes", {}),
        (22, "gauge", "container_memory_total_inactive_file_bytes", {}),
        (20, "gauge", "container_threads_max", {}),
        (2 << 20, "gauge", "container_memory_usage_bytes", {}),
        (2000, "gauge", "container_memory_working_set_bytes", {}),
        (200, "gauge", "container_memory_rss", {}),
        (6, "gauge", "container_memory_cache", {}),
        (5, "gauge", "container_memory_mapped_file", {}),
        (4, "gauge", "container_memory_max_usage_bytes", {}),
        (14, "gauge", "container_memory_kernel_usage", {}),
        (16, "counter", "container_memory_failcnt_total", {}),  # the parser's ending: cAdvisor's name has none
        (17, "counter", "container_oom_events_total", {}),
        (15, "gauge", "container_spec_memory_swap_limit_bytes", {}),
        (0, "gauge", "container_spec_memory_reservation_limit_bytes", {}),
        (512, "gauge", "container_spec_cpu_shares", {}),
        (3, "gauge", "container_threads", {}),
        (20, "counter", "container_memory_failures_total", {"failure_type": "pgfault", "scope": "hierarchy"}),
        (2, "counter", "container_memory_failures_total", {"failure_type": "pgmajfault", "scope": "hierarchy"}),
        (4e-6, "counter", "container_pressure_cpu_waiting_seconds_total", {}),
        (2e-6, "counter", "container_pressure_cpu_stalled_seconds_total", {}),
        (3, "gauge", "container_processes", {}),
        (1, "counter", "container_fs_reads_bytes_total", {"device": "8:0"}),
        (2, "counter", "container_fs_writes_bytes_total", {"device": "8:0"}),
        (3, "counter", "container_fs_reads_total", {"device": "8:0"}),
        (4, "counter", "container_fs_writes_total", {"device": "8:0"}),
        (1, "counter", "container_blkio_device_usage_total", BLKIO | {"operation": "Read"}),
        (2, "counter", "container_blkio_device_usage_total", BLKIO | {"operation": "Write"}),
        (S - 5, "gauge", "container_start_time_seconds", {}),
        (64 << 20, "gauge", "container_spec_memory_limit_bytes", {}),
        (100_000, "gauge", "container_spec_cpu_period", {}),
        (50_000, "gauge", "container_spec_cpu_quota", {}),
        (7, "gauge", "container_fs_usage_bytes", {}),
        (S, "gauge", "container_last_seen", {}),
    ],
)
def test_a_container_has_every_series(value: float, type_: str, name: str, more: dict[str, str]) -> None:
    types, samples = read(snapshot(of_pod=detailed(3), of_container=detailed(2)))

    assert (type_, value) == (types[name], samples[name, tuple(sorted({**APP, **more}.items()))])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (10, "container_network_receive_bytes_total"),
        (11, "container_network_receive_packets_total"),
        (12, "container_network_receive_errors_total"),
        (13, "container_network_receive_packets_dropped_total"),
        (20, "container_network_transmit_bytes_total"),
        (21, "container_network_transmit_packets_total"),
        (22, "container_network_transmit_errors_total"),
        (23, "container_network_transmit_packets_dropped_total"),
    ],
)
def test_networks_are_the_nodes_and_the_pods(value: int, name: str) -> None:
    types, samples = read(snapshot(of_pod=detailed(3), of_container=detailed(2)))

    found = {labels: told for (one, labels), told in samples.items() if one == name}
    of = [tuple(sorted({**who, "interface": "eth0"}.items())) for who in (NODE, POD)]
    assert ("counter", dict.fromkeys(of, value)) == (types[name], found)


def test_the_nodes_disk_is_told_at_the_machine_with_its_device() -> None:
    it = snapshot(of_container=detailed(2))
    _, samples = read(it)
    disk, named = it.node.disk, tuple(sorted({**NODE, "device": "/dev/sda1"}.items()))

    assert disk is not None
    wanted = {"usage_bytes": disk.used_bytes, "limit_bytes": disk.capacity_bytes}
    wanted |= {"inodes_free": disk.inodes_free, "inodes_total": disk.inodes}
    assert wanted == {name: samples[f"container_fs_{name}", named] for name in wanted}
    assert 1 == cadvisor_metrics(it).count(b"# TYPE container_fs_usage_bytes ")


def with_disk(it: StatsSnapshot) -> StatsSnapshot:
    """The snapshot of a machine with a disk, whose device the cgroups' figures name by number."""
    return replace(it, node=replace(it.node, gauges=it.node.gauges._replace(disks=(SDA,))))


def test_devices_are_called_as_dashboards_select_them() -> None:
    _, samples = read(with_disk(snapshot(of_container=detailed(2))))

    devices = {dict(labels)["device"] for name, labels in samples if name.startswith("container_fs_reads")}
    assert {"/dev/sda"} == devices


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (13 * 512, "container_fs_reads_bytes_total"),
        (23 * 512, "container_fs_writes_bytes_total"),
        (11, "container_fs_reads_total"),
        (21, "container_fs_writes_total"),
        (13, "container_fs_sector_reads_total"),
        (23, "container_fs_sector_writes_total"),
        (12, "container_fs_reads_merged_total"),
        (22, "container_fs_writes_merged_total"),
        (14, "container_fs_read_seconds_total"),
        (24, "container_fs_write_seconds_total"),
        (5, "container_fs_io_current"),
        (6, "container_fs_io_time_seconds_total"),
        (7, "container_fs_io_time_weighted_seconds_total"),
    ],
)
def test_the_machines_disks_are_reported_at_the_root_cgroup(value: float, name: str) -> None:
    types, samples = read(with_disk(snapshot(of_container=detailed(2))))

    assert ("gauge" if name.endswith("current") else "counter") == types[name]
    assert value == samples[name, tuple(sorted({**NODE, "device": "/dev/sda"}.items()))]
    assert 1 == cadvisor_metrics(with_disk(snapshot(of_container=detailed(2)))).count(f"# TYPE {name} ".encode())


@pytest.mark.parametrize(("name", "joined"), CADVISOR_OF_MIXIN.items())
def test_kubernetes_mixin_finds_its_metrics_with_the_labels_it_joins_on(name: str, joined: frozenset[str]) -> None:
    both = replace(detailed(2), swap_bytes=1)
    _, samples = read(with_disk(snapshot(of_pod=both, of_container=both)))

    found = [dict(labels) for one, labels in samples if one == name]
    assert [one for one in found if all(one.get(label) for label in joined)], found


@pytest.mark.parametrize(("wanted", "kept"), [(60 << 20, 60 << 20), (64 << 20, None)])
def test_the_limit_of_memory_is_the_one_that_the_cgroup_keeps(wanted: int, kept: int | None) -> None:
    _, samples = read(snapshot(of_container=replace(detailed(2), limit_bytes=kept)))

    assert wanted == samples["container_spec_memory_limit_bytes", tuple(sorted(APP.items()))]


def test_node_and_pod_are_told_apart_from_containers_by_empty_labels() -> None:
    _, samples = read(snapshot(of_pod=detailed(3), of_container=detailed(2)))

    found = {labels: told for (name, labels), told in samples.items() if name == "container_memory_working_set_bytes"}
    wanted = ((NODE, 100_000), (NODE | {"id": "/kubepods"}, 50_000), (POD, 3000), (APP, 2000))
    assert {tuple(sorted(who.items())): n for who, n in wanted} == found


def test_the_machine_is_reported_and_so_is_a_failure() -> None:
    it = snapshot(problem="why")
    _, samples = read(replace(it, node=replace(it.node, ids=MachineIds("m", "s", "b"))))

    machine = (("boot_id", "b"), ("machine_id", "m"), ("system_uuid", "s"))
    wanted = {"machine_cpu_cores": 2, "machine_memory_bytes": 1 << 30, "machine_swap_bytes": 50}
    wanted |= {"machine_cpu_physical_cores": 1, "machine_cpu_sockets": 1}
    assert wanted == {name: value for (name, labels), value in samples.items() if labels == machine}
    failed = {name: value for (name, labels), value in samples.items() if not labels}
    assert {"machine_scrape_error": 0, "container_scrape_error": 1} == failed
    (kernel,) = [dict(labels)["kernelVersion"] for name, labels in samples if name == "cadvisor_version_info"]
    assert "6.1.0" == kernel


def test_what_a_cgroup_does_not_tell_is_no_sample() -> None:
    types, _ = read(snapshot(of_pod=usage(3), of_container=usage(2)))

    assert {"container_cpu_usage_seconds_total", "container_memory_rss"} <= types.keys()
    assert (
        set()
        == {"container_cpu_user_seconds_total", "container_memory_cache", "container_fs_reads_total"} & types.keys()
    )
