"""Admission: decides if the node admits a pod, and with which message it rejects one.

A scheduler knows the node from afar and may be wrong, and static pods have no scheduler. So the node checks each pod
once, before anything of it is started: its sysctls, its operating system, the resources left, its node affinity, its
host ports, the taints that drive pods away, and the security features of the runtime and the kernel. Reasons and
messages are upstream's (lifecycle/predicate.go); the first that applies is reported. A rejected pod has failed
permanently, and its controller makes another elsewhere.

A critical pod that only lacks resources is admitted if others can be preempted for it (``preemption``), because without
it the cluster may be unable to place any pod. ``pods/evaluation.py`` calls this module, and ends the preempted pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trikubelet.core.admission.affinity import wants_node
from trikubelet.core.admission.held_ports import held_port
from trikubelet.core.admission.ports import host_ports
from trikubelet.core.admission.preemption import victims
from trikubelet.core.admission.resources import Shortage, shortages
from trikubelet.core.admission.taints import is_driven_away
from trikubelet.core.admission.under_pressure import is_kept_out
from trikubelet.core.containers.profiles import needs_apparmor
from trikubelet.core.containers.security import STRICT
from trikubelet.core.containers.sysctls import forbidden_sysctl
from trikubelet.core.eviction import messages
from trikubelet.core.names import is_critical, is_static, object_ref
from trikubelet.core.pod_status.merged import unready_at_end
from trikubelet.core.pod_status.phase import FAILED
from trikubelet.core.qos import qos_class
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from trikubelet.core.admission.held_ports import Held
    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.containers import NodeFacts

NODE_AFFINITY: Final = "NodeAffinity"
"""The reason of a pod whose affinity excludes this node's labels."""
UNEXPECTED: Final = "UnexpectedAdmissionError"
_OS: Final = "linux"
_OS_LABEL: Final = "kubernetes.io/os"

_OUT_OF: Final = "OutOf"
_COUNTED: Final = frozenset(
    {
        messages.REASON,
        "NodeShutdown",
        UNEXPECTED,
        "SysctlForbidden",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "SupplementalGroupsPolicyNotSupported",
        *(f"{_OUT_OF}{resource}" for resource in ("cpu", "memory", "ephemeral-storage", "pods")),
        NODE_AFFINITY,
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "AppArmor",
    }
)
"""The reasons that are counted by their name. Any other is not: metrics need few label values, and a pod may request a
resource of any name."""


class Rejection(Frozen):
    """A rejection by the node: a reason in one word and a message for users."""

    reason: str
    message: str


class Admitted(Frozen):
    """The node admits the pod, once the pods it ``preempts`` have ended; ``short_of``: the resource they are ended for,
    the first if there are several."""

    preempts: tuple[k8s.Pod, ...] = ()
    short_of: str = ""


def admit(
    pod: k8s.Pod,
    others: Sequence[PodInfo],
    node: k8s.Node | None,
    facts: NodeFacts,
    pressures: Sequence[str] = (),
    given_out: Collection[str] = (),
) -> Admitted | Rejection:
    """Decide if the node admits the pod next to the ``others``. ``node`` is its object; None skips the checks that need
    it. Checks of a missing status are skipped, too. A pod with an invalid amount is rejected. ``pressures``: the node's
    pressure conditions; ``given_out``: the resources whose devices are given out (``core.devices``)."""
    if is_kept_out(pod, pressures):
        return Rejection(messages.REASON, messages.refused(pressures))
    try:
        problem = next(_problems(pod, others, node, facts, given_out), None)
        short = tuple(shortages(pod, others, node, facts, given_out)) if is_critical(pod) else ()
    except ValueError as error:
        return Rejection(UNEXPECTED, f"Unexpected error while reading the pod's requests: {error}")
    if problem is not None:
        return problem
    if not short:
        return Admitted()
    chosen = victims(pod, others, short)
    return _of_no_room(short) if chosen is None else Admitted(chosen, short[0].resource)


def without_devices(why: str) -> Rejection:
    """Return the rejection of a pod that cannot have its devices, in upstream's words."""
    return Rejection(UNEXPECTED, f"Allocate failed due to {why}, which is unexpected")


def counted_as(reason: str) -> str:
    """Return the label under which rejections for that reason are counted (upstream: kubelet.go)."""
    if reason in _COUNTED:
        return reason
    return "OutOfExtendedResources" if reason.startswith(_OUT_OF) else "Other"


def rejected(pod: k8s.Pod, why: Rejection, now: str) -> k8s.PodStatus:
    """Return the status of a pod that the node rejects. ``now`` is RFC 3339."""
    reported = pod.status or k8s.PodStatus()
    status = replace(
        reported,
        phase=FAILED,
        reason=why.reason,
        message=f"Pod was rejected: {why.message}",
        start_time=reported.start_time or now,
        qos_class=qos_class(pod),
        observed_generation=pod.metadata.generation,
    )
    return unready_at_end(status, now)


def _problems(
    pod: k8s.Pod, others: Sequence[PodInfo], node: k8s.Node | None, facts: NodeFacts, given_out: Collection[str]
) -> Iterator[Rejection]:
    """Yield every reason, in upstream's order, except the resources that a critical pod is short of."""
    if why := forbidden_sysctl(pod, facts):
        yield Rejection("SysctlForbidden", why)
    yield from _of_system(pod, facts)
    if not is_critical(pod):
        yield from map(_of_shortage, shortages(pod, others, node, facts, given_out))
    if node is not None and not wants_node(pod, node):
        yield _failed(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    if node is not None and pod.spec.node_name not in ("", node.metadata.name):
        yield _failed("NodeName", "node(s) didn't match the requested node name")
    if (held := held_port(host_ports(pod), others)) is not None:
        yield _failed("NodePorts", f"node(s) didn't have free ports for the requested pod ports{_holder(pod, held)}")
    if node is not None and not is_static(pod) and is_driven_away(pod, node):
        yield _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    if needs_apparmor(pod) and not facts.apparmor:
        yield Rejection("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")


def _of_system(pod: k8s.Pod, facts: NodeFacts) -> Iterator[Rejection]:
    if pod.metadata.labels.get(_OS_LABEL, _OS) != _OS:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        yield Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)
    if pod.spec.os is not None and pod.spec.os.name != _OS:
        yield Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    context = pod.spec.security_context
    if context is not None and context.supplemental_groups_policy == STRICT and not facts.strict_groups:
        message = "SupplementalGroupsPolicy=Strict is not supported in this node"
        yield Rejection("SupplementalGroupsPolicyNotSupported", message)


def _of_shortage(short: Shortage) -> Rejection:
    return Rejection(
        f"{_OUT_OF}{short.resource}",
        f"Node didn't have enough resource: {short.resource}, requested: {short.requested}, used: {short.used}, "
        f"capacity: {short.capacity}",
    )


def _of_no_room(short: Sequence[Shortage]) -> Rejection:
    wanted = "".join(f"(res: {one.resource}, q: {one.missing}), " for one in short)
    return Rejection(
        UNEXPECTED,
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        f"to preempt: no set of running pods found to reclaim resources: [{wanted}]",
    )


def _holder(pod: k8s.Pod, held: Held) -> str:
    """Return the name of the pod that has the port, for the author of a manifest. Users of the API may not know pods of
    other namespaces."""
    if not is_static(pod):
        return ""
    _, protocol, number = held.port
    return f": host port {number}/{protocol} is in use by pod {object_ref(held.holder)}"


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")
