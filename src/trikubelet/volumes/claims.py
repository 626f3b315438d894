"""The persistent volumes behind pods' claims.

A node may get a claim and its volume by name while a pod bound to the node names the claim, and may neither list nor
watch them. So both are requested when a pod's volumes are set up for the first time. A bound volume is remembered until
the pod's volumes are torn down, because a claim is never bound to another volume. An unbound claim is requested again
at the pod's next sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.claims import claim_problem, group_wanted, is_for_one_pod, is_on, use_problem, volume_problem
from trikubelet.core.volume_expansion import waits_for_node
from trikubelet.model.errors import ObjectUnavailable, VolumeFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.claims import Claim
    from trikubelet.model.k8s import Node, PersistentVolume, Pod
    from trikubelet.ports import Claims


class Bound(NamedTuple):
    """The volume of a pod's claim, under the pod's name for it, and whether the claim requested an expansion on a
    node."""

    name: str
    claim: Claim
    volume: PersistentVolume
    needs_expansion: bool


class ClaimedVolumes:
    """Owns the persistent volume of each claimed volume of a pod: by UID, and by the pod's name for it."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Bound]] = {}
        self._claims: Claims | None = None
        self._node: Callable[[], Node | None] = lambda: None

    def use_objects(self, claims: Claims, node: Callable[[], Node | None]) -> None:
        """Use this API server from now on. ``node``: this node, as the API server has it."""
        self._claims, self._node = claims, node

    async def find(self, pod: Pod, name: str, claim: Claim) -> Bound:
        """Return the volume of the claim. Raises VolumeFailed."""
        found = self._found.get(pod.metadata.uid, {}).get(name)
        if found is None:
            try:
                found = await self._ask(pod, name, claim)
            except (ObjectUnavailable, ValueError) as error:
                said = f"error processing PVC {pod.metadata.namespace}/{claim.name}: {error}"
                volumes = f"unmounted volumes=[{name}], unattached volumes=[], failed to process volumes=[{name}]"
                message = f"Unable to attach or mount volumes: {volumes}: {said}"
                raise VolumeFailed("FailedMount", message) from error
            self._check_place(found.volume)
            self._found.setdefault(pod.metadata.uid, {})[name] = found
        return found

    async def _ask(self, pod: Pod, name: str, claim: Claim) -> Bound:
        if self._claims is None:
            raise ValueError("there is no API server to read claims from")
        held = await self._claims.claim(pod.metadata.namespace, claim.name)
        if problem := claim_problem(pod, claim, held):
            raise ValueError(problem)
        volume = await self._claims.volume(held.spec.volume_name)
        if problem := volume_problem(held, volume) or use_problem(pod, name, volume):
            raise ValueError(problem)
        if is_for_one_pod(volume) and self._is_used_beside(pod.metadata.uid, volume):
            raise ValueError("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
        return Bound(name, claim, volume, waits_for_node(held))

    def _check_place(self, volume: PersistentVolume) -> None:
        """Check the node affinity. The scheduler did, except for a pod that names its node itself: a directory of that
        path may be here, too."""
        node = self._node()
        if node is not None and not is_on(node, volume):
            failed = f'MountVolume.NodeAffinity check failed for volume "{volume.metadata.name}"'
            raise VolumeFailed("FailedMount", f"{failed} : no matching NodeSelectorTerms")

    def _is_used_beside(self, uid: str, volume: PersistentVolume) -> bool:
        others = [held for other, held in self._found.items() if other != uid]
        return any(one.volume.metadata.uid == volume.metadata.uid for held in others for one in held.values())

    def groups(self, uid: str) -> tuple[int, ...]:
        """Return the supplemental groups that the pod's volumes require, each once."""
        wanted = [group_wanted(one.volume) for one in self._found.get(uid, {}).values()]
        return tuple(dict.fromkeys(group for group in wanted if group is not None))

    def release(self, uid: str) -> None:
        """Forget the pod, which has no volumes any more."""
        self._found.pop(uid, None)

    def __repr__(self) -> str:
        return f"<ClaimedVolumes of {len(self._found)} pods>"
