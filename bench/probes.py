"""What probes cost the agent: results/probes.json and results/probes.md.

    python bench/probes.py [--seconds 30] [--pods 100] [--per-pod 10]

The agent is the real process on `trikubelet fake-runtime`. A hundred pods have ten containers each, and each container
a readiness probe with a period of one second: a thousand probes a second, first of none and then of each handler, but a
hundred by gRPC. HTTP, TCP and gRPC are answered by servers of other processes on loopback, commands by the fake
runtime, which runs nothing; so what is measured is what the agent spends, in processor time of its own process, the
kernel's share of connections included. The difference to no probes is what they cost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import AgentProcess, FakeRuntimeProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results"
SETTLE_SECONDS = 5.0
PROBED_PER_POD = {"grpc": 1}
"""Fewer by gRPC, for a server that answers a thousand of its connections a second takes more than this machine has."""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"


def serve_http(port_file: str) -> None:
    """A server that is asked for nothing but its health; in a process of its own."""
    with socket.create_server(("0.0.0.0", 0), backlog=1024) as ears:
        Path(port_file).write_text(str(ears.getsockname()[1]))
        while True:
            peer, _ = ears.accept()
            # One after another: who connects has said all at once, or nothing.
            with peer, suppress(OSError):
                if peer.recv(4096):
                    peer.sendall(ANSWER)


def serve_grpc(port_file: str) -> None:
    """gRPC's health protocol; in a process of its own."""
    import trio  # noqa: PLC0415 - the bench itself has no use for it
    from grpclib.const import Cardinality, Handler  # noqa: PLC0415
    from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse  # noqa: PLC0415

    from trikubelet.cri.server import serve  # noqa: PLC0415

    class Health:
        def __mapping__(self) -> dict[str, Handler]:
            check = Handler(self.check, Cardinality.UNARY_UNARY, HealthCheckRequest, HealthCheckResponse)
            return {"/grpc.health.v1.Health/Check": check}

        async def check(self, stream: Any) -> None:
            await stream.recv_message()
            await stream.send_message(HealthCheckResponse(status=1))

    async def main() -> None:
        [ears] = await trio.open_tcp_listeners(0, host="0.0.0.0")
        Path(port_file).write_text(str(ears.socket.getsockname()[1]))  # noqa: ASYNC240 - nothing else runs yet
        await serve([Health()], ears)

    trio.run(main)


@contextmanager
def server(kind: str, directory: Path) -> Iterator[int]:
    """The port of a server process."""
    told = directory / f"{kind}-port"
    process = subprocess.Popen([sys.executable, __file__, f"--serve-{kind}", str(told)])
    try:
        wait_until(lambda: told.exists() and bool(told.read_text()), f"the {kind} server listens")
        yield int(told.read_text())
    finally:
        process.kill()
        process.wait()


def probe(kind: str, ports: dict[str, int]) -> dict[str, Any] | None:
    """A readiness probe by that handler."""
    handlers: dict[str, dict[str, Any]] = {
        "httpGet": {"httpGet": {"host": "127.0.0.1", "port": ports["http"], "path": "/healthz"}},
        "tcpSocket": {"tcpSocket": {"host": "127.0.0.1", "port": ports["http"]}},
        "grpc": {"grpc": {"port": ports["grpc"]}},
        "exec": {"exec": {"command": ["true"]}},
    }
    return {**handlers[kind], "periodSeconds": 1, "timeoutSeconds": 5} if kind in handlers else None


def measure(kind: str, pods: int, per_pod: int, seconds: float) -> dict[str, float]:
    """Processor seconds the agent spends in a second, and the answers it gets meanwhile: fewer than one for each probe
    where the other side, or the machine, cannot keep up."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        with (
            server("http", directory) as http,
            server("grpc", directory) as grpc,
            FakeRuntimeProcess(directory) as runtime,
            AgentProcess(directory, runtime) as agent,
        ):
            asks = probe(kind, {"http": http, "grpc": grpc})
            for number in range(pods):
                probed = PROBED_PER_POD.get(kind, per_pod)
                containers = [
                    {"name": f"c{n}", "image": "bench:1", **({"readinessProbe": asks} if asks and n < probed else {})}
                    for n in range(per_pod)
                ]
                # gRPC's handler has no host: it asks the pod's address, which here is the machine's.
                agent.put(f"pod-{number}", {"hostNetwork": True, "containers": containers})
            wait_until(lambda: _ready(agent) == pods * per_pod, f"all containers are ready by {kind}", 1.0)
            time.sleep(SETTLE_SECONDS)
            answers = agent.probe_answers()
            began, before = time.monotonic(), agent.cpu_seconds()
            time.sleep(seconds)
            used, passed = agent.cpu_seconds() - before, time.monotonic() - began
            answers = agent.probe_answers() - answers
            return {"answers_per_s": round(answers / passed), "cores": round(used / passed, 4)}


def _ready(agent: AgentProcess) -> int:
    agent.running()  # says so when the agent has ended
    try:
        return sum(one["ready"] for pod in agent.pods() for one in pod.get("status", {}).get("containerStatuses", ()))
    except OSError:
        return 0


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| Handler | Probes | Answers a second | Cores, all told | Cores for the probes | Each, µs | Wanted |",
        "|---|---|---|---|---|---|---|",
    ]
    nothing = results["handlers"]["none"]["cores"]
    for kind, one in results["handlers"].items():
        count, answers, more = one["probes"], one["answers_per_s"], one["cores"] - nothing
        for_probes = f"{more:.3f} | {more / answers * 1e6:.0f}" if answers else " | "
        wanted = "≤ 0.10" if count == 1000 else ""
        lines.append(f"| {kind} | {count} | {answers} | {one['cores']:.3f} | {for_probes} | {wanted} |")
    machine = results["machine"]
    said = f"Each probe once a second. {machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}, "
    return "\n".join([*lines, "", f"{said}load {machine['load'][0]} to {machine['load'][1]}.", ""])


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--per-pod", type=int, default=10)
    parser.add_argument("--serve-http", help=argparse.SUPPRESS)
    parser.add_argument("--serve-grpc", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.serve_http:
        serve_http(words.serve_http)
    if words.serve_grpc:
        serve_grpc(words.serve_grpc)
    load = os.getloadavg()[0]
    handlers: dict[str, dict[str, float]] = {}
    for kind in ("none", "tcpSocket", "httpGet", "grpc", "exec"):
        probed = 0 if kind == "none" else PROBED_PER_POD.get(kind, words.per_pod)
        found = measure(kind, words.pods, words.per_pod, words.seconds)
        handlers[kind] = {"probes": words.pods * probed, **found}
        sys.stderr.write(f"{kind}: {handlers[kind]}\n")
    results = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        },
        "handlers": handlers,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "probes.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "probes.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
