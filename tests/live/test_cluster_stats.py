"""What node and pods use, in a real cluster: asked as metrics-server asks, directly and through the API server's proxy,
and compared with the summary and with the cgroups themselves.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from live.kit.cluster_agent import ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import KubectlFailed
from live.kit.manifests import pod, shell
from live.test_cluster_node_api import allow, as_user, client, run, trusting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

BUSY = "dd if=/dev/zero of=/data/f bs=1024 count=4096 2>/dev/null; echo written > /tmp/f; while true; do :; done"
# metrics-server's own: k8s.io/metrics-server asks for the text format by name and with a version
HEADERS = {"accept": "text/plain;version=0.0.4"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], tuple[float, float | None]]


def samples(text: str) -> Samples:
    """Value and moment of each sample, by name and labels."""
    return {
        (one.name, frozenset(one.labels.items())): (one.value, one.timestamp)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def of_pod(summary: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod's part of a summary."""
    return next(one for one in summary["pods"] if one["podRef"]["name"] == name)


@contextmanager
def named_log(*lines: str) -> Iterator[str]:
    """A file of our own below /var/log; its name."""
    file = Path("/var/log") / f"trikubelet-live-{os.getpid()}.log"
    file.write_text("".join(f"{line}\n" for line in lines))
    try:
        yield file.name
    finally:
        file.unlink()


def await_answer(who: httpx.Client, path: str) -> httpx.Response:
    """What is answered once the new right is known: that there was none is remembered for half a minute."""
    answers: list[httpx.Response] = []

    def allowed() -> bool:
        answers.append(who.post(path))
        return answers[-1].status_code != 403

    await_that(allowed, 60, lambda: "the right is not known", 1.0)
    return answers[-1]


def test_what_is_used_is_reported_as_metrics_server_and_dashboards_ask_for_it(member: ClusterAgent) -> None:
    plane = member.plane
    mounts = [{"name": "data", "mountPath": "/data"}]
    limits = {"limits": {"cpu": "500m", "memory": "64Mi"}}
    busy = shell("c", BUSY, volumeMounts=mounts, resources=limits)
    run(member, pod("busy", busy, volumes=[{"name": "data", "emptyDir": {}}]))
    plane.kubectl("create", "serviceaccount", "metrics-server")
    allow(plane, "metrics-server", "metrics", "stats", account=True)
    token = plane.kubectl("create", "token", "metrics-server").strip()
    who = {"container": "c", "namespace": "default", "pod": "busy"}
    cpu, memory = key("container_cpu_usage_seconds_total", **who), key("container_memory_working_set_bytes", **who)

    with client(member, trusting(), token) as scraper:

        def scrape() -> Samples:
            answer = scraper.get("/metrics/resource", headers=HEADERS)
            assert (200, "text/plain") == (answer.status_code, answer.headers["content-type"].partition(";")[0])
            return samples(answer.text)

        def summary(query: str = "") -> dict[str, Any]:
            told: dict[str, Any] = scraper.get(f"/stats/summary{query}").raise_for_status().json()
            return told

        first = scrape()
        await_that(lambda: scrape()[cpu][0] > first[cpu][0] + 1, 60, member.story, 1.5)
        last = scrape()
        (used, at), (used_then, at_then) = last[cpu], first[cpu]
        assert at is not None
        assert at_then is not None
        # it may have half a processor, and takes what it can get
        assert 0.05 < (used - used_then) / (at - at_then) < 0.6
        assert 0 < last[memory][0] < 64 << 20
        assert last[key("node_cpu_usage_seconds_total")][0] > 0
        # A pod is read before its containers.
        assert last[key("pod_cpu_usage_seconds_total", namespace="default", pod="busy")][0] >= used_then
        assert time.time() - 300 < last[key("container_start_time_seconds", **who)][0] < time.time()
        assert 0.0 == last[key("resource_scrape_error")][0]

        # the summary says the same, in its own words
        load = summary("?only_cpu_and_memory=true")
        (c,) = of_pod(load, "busy")["containers"]
        assert {"name", "startTime", "cpu", "memory", "swap"} == c.keys()
        assert c["cpu"]["usageCoreNanoSeconds"] >= round(used * 1e9)  # of the same look, if that was just now
        assert 50_000_000 < c["cpu"]["usageNanoCores"] < 600_000_000
        assert 0 < c["memory"]["workingSetBytes"] < 64 << 20
        assert load["node"]["nodeName"] == member.name

        # containerd measures the layers it has written to every ten seconds
        def layer_bytes() -> int:
            return int(of_pod(summary(), "busy")["containers"][0].get("rootfs", {}).get("usedBytes", 0))

        await_that(lambda: layer_bytes() > 0, 60, member.story, 1.0)
        whole = summary()
        busy_pod = of_pod(whole, "busy")
        (data,) = [one for one in busy_pod["volume"] if one["name"] == "data"]
        assert 4 << 20 <= data["usedBytes"] < 5 << 20
        assert busy_pod["ephemeral-storage"]["usedBytes"] >= data["usedBytes"]
        assert "eth0" == busy_pod["network"]["name"]
        for part in ("fs", "rlimit", "network", "swap"):
            assert whole["node"][part]
        assert whole["node"]["runtime"]["imageFs"]["usedBytes"] > 0
        assert "pods" in [one["name"] for one in whole["node"]["systemContainers"]]

        # dashboards' series
        cadvisor = samples(scraper.get("/metrics/cadvisor", headers=HEADERS).raise_for_status().text)
        named = {
            name
            for name, labels in cadvisor
            if {("container", "c"), ("pod", "busy"), ("namespace", "default")} <= labels
        }
        assert {
            "container_cpu_usage_seconds_total",
            "container_cpu_cfs_throttled_periods_total",
            "container_memory_working_set_bytes",
            "container_memory_rss",
            "container_spec_memory_limit_bytes",
            "container_spec_cpu_quota",
            "container_fs_usage_bytes",
            "container_start_time_seconds",
            "container_oom_events_total",
            "container_memory_kernel_usage",
            "container_threads",
        } <= named
        in_use = [dict(labels) for name, labels in cadvisor if name == "container_memory_usage_bytes"]
        (pods_own,) = [one["id"] for one in in_use if one["pod"] == "busy" and not one["container"]]
        assert pods_own.rpartition("/")[0] in [one["id"] for one in in_use if not one["pod"]]
        (disk,) = [dict(labels) for name, labels in cadvisor if name == "container_fs_limit_bytes"]
        assert ("/", True) == (disk["id"], bool(disk["device"]))
        assert any(
            name == "container_network_receive_bytes_total" and {("pod", "busy"), ("interface", "eth0")} <= labels
            for name, labels in cadvisor
        )

        # without the right there is nothing
        assert 403 == scraper.get("/pods").status_code

    # through the API server, as `kubectl get --raw` and older scrapers do
    proxied = plane.kubectl("get", "--raw", f"/api/v1/nodes/{member.name}/proxy/metrics/resource")
    assert cpu in samples(proxied)
    told = json.loads(plane.kubectl("get", "--raw", f"/api/v1/nodes/{member.name}/proxy/stats/summary"))
    assert "busy" == of_pod(told, "busy")["podRef"]["name"]


