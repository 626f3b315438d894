"""Runs the pods of ``surface_pods.py`` on one kubelet and returns what each showed to a cluster and to the runtime.

``python -m live.kit surface`` records what upstream's kubelet shows, a file for each pod below
``tests/recorded/surface``; ``test_surface.py`` compares the agent with these files.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import surface
from .cluster_agent import EVENTS, PODS
from .containerd import Containerd, newer
from .control_plane import ControlPlane
from .cri_recorder import CriRecorder
from .surface_pods import cases
from .upstream import UpstreamKubelet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cluster_agent import ClusterAgent
    from .surface_pods import Case
    from .watched import Change, Watched

Shown = dict[str, Any]
"""The status, events and requests of one pod."""

RECORDED: Final = Path(__file__).resolve().parents[2] / "recorded" / "surface"
SETTLED_SECONDS_MAX: Final = 240.0
DELETED_SECONDS_MAX: Final = 180.0
QUIET_SECONDS: Final = 5.0
"""For events, which a kubelet sends after what they belong to: a status, or the end of a pod."""
AT_THE_END: Final = ("Killing", "FailedPreStopHook")
"""The events of a deletion. Others that come then depend on what a probe was doing at that moment."""


def observe(
    make: Callable[..., ClusterAgent], containerd: Containerd, plane: ControlPlane, chosen: Sequence[Case]
) -> dict[str, Shown]:
    """Return what each pod showed, by name, on the kubelet that ``make`` makes (the agent's class or upstream's).
    Raises TimeoutError where a pod does not get as far as its condition."""
    runtime = Path(containerd.endpoint.removeprefix("unix://"))
    with CriRecorder(runtime, containerd.directory / "recorder.sock") as recorder:
        kubelet = make(containerd, plane, containerRuntimeEndpoint=f"unix://{recorder.socket}")
        with kubelet, kubelet.watch(PODS) as pods, kubelet.watch(EVENTS) as events:
            kubelet.wait_ready()
            items = [{**case.pod, "spec": {**case.pod["spec"], "nodeName": kubelet.name}} for case in chosen]
            plane.kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items})
            statuses = _settled(kubelet, pods, chosen)
            time.sleep(QUIET_SECONDS)
            told = _added(events)
            plane.kubectl("delete", "pods", "--all", seconds=DELETED_SECONDS_MAX)
            time.sleep(QUIET_SECONDS)
            told += [one for one in _added(events)[len(told) :] if one["reason"] in AT_THE_END]
        names = {
            kubelet.name: "NODE",
            str(kubelet.root): "ROOT",
            str(kubelet.directory): "DIRECTORY",
            containerd.cgroup_parent: "/TOP",
        }
        sent = recorder.requests
    return {
        case.name: {
            "status": surface.status(statuses[case.name].object, names),
            "events": surface.events([one for one in told if one["involvedObject"]["name"] == case.name], names),
            "requests": surface.requests(
                [(one.method, one.container, one.fields) for one in sent if one.pod == case.name], names
            ),
        }
        for case in chosen
    }


def record() -> None:
    """Write what upstream's kubelet shows into `RECORDED`, in place of what is there."""
    with ControlPlane() as plane:
        containerd = Containerd(*newer())
        try:
            shown = observe(UpstreamKubelet, containerd, plane, cases())
        finally:
            containerd.close()
    RECORDED.mkdir(exist_ok=True)
    for path in RECORDED.glob("*.json"):
        path.unlink()
    for name, one in shown.items():
        (RECORDED / f"{name}.json").write_text(json.dumps(one, indent=1, ensure_ascii=False) + "\n")


def recorded(name: str) -> Shown:
    """Return what upstream's kubelet showed of a pod."""
    return dict(json.loads((RECORDED / f"{name}.json").read_text()))


def _added(events: Watched) -> list[dict[str, Any]]:
    return [change.object for change in events.changes if change.kind == "ADDED"]


def _settled(kubelet: ClusterAgent, pods: Watched, chosen: Sequence[Case]) -> dict[str, Change]:
    """Return the first change of each pod that satisfies its condition."""
    by_name = {case.name: case for case in chosen}
    first: dict[str, Change] = {}
    looked_at = 0

    def look(_: object) -> bool:
        nonlocal looked_at
        changes = pods.changes
        for change in changes[looked_at:]:
            if change.name in by_name and change.name not in first and by_name[change.name].settled(change.object):
                first[change.name] = change
        looked_at = len(changes)
        return len(first) == len(by_name)

    try:
        pods.wait(look, "every pod has settled", SETTLED_SECONDS_MAX, kubelet.story)
    except TimeoutError as late:
        missing = ", ".join(name for name in by_name if name not in first)
        raise TimeoutError(f"these pods did not settle: {missing}\n{late}") from late
    return first
