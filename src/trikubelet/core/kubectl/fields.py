"""The fields that field selectors may name, and the test of a selector.

The names are upstream's (pkg/apis/core/v1, AddFieldLabelConversionsFor…). The command line uses them, and so does an
agent without a cluster, for kubectl.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.core.selectors import FieldTerm
    from trikubelet.model import k8s

    Fields = Mapping[str, Callable[[Any], str]]
    """Getters of an object's fields, by their paths in selectors."""

NAME_FIELDS: Final[Fields] = {
    "metadata.name": attrgetter("metadata.name"),
    "metadata.namespace": attrgetter("metadata.namespace"),
}
"""The fields that every object has for selectors."""
POD_FIELDS: Final[Mapping[str, Callable[[k8s.Pod], str]]] = {
    **NAME_FIELDS,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "spec.hostNetwork": lambda pod: _word(pod.spec.host_network),
    "status.phase": lambda pod: pod.status.phase if pod.status else "",
    "status.podIP": lambda pod: pod.status.pod_ip if pod.status else "",
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name if pod.status else "",
}
EVENT_FIELDS: Final[Mapping[str, Callable[[k8s.Event], str]]] = {
    **NAME_FIELDS,
    "involvedObject.kind": lambda event: event.involved_object.kind,
    "involvedObject.namespace": lambda event: event.involved_object.namespace,
    "involvedObject.name": lambda event: event.involved_object.name,
    "involvedObject.uid": lambda event: event.involved_object.uid,
    "involvedObject.apiVersion": lambda event: event.involved_object.api_version,
    "involvedObject.resourceVersion": lambda event: event.involved_object.resource_version,
    "involvedObject.fieldPath": lambda event: event.involved_object.field_path,
    "reason": lambda event: event.reason,
    "type": lambda event: event.type,
    "source": lambda event: event.source.component if event.source else "",
    "reportingComponent": lambda event: event.source.component if event.source else "",
}
NODE_FIELDS: Final[Mapping[str, Callable[[k8s.Node], str]]] = {
    **NAME_FIELDS,
    "spec.unschedulable": lambda node: _word(node.spec.unschedulable if node.spec else None),
}


def holds(terms: Iterable[FieldTerm], fields: Fields, thing: Any) -> bool:
    """True if the object meets every term of a selector. ``fields`` has all fields that the terms name."""
    return all((fields[term.path](thing) == term.value) is term.wanted for term in terms)


def _word(value: bool | None) -> str:
    """Return a boolean in the notation of the API's selectors."""
    return "true" if value else "false"
