"""Validates the meaning of a pod: yields every problem, each with its field's path.

``pod_problems`` takes a pod whose defaults are filled in and which is not yet a static pod: paths and names are those
of its author. One module per subject:

    metadata     names, labels, owners               annotations  those with a meaning
    spec         the pod as a whole                     network     host names, DNS, aliases
    containers   a container's own fields                ports       ports and conflicts of host ports
    probes       probes, hooks and their handlers        environment variables
    mounts       a container's mounts                    volumes     what can be mounted
    resources    requests, limits, claims                security    users, profiles, capabilities, namespaces
    scheduling   affinity, spread, tolerations           selectors   of labels and of nodes
    drivers      volumes that drivers mount              counts      limits for the number of everything
    rules        shared rules

The rules are the API's for a pod that is created (upstream: ValidatePodCreate): tests/corpus compares the two, pod by
pod, and lists each difference with its reason. Rules for changes do not apply: a changed static pod is another pod,
with another UID, or ``manifest.update`` compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.validation.annotations import annotation_problems
from trikubelet.core.manifest.validation.containers import container_problems
from trikubelet.core.manifest.validation.counts import count_problems
from trikubelet.core.manifest.validation.metadata import metadata_problems
from trikubelet.core.manifest.validation.network import network_problems
from trikubelet.core.manifest.validation.resources import pod_resource_problems
from trikubelet.core.manifest.validation.scheduling import scheduling_problems
from trikubelet.core.manifest.validation.security import pod_security_problems
from trikubelet.core.manifest.validation.spec import spec_problems
from trikubelet.core.manifest.validation.volumes import volume_problems

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Pod

__all__ = ["pod_problems"]


def pod_problems(pod: Pod, node_name: str) -> Problems:
    """Yield everything in the pod that the API would reject. ``node_name`` becomes part of the pod's name. A pod that
    exceeds a count is not checked further."""
    spec = pod.spec
    too_much = tuple(count_problems(pod))
    if too_much:
        yield from too_much
        return
    yield from metadata_problems(pod.metadata, node_name)
    yield from annotation_problems(pod)
    yield from spec_problems(spec)
    yield from scheduling_problems(spec)
    yield from network_problems(spec)
    yield from pod_security_problems(spec)
    yield from pod_resource_problems(spec)
    yield from volume_problems(spec)
    yield from container_problems(spec)
