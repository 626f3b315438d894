"""/metrics/cadvisor: every series dashboards ask for, with its labels and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.statskit import AT_NS, detailed, snapshot, usage
from trikubelet.server.cadvisor_metrics import cadvisor_metrics

if TYPE_CHECKING:
    from trikubelet.model.stats_snapshot import StatsSnapshot

S = AT_NS / 1e9
NODE = {"container": "", "id": "/", "image": "", "name": "", "namespace": "", "pod": ""}
POD = NODE | {"id": "/kubepods/podu1", "namespace": "default", "pod": "web"}
APP = POD | {"id": "/kubepods/podu1/c1", "container": "app", "image": "app:1", "name": "c1"}


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


def test_node_and_pod_are_told_apart_from_containers_by_empty_labels() -> None:
    _, samples = read(snapshot(of_pod=detailed(3), of_container=detailed(2)))

    found = {labels: told for (name, labels), told in samples.items() if name == "container_memory_working_set_bytes"}
    wanted = ((NODE, 100_000), (NODE | {"id": "/kubepods"}, 50_000), (POD, 3000), (APP, 2000))
    assert {tuple(sorted(who.items())): n for who, n in wanted} == found


def test_the_machine_is_reported_and_so_is_a_failure() -> None:
    _, samples = read(snapshot(problem="why"))

    wanted = {"machine_cpu_cores": 2, "machine_memory_bytes": 1 << 30, "machine_swap_bytes": 50}
    wanted |= {"machine_cpu_physical_cores": 1, "machine_cpu_sockets": 1}
    assert wanted | {"container_scrape_error": 1} == {name: samples[name, ()] for name, labels in samples if not labels}
    (kernel,) = [dict(labels)["kernelVersion"] for name, labels in samples if name == "cadvisor_version_info"]
    assert "6.1.0" == kernel


def test_what_a_cgroup_does_not_tell_is_no_sample() -> None:
    types, _ = read(snapshot(of_pod=usage(3), of_container=usage(2)))

    assert {"container_cpu_usage_seconds_total", "container_memory_rss"} <= types.keys()
    assert (
        set()
        == {"container_cpu_user_seconds_total", "container_memory_cache", "container_fs_reads_total"} & types.keys()
    )
