"""What is measured of one kubelet that has just joined a cluster, the same for everybody who takes the place.

    0 pods idle ─► rounds of 10 pods created and deleted ─► 50 pods idle ─► 110 pods idle ─► all flip their readiness

Called by ``cluster.py``. Everything is seen from outside: times by a watch, in which both ends of each interval come;
requests in the API server's audit log; memory and processor time in /proc. Pods name their node, so that the scheduler
is not measured. They have the network and the service account token that pods have by default.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import yaml

from live.kit import images
from live.kit.cluster_agent import PODS
from live.kit.manifests import pod
from live.kit.watched import is_ready
from processes import cpu_seconds, rss_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from live.kit.cluster_agent import ClusterAgent
    from live.kit.watched import Objects, Watched

GATE: Final = "bench.trikubelet.test/flipped"
AT_ONCE: Final = 10
CROWDS: Final = (50, 110)
SETTLE_SECONDS: Final = 5.0
WAIT_SECONDS_MAX: Final = 300.0
PATCHERS: Final = 8
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:nodes"]}, {"level": "None"}],
}


@dataclass(frozen=True)
class Turn:
    """How much of everything."""

    rounds: int = 4
    idle_seconds: float = 15.0
    flips: int = 3


@dataclass
class Found:
    """What one turn has shown. Times are seconds; ``requests`` are those of a pod's life, by verb and resource."""

    running_s: list[list[float]] = field(default_factory=list)
    gone_s: list[list[float]] = field(default_factory=list)
    churn_cpu_s_per_pod: float = 0.0
    churn_rss_mb: float = 0.0
    requests: dict[str, float] = field(default_factory=dict)
    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    flip_s: list[float] = field(default_factory=list)
    patched_s: list[float] = field(default_factory=list)


class Audit:
    """Owns the API server's record of what nodes have asked it for. ``flags`` are for the API server."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "audit.log"
        policy = directory / "policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY))
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]

    def mark(self) -> int:
        """This moment, for `since`."""
        return self._log.stat().st_size

    def since(self, mark: int, node: str) -> Counter[str]:
        """What that node has asked for since then about what is in the pods' namespace: how often, by verb and
        resource. Its lease and its own object are elsewhere."""
        with self._log.open("rb") as log:
            log.seek(mark)
            told = [json.loads(line) for line in log if line.endswith(b"\n")]
        return Counter(
            " ".join(filter(None, [one["verb"], about["resource"], about.get("subresource")]))
            for one in told
            if (about := one.get("objectRef", {})).get("namespace") == "default"
            if one["user"]["username"] == f"system:node:{node}"
        )


def measure(kubelet: ClusterAgent, audit: Audit, size: Turn) -> Found:
    """All of it. Raises TimeoutError with the kubelet's story when pods do not become what they should."""
    found = Found()
    with kubelet.watch(PODS) as watched:
        time.sleep(SETTLE_SECONDS)
        found.idle["0"] = idle(kubelet, size.idle_seconds)
        churn(kubelet, watched, audit, size.rounds, found)
        there = 0
        for crowd in CROWDS:
            create(kubelet, [f"crowd-{number}" for number in range(there, crowd)])
            watched.wait(all_run(crowd), f"{crowd} pods run", WAIT_SECONDS_MAX, kubelet.story)
            there = crowd
            time.sleep(SETTLE_SECONDS)
            found.idle[str(crowd)] = idle(kubelet, size.idle_seconds)
        flip(kubelet, watched, size.flips, found)
    return found


def idle(kubelet: ClusterAgent, seconds: float) -> dict[str, float]:
    """Resident megabytes, and processor seconds a minute, while nothing changes."""
    before = cpu_seconds(kubelet.pid)
    time.sleep(seconds)
    used = cpu_seconds(kubelet.pid) - before
    return {"rss_mb": round(rss_bytes(kubelet.pid) / 1e6, 1), "cpu_s_per_min": round(used * 60 / seconds, 2)}


