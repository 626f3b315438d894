"""GET /metrics on the local API: upstream's names, read back with Prometheus' own parser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shell.localkit import NOW_NS, FakeView, served
from trikubelet.cri.channel import CALL_SECONDS
from trikubelet.host.own_process import own_process, take_name
from trikubelet.kit.call_figures import CallFigures
from trikubelet.kit.distribution import Distribution
from trikubelet.server.metrics import operation

if TYPE_CHECKING:
    from pathlib import Path

NOW_SECONDS = NOW_NS / 10**9


async def scraped(
    view: FakeView, directory: Path, path: str = "/metrics"
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample by its name and labels."""
    async with served(view, directory) as agent:
        said = (await agent.get(path)).decode()
    found = {}
    for family in text_string_to_metric_families(said):
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.items())] = sample.value
    return found


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("kubelet_pleg_last_seen_seconds", (), NOW_SECONDS - 2.5),
        ("kubelet_running_pods", (), 7),
        ("kubelet_running_containers", (("container_state", "created"),), 1),
        ("kubelet_running_containers", (("container_state", "running"),), 12),
        ("kubelet_running_containers", (("container_state", "exited"),), 3),
        ("kubelet_running_containers", (("container_state", "unknown"),), 4),
        ("kubelet_pleg_relist_duration_seconds_bucket", (("le", "0.005"),), 1),
        ("kubelet_pleg_relist_duration_seconds_bucket", (("le", "0.1"),), 2),
        ("kubelet_pleg_relist_duration_seconds_bucket", (("le", "+Inf"),), 3),
        ("kubelet_pleg_relist_duration_seconds_count", (), 3),
        ("kubelet_pleg_relist_duration_seconds_sum", (), 20.103),
        ("kubelet_pleg_relist_interval_seconds_count", (), 1),
        ("trikubelet_pleg_list_bytes", (), 4096),
        ("trikubelet_pleg_decode_duration_seconds_bucket", (("le", "0.0005"),), 0),
        ("trikubelet_pleg_decode_duration_seconds_bucket", (("le", "0.001"),), 1),
        ("trikubelet_pleg_inspections_running", (), 2),
        ("trikubelet_pleg_oldest_inspection_age_seconds", (), 45),
        ("trikubelet_pleg_hung_pods", (), 1),
        ("trikubelet_pleg_hints_skipped_total", (), 5),
        ("trikubelet_pleg_events_received_total", (), 8),
        ("trikubelet_pleg_events_reliable", (), 1),
        ("kubelet_admission_rejections_total", (("reason", "OutOfcpu"),), 2),
        ("kubelet_pod_status_sync_duration_seconds_bucket", (("le", "0.1"),), 0),
        ("kubelet_pod_status_sync_duration_seconds_bucket", (("le", "1"),), 1),
        ("trikubelet_status_patches_total", (), 20),
        ("trikubelet_status_removals_total", (), 3),
        ("trikubelet_status_failures_total", (), 4),
        ("trikubelet_status_waiting", (), 1),
        ("trikubelet_events_written_total", (), 30),
        ("trikubelet_events_lost_total", (), 5),
        ("trikubelet_events_filtered_total", (), 6),
        ("trikubelet_events_refused_total", (), 7),
        ("trikubelet_events_waiting", (), 2),
        ("kubelet_graceful_shutdown_start_time_seconds", (), 1767225600),
        ("kubelet_graceful_shutdown_end_time_seconds", (), 1767225609),
    ],
)
async def test_what_was_measured_is_reported_under_upstreams_names(
    name: str, labels: tuple[tuple[str, str], ...], value: float, tmp_path: Path
) -> None:
    view = FakeView()
    for seconds in (0.003, 0.1, 20):
        view.measured.relists.add(seconds)
    view.measured.intervals.add(1.0)
    view.measured.list_bytes = 4096
    view.measured.decodes.add(0.001)

    assert value == pytest.approx((await scraped(view, tmp_path))[name, labels])


async def test_nothing_but_the_nodes_own_metrics_is_reported(tmp_path: Path) -> None:
    names = {name for name, _ in await scraped(FakeView(), tmp_path)}

    known = ("kubelet_", "trikubelet_", "process_", "python_", "kubernetes_")
    assert set() == {name for name in names if not name.startswith(known)}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= names


