"""The metrics of a node's parts, gathered for one scrape of ``/metrics`` by ``NodeView.figures``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.images.figures import PullFigures
    from trikubelet.kube.figures import ApiFigures
    from trikubelet.model.device_figures import DeviceFigures
    from trikubelet.model.volume_figures import VolumeFigures
    from trikubelet.node.figures import RotationFigures
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.startups import Startups


class Work(NamedTuple):
    """The kind of a worker, in upstream's terms. ``lifecycle``: sync, terminating or terminated; ``config``: desired,
    orphan (not desired any more) or runtime_only (never desired); ``static``: true or empty, or unknown where only the
    runtime reports the pod."""

    lifecycle: str
    config: str
    static: str


class Tally(msgspec.Struct):
    """The pods at one moment. ``desired`` and ``active`` (those that count against the node's limits): by whether they
    are static; ``mirrors``: static pods that have or need a mirror pod; ``working``: those with a worker; ``volumes``:
    those in the specs of desired pods, by upstream's name of their kind; ``resizes_pending``: waiting resizes, by the
    reason in their pods' status and the range of the pods' priority; ``resizes_under_way``: granted and not yet
    applied."""

    desired: Counter[bool] = field(default_factory=Counter)
    active: Counter[bool] = field(default_factory=Counter)
    working: Counter[Work] = field(default_factory=Counter)
    volumes: Counter[str] = field(default_factory=Counter)
    resizes_pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    resizes_under_way: int = 0
    mirrors: int = 0
    ephemeral_containers: int = 0


class Setup(Frozen):
    """The agent's build and settings. ``version`` as the node reports it now, like ``v1.37.2+trikubelet.0.1.0``;
    ``cgroup_version``: 0 where there are no cgroups; ``gates``: each feature and its stage, and whether it is on."""

    version: str = ""
    cgroup_version: int = 0
    gates: Mapping[tuple[str, str], bool] = field(default_factory=dict)


class NodeFigures(Frozen):
    """All metrics at one moment. ``swept``: the numbers of pods whose leftovers were removed between the last two
    passes over the disk, and whose could not be. ``api``: requests to the API server, None on a node without one.
    ``ended``: ended containers, by kind, exit code and reason."""

    setup: Setup
    tally: Tally
    pods: PodFigures
    startups: Startups
    ended: Mapping[tuple[str, int, str], int]
    pulls: PullFigures
    volumes: VolumeFigures
    devices: DeviceFigures
    swept: tuple[int, int]
    api: ApiFigures | None = None
    rotations: Sequence[RotationFigures] = ()
