"""The local API's data about the agent itself (``server.agent_view.AgentView``): settings, runtime, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.app.doctor import examine
from trikubelet.app.shown_pods import observed
from trikubelet.core.configuration.written import written
from trikubelet.core.doctor import judge_manifests
from trikubelet.core.node_status import build, differs, new_node
from trikubelet.core.pod_status.phase import FAILED, SUCCEEDED
from trikubelet.core.restarts import NEVER, is_sidecar, policy
from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model import k8s
from trikubelet.model.faults import Fault
from trikubelet.model.runtime_errors import RuntimeTimeout
from trikubelet.server.agent_view import ConfigNote, ImageNote
from trikubelet.server.node_view import ManifestFault, NotShown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from trikubelet.app.node import Node
    from trikubelet.app.settings import Settings
    from trikubelet.app.view import View
    from trikubelet.core.doctor import Finding
    from trikubelet.core.node_status import Identity, NodeReport
    from trikubelet.ports import Clock, Images

IMAGES_SECONDS_MAX = 10.0
GIVEN_AS: Final = {
    "root directory": "--root-dir",
    "pod logs": "podLogsDir",
    "certificates": "--cert-dir",
    "container runtime": "containerRuntimeEndpoint",
    "kubeconfig": "--kubeconfig",
    "bootstrap kubeconfig": "--bootstrap-kubeconfig",
    "static pods": "staticPodPath",
}
"""The flags and fields that set places; the sockets have none."""


class AgentNotes:
    """Owns the node as it was last returned here, so that its conditions keep the time of their last change, and an
    unchanged one stays the same object; and the kubeconfig for ``trikubelet kubeconfig``."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        report: Callable[[], Awaitable[NodeReport]],
        node: Node,
        view: View,
        images: Images,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._report = report
        self._node = node
        self._view = view
        self._images = images
        self._clock = clock
        self._begun_ns = clock.now_ns()  # no file records when this node's first agent began
        self._published: k8s.Node | None = None
        self._published_ns = 0
        self._kubeconfig = b""

    async def node(self) -> k8s.Node:
        """Return the Node object of its cluster, or as a cluster would have it: without one it is as old as this
        agent."""
        known = self._node.node_object.newest  # one with a status is the cluster's
        if known is not None and known.status is not None:
            return known
        now_ns = self._clock.now_ns()
        before = (self._published.status if self._published is not None else None) or k8s.NodeStatus()
        status = build(await self._report(), before, rfc3339(now_ns))
        # Like a node of a cluster: a changed heartbeat time alone is published only after the report period.
        late = now_ns - self._published_ns >= self._settings.configuration.node_status_report_frequency * SECOND_NS
        if self._published is None or late or differs(before, status):
            made = new_node(self._identity, status)
            created = rfc3339(self._begun_ns) if self._settings.standalone else ""  # the cluster knows that of a member
            metadata = msgspec.structs.replace(made.metadata, creation_timestamp=created)
            self._published, self._published_ns = msgspec.structs.replace(made, metadata=metadata), now_ns
        return self._published

    async def images(self) -> Sequence[ImageNote]:
        """Return the runtime's images, by their first names. Raises RuntimeCallError."""
        try:
            with trio.fail_after(IMAGES_SECONDS_MAX):
                found = await self._images.list_images()
        except trio.TooSlowError as error:
            raise RuntimeTimeout(f"no answer about images within {IMAGES_SECONDS_MAX:g} s") from error
        notes = [ImageNote(one.id, one.repo_tags, one.repo_digests, one.size_bytes, one.pinned) for one in found]
        return sorted(notes, key=lambda note: (note.tags, note.digests, note.id))

    def configuration(self) -> ConfigNote:
        """Return the agent's configuration."""
        return config_note(self._settings)

    def kubectl_may_ask(self, kubeconfig: bytes) -> None:
        """Note that there is an API for kubectl from now on, with this kubeconfig."""
        self._kubeconfig = kubeconfig

    def kubeconfig(self) -> bytes:
        """Return the kubeconfig with which kubectl reads this node. Raises NotShown if that is not configured."""
        if not self._kubeconfig:
            raise NotShown(
                "kubectl cannot read from this agent: start it with --kubectl-port=PORT, and without --kubeconfig"
            )
        return self._kubeconfig

    def restart(self, namespace: str, name: str, container: str) -> Mapping[str, str]:
        """Request a restart of all containers of a pod, or of one. Return the runtime's ids of the runs that will be
        stopped, by the names of the containers. Raises NotShown or NoSuchPod."""
        pod = self._view.named(namespace, name)
        lasting = [*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers]
        known = [one.name for one in lasting]
        if container and container not in known:
            raise NotShown(
                f'pod "{name}" has no container "{container}" that can be restarted; it has {", ".join(known)}'
            )
        chosen = [one for one in lasting if container in ("", one.name)]
        final = [one.name for one in chosen if policy(pod, one) == NEVER]
        if final:
            raise NotShown(f"{final[0]} would not be started again: its restart policy is Never")
        running = {status.name: status.id for status in observed(self._node, pod).running}
        found = {one.name: running[one.name] for one in chosen if one.name in running}
        if not found:
            phase = pod.status.phase if pod.status is not None else ""
            if phase in (SUCCEEDED, FAILED):
                raise NotShown(f'pod "{name}" has ended permanently: it is {phase}')
            raise NotShown(f'pod "{name}" has no running container to restart; the agent retries by itself')
        self._node.restart_requests.add(found.values())
        self._node.workers.wake({pod.metadata.uid})
        return found

    async def examined(self) -> Sequence[Finding]:
        """Return the doctor's findings about this node and its manifests, good ones included."""
        return [*await examine(self._settings, running=True), *self._manifests()]

    def _manifests(self) -> Iterator[Finding]:
        if place := self._settings.manifest_path or self._settings.manifest_url:
            yield from judge_manifests(place, [_as_found(fault) for fault in self._view.faults()])


def _as_found(fault: ManifestFault) -> Fault:
    """Return the fault with the pods that keep running as they were."""
    kept = f" [{', '.join(fault.running)}: the last good version keeps running]" if fault.running else ""
    return Fault(fault.source, fault.line, fault.path, f"{fault.problem}{kept}", fault.remedy)


def config_note(settings: Settings) -> ConfigNote:
    """Return the configuration of an agent with these settings."""
    places = {
        "root directory": str(settings.root_dir),
        "sockets": str(settings.run_dir),
        "pod logs": str(settings.pod_logs_dir),
        "certificates": str(settings.cert_dir),
        "container runtime": settings.runtime.endpoint,
        "kubeconfig": settings.kubeconfig,
        "bootstrap kubeconfig": settings.bootstrap_kubeconfig,
    }
    given = settings.provenance
    return ConfigNote(
        configuration=written(settings.configuration),
        provenance={**given, **{what: given[by] for what, by in GIVEN_AS.items() if by in given}},
        places={what: place for what, place in places.items() if place},
        node_name=settings.node_name,
        manifests=settings.manifest_path or "",
        flags={flag: value for flag, value in settings.flags.items() if flag not in GIVEN_AS.values()},
    )
