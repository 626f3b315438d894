"""``trikubelet restart POD… [-c CONTAINER] [--wait]``: stop containers, which their pod then starts again.

Each is stopped as always, with its preStop hook and within its grace period, and the restart is counted. A container
with the restart policy Never would not be started again, and is left alone.

    request ─► the agent returns the ids of the runs to be stopped ─► without --wait the command ends here
                 └ --wait: read the pod ─► another run of each container is ready ─► "restarted"
                                         └ the pod has ended ─► an error

A container is ready by its readiness probe. Without one it is ready when it runs and its startup probe, if it has one,
has succeeded.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking, blocking
from trikubelet.cli.blocking import Looks
from trikubelet.cli.container_state import has_ended, problem_of, status_of
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.words.restart import parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.cli.client import AgentClient
    from trikubelet.model.k8s import ContainerStatus, Pod

    Restarting = dict[tuple[str, str], str]
    """The id of the run that will be stopped, by the names of pod and container."""

WAIT_SECONDS: Final = 120.0
"""The default of ``--timeout``, in seconds: twice the usual grace period of 30 s, and as long again for probes."""
LOOK_SECONDS: Final = 0.5
"""Time between two reads of the pods, in seconds."""


def run(argv: Sequence[str]) -> int:
    """Run ``restart`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_intermixed_args(argv)
    args.names = asking.pod_names(args.names)
    if not args.names:
        parser().error("missing argument: names of pods")
    if args.timeout is not None and not args.wait:
        parser().error("--timeout limits --wait: add --wait, or leave it out")
    blocking.run(_restart, args)
    return 0


async def _restart(args: argparse.Namespace) -> None:
    agent = asking.agent_of(args)
    left: Restarting = {}
    for name in args.names:
        await asking.pod_named(agent, args.namespace, name)  # whose error names the nearest pods
        for container, run_id in (await asking.restart(agent, args.namespace, name, args.container)).items():
            left[name, container] = run_id
            print(f"pod/{name} container {container} is being restarted", flush=True)
    if args.wait:
        await _wait(agent, args, left)


async def _wait(agent: AgentClient, args: argparse.Namespace, left: Restarting) -> None:
    """Return when every container has a new run that is ready. Raises CommandFailed after the timeout, and for a pod
    that ends instead."""
    pods: dict[str, Pod] = {}
    async for _ in Looks(LOOK_SECONDS, WAIT_SECONDS if args.timeout is None else args.timeout):
        known = await asking.pods(agent)
        pods = {pod.metadata.name: pod for pod in known if pod.metadata.namespace == args.namespace}
        for name, container in _done(left, pods):
            del left[name, container]
            print(f"pod/{name} container {container} restarted", flush=True)
        if not left:
            return
    raise CommandFailed(
        "\nerror: ".join(
            f"timed out waiting for the restart of pod/{name} container {container}:"
            f" {_why_late(pods.get(name), container, stopped)}"
            for (name, container), stopped in left.items()
        )
    )


def _done(left: Restarting, pods: dict[str, Pod]) -> Iterable[tuple[str, str]]:
    """Yield the containers whose new run is ready. Raises CommandFailed for one that will not have one."""
    done = []
    for (name, container), stopped in left.items():
        if (pod := pods.get(name)) is None:
            continue  # while its manifest is replaced
        if _is_ready_again(pod, container, stopped):
            done.append((name, container))
        elif has_ended(pod):
            raise CommandFailed(f"pod/{name} was not restarted: {problem_of(pod, container)}")
    return done


def _is_ready_again(pod: Pod, container: str, stopped: str) -> bool:
    status = status_of(pod, container)
    if status is None or status.state is None or status.state.running is None:
        return False
    return status.ready and _run_id(status) != stopped


def _why_late(pod: Pod | None, container: str, stopped: str) -> str:
    if pod is None:
        return "the pod is gone"
    status = status_of(pod, container)
    is_old = status is not None and _run_id(status) == stopped
    return problem_of(pod, container) or ("its old run has not ended" if is_old else "it is not ready")


def _run_id(status: ContainerStatus) -> str:
    """Return the runtime's id, which the API has after the runtime's name: containerd://0123."""
    return status.container_id.rpartition("://")[2]