def test_the_agent_may_be_called_by_a_name_that_is_no_whole_utf_8(tmp_path: Path) -> None:
    (tmp_path / "self/fd").mkdir(parents=True)
    (tmp_path / "self/statm").write_text("3 2 1 0 0 0 0\n")
    ticks = 5 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "self/stat").write_bytes(b"7 (\xd0\xb0\xd0) S " + b"1 " * 18 + b"%d 0 0\n" % ticks)
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1000\n")

    assert 1005 == own_process(tmp_path).started_seconds


async def test_counters_of_upstreams_without_total_are_counters_all_the_same(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path) as agent:
        said = (await agent.get("/metrics")).decode()

    # in the text itself: the parser puts _total behind them
    for line in ("kubelet_pleg_discard_events 6", 'kubelet_preemptions{preemption_signal="memory"} 3'):
        assert f"\n{line}\n" in said
        assert f"# TYPE {line.split()[0].partition('{')[0]} counter\n" in said


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("run_podsandbox", "/runtime.v1.RuntimeService/RunPodSandbox"),
        ("podsandbox_status", "/runtime.v1.RuntimeService/PodSandboxStatus"),
        ("list_podsandbox", "/runtime.v1.RuntimeService/ListPodSandbox"),
        ("list_podsandbox_stats", "/runtime.v1.RuntimeService/ListPodSandboxStats"),
        ("exec_sync", "/runtime.v1.RuntimeService/ExecSync"),
        ("version", "/runtime.v1.RuntimeService/Version"),
        ("reopen_container_log", "/runtime.v1.RuntimeService/ReopenContainerLog"),
        ("update_container", "/runtime.v1.RuntimeService/UpdateContainerResources"),
        ("image_fs_info", "/runtime.v1.ImageService/ImageFsInfo"),
        ("pull_image", "/runtime.v1.ImageService/PullImage"),
    ],
)
def test_methods_of_the_runtime_have_upstreams_words(word: str, path: str) -> None:
    assert word == operation(path)


async def test_calls_to_the_runtime_are_told_with_their_failures(tmp_path: Path) -> None:
    figures = CallFigures(CALL_SECONDS)
    for seconds, failed in ((0.004, False), (0.01, True)):
        figures.note("/runtime.v1.RuntimeService/ExecSync", seconds, failed=failed)
    found = await scraped(FakeView(called=[figures]), tmp_path)

    name, labels = "kubelet_runtime_operations", (("operation_type", "exec_sync"),)
    assert (2, 1) == (found[f"{name}_total", labels], found[f"{name}_errors_total", labels])
    bounds = [
        labels["le"] for one, pairs in found if one == f"{name}_duration_seconds_bucket" for labels in [dict(pairs)]
    ]
    assert ["0.005", "0.0125", "0.03125"] == bounds[:3]
    assert (15, "+Inf") == (len(bounds), bounds[-1])


def test_a_value_counts_for_every_bound_it_does_not_exceed() -> None:
    spread = Distribution((1.0, 2.0))
    for value in (1.0, 1.5, 2.5):
        spread.add(value)

    assert [(1.0, 1), (2.0, 2), (float("inf"), 3)] == spread.buckets
    assert 5.0 == spread.sum


async def test_probes_are_measured_apart_under_upstreams_names(tmp_path: Path) -> None:
    found = await scraped(FakeView(), tmp_path, "/metrics/probes")

    who = {"probe_type": "Readiness", "container": "main", "pod": "web", "namespace": "default"}
    sums = {(name, *sorted(labels)): value for (name, labels), value in found.items() if "_bucket" not in name}
    assert own_process().started_seconds == sums.pop(("process_start_time_seconds",))
    assert {
        ("prober_probe_total", *sorted({**who, "pod_uid": "u1", "result": "successful"}.items())): 4,
        ("prober_probe_total", *sorted({**who, "pod_uid": "u1", "result": "failed"}.items())): 1,
        ("prober_probe_duration_seconds_count", *sorted(who.items())): 1,
        ("prober_probe_duration_seconds_sum", *sorted(who.items())): 0.5,
    } == sums


@pytest.mark.parametrize(
    ("name", "program"),
    [("kubelet", "/usr/bin/kubelet"), ("trikubelet", "/usr/bin/trikubelet"), ("trikubelet", "/x/__main__.py")],
)
def test_process_is_named_after_its_program_and_not_after_the_interpreter(
    name: str, program: str, tmp_path: Path
) -> None:
    take_name(program, tmp_path)  # there is nothing to write: no error
    (tmp_path / "self").mkdir()
    take_name(program, tmp_path)
    assert name == (tmp_path / "self/comm").read_text()