def test_kubectl_reads_the_nodes_logs_and_what_a_node_cannot_do_it_says(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    kubectl = control_plane.kubectl
    with ClusterAgent(containerd2, control_plane, enableSystemLogQuery=True) as member:
        member.wait_ready()
        run(member, pod("talks", shell("c", "echo from the pod; sleep 1000")))
        proxy = f"/api/v1/nodes/{member.name}/proxy"

        def ask(path: str) -> str:
            return kubectl("get", "--raw", f"{proxy}{path}")

        with named_log("first line", "second line", "third word") as name:
            assert f'<a href="{name}">{name}</a>' in ask("/logs/")
            assert "first line\nsecond line\nthird word\n" == ask(f"/logs/{name}")
            assert "second line\n" == ask(f"/logs/?query=/{name}&pattern=line&tailLines=1")
            assert "first line\nsecond line\nthird word\n" == ask(f"/logs/?query={name.removesuffix('.log')}")
        with pytest.raises(KubectlFailed, match=r"NotFound|could not find"):
            ask("/logs/?query=no-such-service")
        assert "kubelet statusz" in ask("/statusz")
        assert f"hostname-override={member.name}\n" in ask("/flagz")
        assert "serve_listeners" in ask("/debug/pprof/goroutine")
        assert ";trikubelet." in ask("/debug/pprof/profile?seconds=1")
        allow(control_plane, "reads", "log")
        with client(member, as_user(control_plane, "reads")) as may:
            out = may.get("/logs/%2e%2e/%2e%2e/etc/passwd")
            assert (403, "leads out of /var/log") == (out.status_code, out.text)
        with client(member, as_user(control_plane, "checks")) as may:
            path = "/checkpoint/default/talks/c"
            assert 403 == may.post(path).status_code
            allow(control_plane, "checks", "checkpoint", verb="create")
            answer = await_answer(may, path)
            # containerd 2.2 has the call, and says what it lacks for it
            assert (500, True) == (answer.status_code, "criu" in answer.text.lower()), answer.text
            assert answer.text.startswith("checkpointing of default/talks/c failed (")
            assert 404 == may.post("/checkpoint/default/talks/none").status_code
