"""/metrics/resource, read as metrics-server does: by names and labels, each sample with its moment."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from core.statskit import AT_NS, snapshot, usage
from trikubelet.model.stats_snapshot import StatsSnapshot
from trikubelet.server.resource_metrics import resource_metrics

POD = {"namespace": "default", "pod": "web"}
APP = POD | {"container": "app"}


def read(it: StatsSnapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float | None]]:
    """Value and moment of each sample."""
    found = {}
    for family in text_string_to_metric_families(resource_metrics(it).decode()):
        for one in family.samples:
            found[one.name, tuple(sorted(one.labels.items()))] = (one.value, one.timestamp)
    return found


def named(name: str, labels: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def test_node_pods_and_containers_are_reported_under_upstreams_names() -> None:
    at = AT_NS / 1e9
    assert {
        named("node_cpu_usage_seconds_total", {}): (100.0, at),
        named("node_memory_working_set_bytes", {}): (100_000.0, at),
        named("node_swap_usage_bytes", {}): (5.0, at),
        named("pod_cpu_usage_seconds_total", POD): (3.0, at),
        named("pod_memory_working_set_bytes", POD): (3000.0, at),
        named("container_cpu_usage_seconds_total", APP): (2.0, at),
        named("container_memory_working_set_bytes", APP): (2000.0, at),
        named("container_swap_usage_bytes", APP): (7.0, at),
        named("container_swap_limit_bytes", APP): (8.0, at),
        named("container_start_time_seconds", APP): (at - 5, at),
        named("resource_scrape_error", {}): (0.0, None),
    } == read(snapshot(of_pod=usage(3), of_container=usage(2, swap_bytes=7, swap_limit_bytes=8)))


def test_no_limit_of_swap_is_reported_where_swap_is_not_accounted_for() -> None:
    found = read(snapshot(of_container=usage(2, swap_limit_bytes=8)))

    assert set() == {name for name, _ in found if name.startswith("container_swap_")}


def test_what_is_not_known_is_left_out_and_the_failure_told() -> None:
    found = read(snapshot(problem="the runtime is away"))

    assert {"node", "resource"} == {name.partition("_")[0] for name, _ in found}
    assert 1.0 == found[named("resource_scrape_error", {})][0]
