"""Upstream's metrics by the table of ``upstream_metrics``: each that is said to be here is, in its shape, and no other.

What ``/metrics`` says beyond that begins with ``trikubelet_`` or with ``python_``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import upstream_metrics
from shapes import Shape, shapes
from shell.localkit import FakeView, node_figures
from shell.memberkit import Bench, until
from trikubelet.app.view import View
from trikubelet.cri.channel import CALL_SECONDS
from trikubelet.httpd.messages import Request, Response
from trikubelet.images.figures import Ensured, PullFigures
from trikubelet.kit.call_figures import CallFigures
from trikubelet.kube.figures import ApiFigures
from trikubelet.model import k8s
from trikubelet.model.certificates import CLIENT_SIGNER, SERVING_SIGNER
from trikubelet.model.device_figures import DeviceFigures
from trikubelet.model.feature_gates import FeatureGates
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.model.usage import FsUsage
from trikubelet.model.volume_figures import VolumeFigures
from trikubelet.node.figures import RotationFigures
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.startups import Startups
from trikubelet.server.exposition import exposed
from trikubelet.server.http_figures import HttpFigures
from trikubelet.server.metrics import node_families, probe_families
from trikubelet.server.node_figures import Setup
from trikubelet.status.figures import PublishFigures
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from upstream_metrics import Row

OWN = ("trikubelet_", "python_")
SETUP = Setup("v1.37.2+trikubelet.0.1.0", 2, FeatureGates().states())


def shape(row: Row) -> Shape:
    return Shape(row.kind, frozenset(row.labels), row.bounds)


async def asked() -> HttpFigures:
    """A server that was asked once."""
    figures = HttpFigures(("/metrics",), {"exec": 1})

    async def answer(_: Request) -> Response:
        return Response()

    await figures.counted("readwrite", answer)(Request("GET", "/metrics"))
    return figures


async def test_a_node_of_a_cluster_shows_every_metric_that_needs_nothing_special(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.clients.figures.answered("api", "GET", "200", 0.1, 10)
    bench.clients.figures.received["GET", "api"].add(1000)
    calls = CallFigures(CALL_SECONDS)  # of a channel, which a runtime in memory does not have
    calls.note("/runtime.v1.RuntimeService/Version", 0.01, failed=False)
    async with bench.agent() as (node, member):
        bench.schedule("web", volumes=(k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource()),))
        await until(lambda: bench.is_ready("web") and node.startups.total_seconds.count == 1)
        cluster: Any = SimpleNamespace(
            publishing=lambda: PublishFigures(
                member.writer.figures(), member.events.figures(), member.publisher.startup
            ),
            asked=lambda: bench.clients.figures,
            rotations=lambda: (),
        )
        view = View(node, VirtualClock(), "n", "/logs", dict, lambda: SETUP, cluster, [calls])
        found = shapes(exposed(node_families(view, VirtualClock().now_ns(), await asked())).decode())

    told = {row.name: shape(row) for row in upstream_metrics.HERE if row.often}
    assert told == {name: found.get(name) for name in told}


def busy() -> Any:
    """Figures of a node on which everything happened."""
    pods, pulls, volumes, api, devices = PodFigures(), PullFigures(), VolumeFigures(), ApiFigures(), DeviceFigures()
    pods.syncs["create"].add(1)
    pods.cgroups["update"].add(1)
    pods.sandboxes["kata"].add(1)
    pods.sandbox_failures["kata"] += 1
    pods.started["container"] += 1
    pods.start_failures["container", "ErrImagePull"] += 1
    pods.resizes_asked["cpu", "limits", "increase"] += 1
    pods.resizes["true"].add(1)
    pods.resizes_infeasible["swap_limitation"] += 1
    pods.resizes_accepted["pods_removed"] += 1
    pods.resizes_deferred["accepted", "normal"].add(1)
    pods.admitted["container_level", "burstable"] += 1
    pulls.durations["0-10MB"].add(1)
    pulls.ensured[Ensured("true", "always", "false")] += 1
    volumes.tried("u", "v", "kubernetes.io/secret", 1, succeeded=True)
    devices.registrations["example.com/gpu"] += 1
    devices.allocations["example.com/gpu"].add(1)
    for method in ("list", "get", "get_allocatable"):
        devices.calls[method, "v1"] += 1
        devices.errors[method, "v1"] += 1
    api.answered("api", "PATCH", "200", 1, 10)
    api.received["PATCH", "api"].add(1)
    api.retries["429", "PATCH", "api"] += 1
    startups = Startups(VirtualClock())
    startups.first_network_seconds = 2.0
    return node_figures(
        setup=SETUP,
        pods=pods,
        startups=startups,
        ended={("container", 1, "Error"): 1},
        pulls=pulls,
        volumes=volumes,
        devices=devices,
        api=api,
        rotations=[RotationFigures(CLIENT_SIGNER), RotationFigures(SERVING_SIGNER, 10**18, 2)],
    )


async def test_every_metric_that_is_said_to_be_here_is_and_no_other_of_upstreams() -> None:
    calls = CallFigures(CALL_SECONDS)
    calls.note("/runtime.v1.RuntimeService/Version", 0.01, failed=True)
    view = FakeView(called=[calls], counted=busy())
    full = VolumeUsed("v", FsUsage(1, 2, 3, 4, 5, 6, 7), "claim", is_abnormal=True)
    found = shapes(exposed(node_families(view, 10**18, await asked(), [("default", full)])).decode())
    upstream = {name: one for name, one in found.items() if not name.startswith(OWN)}
    told = {row.name: shape(row) for row in upstream_metrics.HERE}
    status = "kubelet_pod_status_sync_duration_seconds"  # the view's has bounds of its own, see the test above

    assert told.keys() == upstream.keys()
    assert {**told, status: None} == {**upstream, status: None}


async def test_what_probes_show_has_upstreams_shape() -> None:
    found = shapes(exposed(probe_families(FakeView())).decode())

    assert {row.name: (row.kind, frozenset(row.labels)) for row in upstream_metrics.PROBES} == {
        name: (one.kind, one.labels) for name, one in found.items()
    }


def test_no_metric_is_both_here_and_absent() -> None:
    absent = [name for names in upstream_metrics.ABSENT.values() for name in names.split()]
    here = {row.name for row in (*upstream_metrics.HERE, *upstream_metrics.PROBES)}

    assert len({*absent, *here}) == len(absent) + len(here)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ('kubernetes_feature_enabled{name="MemoryQoS",stage="BETA"}', "1"),
        ('kubernetes_feature_enabled{name="NodeSwap",stage=""}', "1"),
        ("kubelet_cgroup_version", "2"),
        ("kubelet_certificate_manager_client_ttl_seconds", "inf"),
        ("kubelet_certificate_manager_server_ttl_seconds", "3600.0"),
        ("kubelet_server_expiration_renew_errors", "2"),
        ('volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="actual_state_of_world"}', "1"),
        ('kubelet_started_containers_errors_total{container_type="container",code="ErrImagePull"}', "1"),
        ("kubelet_started_pods_total", "1"),
        ("kubelet_node_startup_registration_duration_seconds", "1.0"),
        ("kubelet_node_startup_post_registration_duration_seconds", "1.0"),
        ("kubelet_node_startup_duration_seconds", "3.0"),
    ],
)
async def test_what_was_measured_has_its_name_and_labels(name: str, value: str) -> None:
    view = cast("Any", FakeView(counted=busy()))
    lines = exposed(node_families(view, 10**18 - 3600 * 10**9)).decode().splitlines()

    assert [f"{name} {value}"] == [line for line in lines if line.startswith(f"{name} ")]


OF_MIXIN = {
    "kubelet_node_name": (),
    "kubelet_running_pods": (),
    "kubelet_running_containers": ("container_state",),
    "kubelet_pleg_relist_duration_seconds": (),
    "kubelet_pleg_relist_interval_seconds": (),
    "kubelet_pod_start_duration_seconds": (),
    "kubelet_pod_worker_duration_seconds": ("operation_type",),
    "kubelet_runtime_operations_total": ("operation_type",),
    "kubelet_runtime_operations_errors_total": ("operation_type",),
    "kubelet_runtime_operations_duration_seconds": ("operation_type",),
    "kubelet_evictions": ("eviction_signal",),
    "kubelet_certificate_manager_client_ttl_seconds": (),
    "kubelet_certificate_manager_client_expiration_renew_errors": (),
    "kubelet_server_expiration_renew_errors": (),
    "kubelet_volume_stats_available_bytes": ("namespace", "persistentvolumeclaim"),
    "kubelet_volume_stats_capacity_bytes": ("namespace", "persistentvolumeclaim"),
    "kubelet_volume_stats_used_bytes": ("namespace", "persistentvolumeclaim"),
    "kubelet_volume_stats_inodes": ("namespace", "persistentvolumeclaim"),
    "kubelet_volume_stats_inodes_free": ("namespace", "persistentvolumeclaim"),
    "kubelet_volume_stats_inodes_used": ("namespace", "persistentvolumeclaim"),
    "volume_manager_total_volumes": ("plugin_name", "state"),
    "storage_operation_duration_seconds": ("operation_name", "volume_plugin"),
    "rest_client_requests_total": ("code", "method"),
    "rest_client_request_duration_seconds": ("verb",),
}
"""The metrics that rules, alerts and dashboards of kubernetes-mixin read of ``/metrics``, and labels they group by."""


@pytest.mark.parametrize(("name", "labels"), OF_MIXIN.items())
def test_kubernetes_mixin_finds_its_metrics_with_the_labels_it_groups_by(name: str, labels: tuple[str, ...]) -> None:
    (row,) = [row for row in upstream_metrics.HERE if row.name == name]

    assert set(labels) <= set(row.labels)
