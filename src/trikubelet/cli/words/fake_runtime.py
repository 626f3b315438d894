"""The arguments of ``trikubelet fake-runtime``."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from typing import Final

from trikubelet.cli.arguments import Later, Parser, count

PODS_MAX: Final = 1_000_000
CONTAINERS_PER_POD_MAX: Final = 1000


def parser() -> Parser:
    """Return the parser of the arguments of ``fake-runtime``."""
    made = Parser(
        "fake-runtime",
        "Serve the CRI, version 1, with simulated pods that change over time. Nothing is executed; an agent can start "
        "its "
        "own pods on it. SIGTERM or Ctrl-C ends it, and the pods with it.",
        [
            (
                "Serve 1000 pods, of which 1 % change every second",
                "trikubelet fake-runtime --socket=/tmp/fake.sock --pods=1000 --churn=0.01",
            ),
            (
                "Serve a runtime whose lists take 100 ms, with a web page",
                "trikubelet fake-runtime --socket=/tmp/fake.sock --list-latency=100ms --http=:8080",
            ),
        ],
        notes="Durations are written 50ms, 1.5s or 2m; a number without a unit is seconds. See docs/fake-runtime.md.",
    )
    add, switch, latency = made.add_argument, BooleanOptionalAction, Later("fake.control", "read_latency")
    add("--socket", required=True, metavar="PATH", help="the Unix socket on which the CRI is served")
    add(
        "--http",
        type=Later("cli.commands.fake_runtime", "read_address"),
        metavar="ADDR",
        help="serve a web page and a JSON API at HOST:PORT; :PORT is on 127.0.0.1",
    )
    add(
        "--pods",
        type=count(PODS_MAX),
        default=0,
        metavar="N",
        help="number of pods at the start (default: %(default)s)",
    )
    add(
        "--containers-per-pod",
        type=count(CONTAINERS_PER_POD_MAX),
        default=2,
        metavar="M",
        help="running containers of each pod (default: %(default)s)",
    )
    add("--seed", type=int, default=0, metavar="N", help="the same seed makes the same pods (default: %(default)s)")
    add(
        "--churn",
        type=Later("fake.control", "read_fraction"),
        default=0.0,
        metavar="F",
        help="fraction of the pods that changes every period, such as 0.01 (default: none)",
    )
    add("--churn-period", type=latency, default=1.0, metavar="SECONDS", help="length of that period (default: 1)")
    add("--list-latency", type=latency, default=0.0, metavar="DURATION", help="delay of every list (default: none)")
    add(
        "--status-latency",
        type=latency,
        default=0.0,
        metavar="DURATION",
        help="delay of every PodSandboxStatus and ContainerStatus (default: none)",
    )
    add(
        "--error-rate",
        type=Later("fake.control", "read_fraction"),
        default=0.0,
        metavar="F",
        help="fraction of lists and status calls that fail (default: none)",
    )
    add("--events", action=switch, default=True, help="serve GetContainerEvents, like containerd 2 (default: yes)")
    add("--streaming", action=switch, default=True, help="serve the streamed lists of Kubernetes 1.36 (default: yes)")
    add(
        "--message-limit",
        type=Later("cli.commands.fake_runtime", "read_limit"),
        default="16Mi",
        metavar="BYTES",
        help="longer replies fail, as in Go's gRPC (default: %(default)s, like containerd)",
    )
    add("--journal", metavar="FILE", help="write every call to this file, as a line of JSON")
    return made