def churn(kubelet: ClusterAgent, watched: Watched, audit: Audit, rounds: int, found: Found) -> None:
    """Ten pods at once come, run and go, again and again."""
    mark, before = audit.mark(), cpu_seconds(kubelet.pid)
    for turn in range(rounds):
        names = [f"churn-{turn}-{number}" for number in range(AT_ONCE)]
        create(kubelet, names)
        watched.wait(all_run(AT_ONCE), f"{AT_ONCE} pods run", WAIT_SECONDS_MAX, kubelet.story)
        kubelet.plane.kubectl("delete", "pod", *names, "--grace-period=1", "--wait=false")
        watched.wait(lambda now: not now, "the pods are gone", WAIT_SECONDS_MAX, kubelet.story)
        lives = [life(watched, name) for name in names]
        found.running_s.append([one.running - one.created for one in lives])
        found.gone_s.append([one.gone - one.deleted for one in lives])
    pods = rounds * AT_ONCE
    found.churn_cpu_s_per_pod = (cpu_seconds(kubelet.pid) - before) / pods
    found.churn_rss_mb = round(rss_bytes(kubelet.pid) / 1e6, 1)
    time.sleep(SETTLE_SECONDS)  # events follow
    asked = audit.since(mark, kubelet.name)
    found.requests = {what: round(times / pods, 2) for what, times in sorted(asked.items())}


def flip(kubelet: ClusterAgent, watched: Watched, times: int, found: Found) -> None:
    """Somebody else's condition changes on every pod at once; the kubelet has to write each pod's readiness."""
    with Patcher(kubelet) as patcher:
        for number in range(times):
            ready = number % 2 == 0
            began = time.time()
            patcher.patch(watched.now, "True" if ready else "False")
            found.patched_s.append(time.time() - began)
            watched.wait(
                lambda now, ready=ready: all(is_ready(one) is ready for one in now.values()),
                f"all pods have flipped {number + 1} times",
                WAIT_SECONDS_MAX,
                kubelet.story,
            )
            found.flip_s.append(watched.changes[-1].when - began)


@dataclass(frozen=True)
class Life:
    """When a pod's states were first seen, in seconds since the epoch."""

    created: float
    running: float
    deleted: float
    gone: float


def life(watched: Watched, name: str) -> Life:
    """Of a pod that has come and gone; a name is used once."""
    mine = [one for one in watched.changes if one.name == name]
    running = (one.when for one in mine if one.object["status"].get("phase") == "Running")
    deleted = (one.when for one in mine if "deletionTimestamp" in one.object["metadata"])
    return Life(mine[0].when, next(running), next(deleted), mine[-1].when)


def create(kubelet: ClusterAgent, names: Iterable[str]) -> None:
    """Pods on that node, each of one container that does nothing."""
    items = [
        pod(
            name,
            {"name": "pause", "image": images.PAUSE},
            nodeName=kubelet.name,
            readinessGates=[{"conditionType": GATE}],
        )
        for name in names
    ]
    kubelet.plane.kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items})


def all_run(count: int) -> Callable[[Objects], bool]:
    """What a watch waits for: so many pods, and each of them runs."""

    def satisfied(now: Objects) -> bool:
        return len(now) == count and all(one["status"].get("phase") == "Running" for one in now.values())

    return satisfied


class Patcher:
    """Owns a few connections to the API server, for a patch of every pod as fast as it takes them."""

    def __init__(self, kubelet: ClusterAgent) -> None:
        plane = kubelet.plane
        user = yaml.safe_load(plane.kubeconfig.read_text())["users"][0]["user"]
        self._server = urlsplit(plane.url)
        self._trust = ssl.create_default_context(cafile=plane.authority.certificate)
        self._trust.load_cert_chain(user["client-certificate"], user["client-key"])
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(PATCHERS)

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def patch(self, names: Iterable[str], status: str) -> None:
        """Sets the condition on all of them. Raises RuntimeError when the API server says no."""
        list(self._threads.map(lambda name: self._patch(name, status), names))

    def _patch(self, name: str, status: str) -> None:
        if not hasattr(self._mine, "connection"):
            host, port = self._server.hostname or "", self._server.port
            self._mine.connection = http.client.HTTPSConnection(host, port, timeout=60, context=self._trust)
        body = json.dumps({"status": {"conditions": [{"type": GATE, "status": status}]}})
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        self._mine.connection.request("PATCH", f"{PODS}/{name}/status", body, kind)
        reply = self._mine.connection.getresponse()
        said = reply.read()
        if reply.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{name} cannot be patched: {said.decode(errors='replace')}")
