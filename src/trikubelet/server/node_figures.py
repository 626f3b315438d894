"""What the parts of a node have measured, gathered for one scrape of ``/metrics`` by ``NodeView.figures``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.images.figures import PullFigures
    from trikubelet.kube.figures import ApiFigures
    from trikubelet.model.volume_figures import VolumeFigures
    from trikubelet.node.figures import RotationFigures
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.startups import Startups


class Work(NamedTuple):
    """What a worker is to the node, in upstream's terms: ``lifecycle`` is sync, terminating or terminated; ``config``
    desired, orphan (not desired any more) or runtime_only (nobody ever did); ``static`` true or nothing, or unknown
    where only the runtime reports the pod."""

    lifecycle: str
    config: str
    static: str


@dataclass(slots=True)
class Tally:
    """The pods there are at one moment. ``desired`` and ``active`` (those that hold a place on the node) by whether
    they are static; ``mirrors``: static pods of which an API server has, or is to have, a picture; ``working``: those
    with a worker; ``volumes``: those the desired pods name, by upstream's name of their kind; ``resizes_pending``:
    resizes that wait, by the reason in their pods' status and the range of the pods' priority, and
    ``resizes_under_way``."""

    desired: Counter[bool] = field(default_factory=Counter)
    active: Counter[bool] = field(default_factory=Counter)
    working: Counter[Work] = field(default_factory=Counter)
    volumes: Counter[str] = field(default_factory=Counter)
    resizes_pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    resizes_under_way: int = 0
    mirrors: int = 0
    ephemeral_containers: int = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """The agent's build and settings. ``version`` as the node reports it now, like ``v1.37.2+trikubelet.0.1.0``;
    ``cgroup_version``: 0 where there are no cgroups; ``gates``: each feature and its stage, and whether it is on."""

    version: str = ""
    cgroup_version: int = 0
    gates: Mapping[tuple[str, str], bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Everything at one moment. ``swept``: how many pods' remains were removed between the last two looks at the disk,
    and how many could not be. ``api``: how the API server was asked, None on a node that has none. ``ended``: runs of
    containers, by kind, exit code and reason."""

    setup: Setup
    tally: Tally
    pods: PodFigures
    startups: Startups
    ended: Mapping[tuple[str, int, str], int]
    pulls: PullFigures
    volumes: VolumeFigures
    swept: tuple[int, int]
    api: ApiFigures | None = None
    rotations: Sequence[RotationFigures] = ()
