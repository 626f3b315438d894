"""How fast bytes go through a node, beside upstream's kubelet: results/streams.json, told in docs/decisions/0024.

    PYTHONPATH=tests python bench/streams.py [--passes 2] [--megabytes 100] [--times 3]

As root, where the live tests run (docs/live-tests.md). One control plane, and the two kubelets take turns on it, each
on a containerd that was just started. kubectl asks the API server, which asks the node; the API server, kubectl and the
containers are the same for both, so the ratios are nearer to one than the nodes are to each other. What the kubelet's
own process used of a processor is told beside, and the most memory it had. Of each pass the best of ``--times``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.containerd import Containerd, newer
from live.kit.control_plane import ControlPlane
from live.kit.manifests import container, pod, shell
from live.kit.upstream import UpstreamKubelet
from live.kit.watched import is_ready
from processes import cpu_seconds, rss_bytes, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = Path(__file__).parent / "results" / "streams.json"
KUBELETS: dict[str, type[ClusterAgent]] = {"ours": ClusterAgent, "upstream": UpstreamKubelet}


@contextmanager
def largest(kubelet: ClusterAgent) -> Iterator[list[int]]:
    """The most memory the kubelet has within the block, in bytes, looked at ten times a second."""
    found, over = [rss_bytes(kubelet.pid)], threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            found[0] = max(found[0], rss_bytes(kubelet.pid))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def through_exec(kubelet: ClusterAgent, size: int) -> None:
    """Into a container by exec and back out."""
    command = kubelet.plane.kubectl.command("exec", "-i", "talks", "-c", "c", "--", "cat")
    done = subprocess.run(command, input=bytes(size), stdout=subprocess.PIPE, check=True)
    assert size == len(done.stdout)


def out_of_exec(kubelet: ClusterAgent, size: int) -> None:
    """Out of a container by exec."""
    command = kubelet.plane.kubectl.command("exec", "talks", "-c", "c", "--", "head", "-c", str(size), "/dev/zero")
    assert size == len(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def through_port(kubelet: ClusterAgent, size: int) -> None:
    """Into a port and back out, over one forwarded connection."""
    command = kubelet.plane.kubectl.command("port-forward", "pod/talks", ":7007", "--address=127.0.0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)", process.stdout.readline())
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1]))) as connection:
            sending = threading.Thread(target=connection.sendall, args=(bytes(size),))
            sending.start()
            heard = 0
            while heard < size:
                heard += len(connection.recv(1 << 20))
            sending.join()
        process.terminate()


def out_of_log(kubelet: ClusterAgent, size: int) -> None:
    """Out of a container's log, of lines of a hundred bytes."""
    assert size == logged(kubelet)


def logged(kubelet: ClusterAgent) -> int:
    """The size of the log, as kubectl has it."""
    command = kubelet.plane.kubectl.command("logs", "talks", "-c", "wrote")
    return len(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


WAYS: dict[str, Callable[[ClusterAgent, int], None]] = {
    "exec, in and out": through_exec,
    "exec, out": out_of_exec,
    "port-forward, in and out": through_port,
    "logs": out_of_log,
}


def take_turn(name: str, plane: ControlPlane, size: int, times: int) -> dict[str, Any]:
    """One kubelet on a containerd of its own; the cluster is as it was afterwards."""
    found: dict[str, Any] = {"kubelet": name}
    with ExitStack() as ending:
        ending.callback(plane.clear)
        containerd = Containerd(*newer())
        ending.callback(containerd.close)
        kubelet = KUBELETS[name](containerd, plane, containerLogMaxSize="1Gi")  # so that all of it is one file
        ending.callback(kubelet.kill)
        kubelet.start()
        kubelet.wait_ready()
        waits = "while :; do sleep 1; done"
        wrote = shell("wrote", f"yes {'x' * 99} | head -c {size}; {waits}")
        talks = pod("talks", shell("c", waits), container("echo", "echo", "7007"), wrote)
        plane.kubectl("create", "-f-", manifests=talks)
        with kubelet.watch(PODS) as pods:
            pods.wait(lambda now: is_ready(now.get("talks", {})), "the pod runs", story=kubelet.story)
        wait_until(lambda: logged(kubelet) == size, "the log is written", every_seconds=1)
        for way, go in WAYS.items():
            took, used = [], []
            with largest(kubelet) as memory:
                for _ in range(times):
                    began, before = time.perf_counter(), cpu_seconds(kubelet.pid)
                    go(kubelet, size)
                    took.append(time.perf_counter() - began)
                    used.append(cpu_seconds(kubelet.pid) - before)
            found[way] = {
                "mb_per_s": round(size / 1e6 / min(took), 1),
                "cpu_s": round(min(used), 2),
                "rss_mb": round(memory[0] / 1e6, 1),
            }
    return found


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--times", type=int, default=3)
    words = parser.parse_args()
    turns = []
    with ControlPlane() as plane:
        for number in range(words.passes):
            for name in sorted(KUBELETS, reverse=bool(number % 2)):
                turns.append(take_turn(name, plane, words.megabytes * 10**6, words.times))
                print(json.dumps(turns[-1]), flush=True)
    RESULTS.write_text(
        json.dumps({"load": os.getloadavg(), "megabytes": words.megabytes, "turns": turns}, indent=1) + "\n"
    )
    for way in WAYS:
        best = {name: max(turn[way]["mb_per_s"] for turn in turns if turn["kubelet"] == name) for name in KUBELETS}
        print(
            f"{way}: ours {best['ours']} MB/s, upstream {best['upstream']} MB/s, {best['ours'] / best['upstream']:.2f}x"
        )


if __name__ == "__main__":
    main()
