"""What the status writer, the mirrors and the events say is taken by a real API server as it is meant, from a node that
NodeRestriction holds to its own. Nothing runs here: the test says how far each pod is.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.status.apikit import PodStates, computed
from trikubelet.core.names import CONFIG_HASH, namespaced_name
from trikubelet.host.clock import SystemClock
from trikubelet.kit.outage import Outage
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.informer import Informer
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS, PatchKind, Selection
from trikubelet.model.api_errors import Conflict
from trikubelet.model.bounds import Bounds
from trikubelet.model.decoding import decode_object
from trikubelet.model.objects import ObjectRef
from trikubelet.sources.api import decode_pod
from trikubelet.status.event_writer import EventRate, EventWriter
from trikubelet.status.memory import PodStatuses
from trikubelet.status.mirror import MirrorPods
from trikubelet.status.writer import StatusWriter
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

NODE = "told-of"
WAIT_SECONDS_MAX = 60.0
replace = msgspec.structs.replace


@pytest.fixture
def clock() -> None:
    """Real time: this is a real server."""


class Told:
    """A node that tells of its pods and runs none."""

    def __init__(self, plane: ControlPlane, api: ApiClient, node: k8s.Node) -> None:
        self.plane = plane
        self.pod_states = PodStates()
        self.statuses = PodStatuses()
        self.static: list[k8s.Pod] = []
        self.api = api
        outage, bounds, chance = Outage("The API server"), Bounds(), random.Random(1)
        self.pods = Informer(self.api, PODS, Selection(fields=f"spec.nodeName={NODE}"), decode_pod, outage)
        self.writer = StatusWriter(
            self.api, self.statuses, self.pods, self.pod_states, SystemClock(), outage, bounds, chance
        )
        self.mirrors = MirrorPods(
            self.api,
            lambda: self.static,
            self.pods,
            lambda: node,
            self.pod_states,
            self.statuses,
            outage,
            bounds,
            chance,
        )
        self.events = EventWriter(self.api, NODE, EventRate(100, 50), SystemClock(), outage, bounds, chance)
        self.pods.add_listener(self.writer.enqueue)
        self.pods.add_listener(self.mirrors.enqueue)
        self.statuses.changed.add(lambda _uid, pod, *_: self.writer.enqueue([namespaced_name(pod)]))

    async def kubectl(self, *words: str, manifests: str | dict[str, Any] = "") -> str:
        """An operator's word."""
        return await trio.to_thread.run_sync(lambda: self.plane.kubectl(*words, manifests=manifests))

    async def becomes(self, what: Callable[[], bool]) -> None:
        """Wait until something is so."""
        with trio.fail_after(WAIT_SECONDS_MAX):
            while not what():  # noqa: ASYNC110 - what is waited for is told by several parts
                await trio.sleep(0.02)

    def seen(self, name: str) -> k8s.Pod | None:
        """The pod as the informer has it."""
        return self.pods.objects.get(("default", name))

    def says(self, name: str) -> k8s.PodStatus:
        """Its status as the informer has it."""
        found = self.seen(name)
        return found.status or k8s.PodStatus() if found is not None else k8s.PodStatus()

    def publish(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """A worker computed a status."""
        self.statuses.publish(pod.metadata.uid, pod, status)


@asynccontextmanager
async def telling(plane: ControlPlane) -> AsyncIterator[Told]:
    """A node with all that tells of it, running."""
    await trio.to_thread.run_sync(
        lambda: plane.kubectl(
            "create", "-f-", manifests={"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        )
    )
    kubeconfig = await trio.to_thread.run_sync(plane.node_kubeconfig, NODE)
    client = ApiClient(Credentials(load_kubeconfig(kubeconfig), SystemClock(), {}), "trikubelet/tests")
    node = decode_object((await client.get(NODES, NODE)).raw, k8s.Node)
    told = Told(plane, client, node)
    try:
        async with trio.open_nursery() as nursery:
            for run in (told.pods.run, told.writer.run, told.mirrors.run, told.events.run):
                nursery.start_soon(run)
            yield told
            nursery.cancel_scope.cancel()
    finally:
        client.reset()


async def make(told: Told, name: str, **meta: object) -> k8s.Pod:
    """A pod of the node, as the informer has it."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "i"}], "terminationGracePeriodSeconds": 3},
    }
    await told.kubectl("create", "-f-", manifests=manifest)
    await told.becomes(lambda: told.seen(name) is not None)
    found = told.seen(name)
    assert found is not None
    return found


def addressed(status: k8s.PodStatus, *ips: str) -> k8s.PodStatus:
    return replace(status, pod_ip=ips[0] if ips else "", pod_ips=tuple(k8s.PodIP(ip=ip) for ip in ips))


async def test_a_status_is_kept_as_told_and_what_went_away_is_gone(control_plane: ControlPlane) -> None:
    async with telling(control_plane) as told:
        web = await make(told, "web")
        gate = '{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}'
        await told.kubectl("patch", "pod", "web", "--subresource=status", "-p", gate)
        shown = k8s.ContainerStatus(name="main", image="i", image_id="", ready=True, restart_count=0, started=True,
                                    state=k8s.ContainerState(running=k8s.ContainerStateRunning()))  # fmt: skip
        first = addressed(computed(message="first", ready=True), "10.0.0.1", "fd00::1")
        told.publish(web, replace(first, container_statuses=(shown,), start_time="2027-01-15T08:00:00Z"))
        await told.becomes(lambda: told.says("web").message == "first")
        found = told.says("web")
        assert {"example.com/gate": "True", "Ready": "True"} == {c.type: c.status for c in found.conditions}
        assert ("10.0.0.1", ("10.0.0.1", "fd00::1")) == (found.pod_ip, tuple(ip.ip for ip in found.pod_ips))
        assert [(True, True)] == [(c.ready, c.started) for c in found.container_statuses]

        told.publish(web, addressed(computed(ready=False), "10.0.0.2"))
        await told.becomes(lambda: told.says("web").pod_ip == "10.0.0.2")
        found = told.says("web")
        assert ("", ("10.0.0.2",), ()) == (
            found.message,
            tuple(ip.ip for ip in found.pod_ips),
            found.container_statuses,
        )
        assert {"example.com/gate": "True", "Ready": "False"} == {c.type: c.status for c in found.conditions}
        assert "2027-01-15T08:00:00Z" == found.start_time

        told.publish(web, k8s.PodStatus(phase="Running", message="bare"))
        await told.becomes(lambda: told.says("web").message == "bare")
        found = told.says("web")
        assert ["example.com/gate"] == [c.type for c in found.conditions]
        assert ("", ()) == (found.pod_ip, found.pod_ips)
        await told.becomes(lambda: told.writer.figures().patches == 3)


async def test_a_pod_that_ended_is_reported_and_goes_and_one_never_begun_goes_too(control_plane: ControlPlane) -> None:
    async with telling(control_plane) as told:
        pods = [await make(told, name) for name in ("ended", "unbegun")]
        told.publish(pods[0], computed())
        await told.becomes(lambda: told.says("ended").phase == "Running")
        await told.kubectl("delete", "pod", "ended", "unbegun", "--wait=false")
        await told.becomes(lambda: all(p.metadata.deletion_timestamp for p in told.pods.objects.values()))
        told.pod_states.stopped.add(pods[0].metadata.uid)
        told.publish(pods[0], computed("Failed"))
        await told.becomes(lambda: told.says("ended").phase == "Failed")
        told.pod_states.finished.update(pod.metadata.uid for pod in pods)
        told.writer.enqueue(map(namespaced_name, pods))
        await told.becomes(lambda: not told.pods.objects)
        await told.becomes(lambda: told.writer.figures().removals == 2)
        assert 0 == told.writer.figures().failures


async def test_an_older_pods_status_is_not_put_on_its_successor(control_plane: ControlPlane) -> None:
    async with telling(control_plane) as told:
        older = await make(told, "web")
        await told.kubectl("delete", "pod", "web", "--grace-period=0", "--force")
        await told.becomes(lambda: told.seen("web") is None)
        await make(told, "web")
        body = {"metadata": {"uid": older.metadata.uid}, "status": {"message": "of the older one"}}
        with pytest.raises(Conflict):
            await told.api.patch(PODS, "web", body, "default", kind=PatchKind.STRATEGIC, subresource="status")


async def test_static_pod_has_a_mirror_pod_that_is_recreated_after_deletion(control_plane: ControlPlane) -> None:
    async with telling(control_plane) as told:
        static = pod("static", uid="h1")
        meta = replace(static.metadata, annotations={**static.metadata.annotations, CONFIG_HASH: "h1"})
        static = replace(static, metadata=meta, spec=replace(static.spec, node_name=NODE))
        told.publish(static, computed(ready=True))
        told.static = [static]
        await told.becomes(lambda: told.says("static").phase == "Running")
        first = told.seen("static")
        assert first is not None
        assert [("Node", NODE)] == [(owner.kind, owner.name) for owner in first.metadata.owner_references]

        await told.kubectl("delete", "pod", "static", "--wait=false")
        await told.becomes(lambda: (now := told.seen("static")) is not None and now.metadata.uid != first.metadata.uid)
        await told.becomes(lambda: told.says("static").phase == "Running")

        told.static = []
        told.pod_states.stopped.add("h1")
        await told.becomes(lambda: told.seen("static") is None)


async def test_events_are_taken_and_counted(control_plane: ControlPlane) -> None:
    async with telling(control_plane) as told:
        web = await make(told, "web")
        ref = ObjectRef("Pod", "web", "default", web.metadata.uid, "spec.containers{main}")
        for number in range(3):
            told.events.record(ref, "Warning", "BackOff", "Back-off restarting failed container")
            await told.becomes(lambda written=number + 1: told.events.figures().written == written)
        told.events.record(ObjectRef("Node", NODE, uid=NODE), "Normal", "Starting", "Starting kubelet.")
        await told.becomes(lambda: told.events.figures().written == 4)

        # Of this node's kubelet alone: other tests have left events of theirs.
        form = 'jsonpath={range .items[?(@.source.host=="%s")]}{.reason}={.count} {end}' % NODE  # noqa: UP031 - braces
        counts = await told.kubectl("get", "events", "-A", "--field-selector=source=kubelet", "-o", form)
        assert {"BackOff=3", "Starting=1"} == set(counts.split())
        assert "x3" in await told.kubectl("describe", "pod", "web")
