"""Runs one pod from its manifest to its end without a running agent, for ``trikubelet run``.

    manifest ─► an agent in a directory of its own, which sees no other pod ─► logs while it runs
       ended by itself or by a signal, timed out, cannot start, or the reader of its output has gone
          ─► manifest removed ─► the pod ends within its grace period ─► removed

A second signal ends the pod without grace. After a third nothing is waited for.

The agent inside is the usual one (``app/compose.py``), without ports and without cgroups for pods, which an agent would
clean up on the whole machine.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.app import compose
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.one_pod import OnePodRuntime
from trikubelet.cli.terminal import in_lines
from trikubelet.cli.whole_lines import WholeLines
from trikubelet.core.lifecycle import StopReason
from trikubelet.core.names import all_containers
from trikubelet.core.obstacles import obstacle
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.server.log_reader import LogQuery, read_log
from trikubelet.server.node_view import NotShown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from trikubelet.app.compose import Agent
    from trikubelet.app.settings import Settings
    from trikubelet.model.k8s import Pod
    from trikubelet.server.node_view import LogPlace

T = TypeVar("T")

LOOK_SECONDS: Final = 0.2
SILENCE_SECONDS: Final = 5.0
"""Seconds after which the reason for a wait is printed."""
REMOVAL_SECONDS_MAX: Final = 30.0
"""Seconds after the pod's own grace period for the runtime to remove it, and the volumes to be removed."""
KILL_SECONDS_MAX: Final = 10.0
"""Seconds for the same after a second signal."""
STAYS_SECONDS: Final = 3.0
"""Seconds that an obstacle is watched which cannot go away by itself, for a few retries; also any on a runtime inside
this process, which depends on nothing else."""
MAY_GO_SECONDS: Final = 60.0
"""Seconds that an obstacle is watched which may go away: three pulls of an image, with the back-off between them."""
EXIT_NEVER_STARTED: Final = 125
"""Like docker and podman."""
EXIT_TIMEOUT: Final = 124
"""Like timeout(1)."""
EXIT_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Shot:
    """The pod's identity and its manifest, which is in the directory of ``settings``."""

    settings: Settings
    manifest: Path
    uid: str
    seconds_max: float


def settings_of(root: Path, endpoint: str) -> Settings:
    """Return the settings of the agent inside: everything is below ``root``, nothing is served. ``endpoint``: the
    runtime's, empty for the first one found. Raises CommandFailed."""
    flags = ["--standalone", f"--root-dir={root}", f"--pod-manifest-path={root}/manifests", "--healthz-port=0"]
    flags += ["--enable-server=false", "--cgroups-per-qos=false", "--enforce-node-allocatable="]
    flags += ["--embedded-stop-grace-period=0s"]  # the pod has ended before the agent, or no more time may be given
    flags += [f"--container-runtime-endpoint={endpoint}"] if endpoint else []
    try:
        found = load_settings(parse_agent_flags(flags), Surroundings(os.geteuid(), os.environ, os.uname().nodename))
    except StartFailed as error:
        raise CommandFailed(str(error)) from error
    return replace(
        found, pod_logs_dir=root / "logs/pods", container_logs_dir=root / "logs/containers", run_dir=root / "run"
    )


async def run_shot(shot: Shot) -> int:
    """Run the pod to its end and return the exit code: the pod's, or that of the reason why it was ended. Raises
    StartFailed, and OSError if its output cannot be written any more; then it is removed, too."""
    ends_at = trio.current_time() + shot.seconds_max
    run = partial(compose.run, make_runtime=partial(OnePodRuntime, uid=shot.uid))
    with trio.open_signal_receiver(*_ending_signals()) as signals:
        async with trio.open_nursery() as nursery:
            start = partial(nursery.start, run, shot.settings, lambda: None, None)
            silence = partial(_say_who_is_silent, shot.settings)
            begun: Agent | int = EXIT_TIMEOUT
            with trio.move_on_at(ends_at):
                begun = await _first(start, partial(_interrupted, signals, "interrupted"), silence)
            if isinstance(begun, int):
                code = begun
                _report(f"{shot.settings.runtime.endpoint} has not answered, so the pod was not started")
            else:
                code = await _OneShot(shot, begun, signals, ends_at).run()
            nursery.cancel_scope.cancel()
    return code


def _ending_signals() -> list[signal.Signals]:
    """Return the signals that end the pod. SIGHUP is one, unless it is ignored (nohup)."""
    heeded = [signal.SIGINT, signal.SIGTERM]
    return heeded if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*heeded, signal.SIGHUP]


class _OneShot:
    """Owns which runs of containers and which warnings were shown, and since when the pod cannot start."""

    def __init__(self, shot: Shot, agent: Agent, signals: AsyncIterator[int], ends_at: float) -> None:
        self._shot = shot
        self._agent = agent
        self._signals = signals
        self._ends_at = ends_at
        self._logs: set[str] = set()
        self._warned: set[str] = set()
        self._obstructed_since = math.inf

    async def run(self) -> int:
        """Run until the pod has ended and its leftovers are removed."""
        try:
            return await self._shown()
        except BaseException:  # such as a reader that has gone: the pod ends with us all the same
            await self._end()
            raise

    async def _shown(self) -> int:
        code = EXIT_TIMEOUT
        async with trio.open_nursery() as showing:
            with trio.move_on_at(self._ends_at) as running:
                said = f"interrupted: the pod is stopped and has {self._grace_seconds()} s to end (again: kill it)"
                code = await _first(partial(self._to_its_end, showing), partial(_interrupted, self._signals, said))
            if running.cancelled_caught:
                grace = f"it is stopped and has {self._grace_seconds()} s to end (interrupt: kill it)"
                _report(f"the pod has not ended within {self._shot.seconds_max:g} s: {grace}")
            await self._end()
            showing.cancel_scope.cancel()
        return code

    async def _end(self) -> None:
        """Stop the pod and wait until it is gone. A signal meanwhile kills it; another one ends the wait for that,
        too."""
        self._shot.manifest.unlink(missing_ok=True)
        seconds = REMOVAL_SECONDS_MAX + self._grace_seconds()
        if await self._gone_within(seconds, "interrupted again: the pod is killed"):
            return
        self._agent.node.workers.stop(self._shot.uid, StopReason.REMOVED, 0)
        if not await self._gone_within(KILL_SECONDS_MAX, "interrupted once more"):
            _report(self._left_behind())

    async def _gone_within(self, seconds: float, said: str) -> bool:
        """True if the pod was gone in time, and before a signal, to which it prints ``said``."""
        with trio.move_on_after(seconds):
            code = await _first(self._removed, partial(_interrupted, self._signals, said))
            return code != EXIT_INTERRUPTED
        return False

    def _left_behind(self) -> str:
        settings = self._shot.settings
        if settings.runtime.inside:
            return "did not wait for the pod: its running containers end now"
        return (
            f"did not wait for the pod: its containers may still run on {settings.runtime.endpoint}, and its files are "
            f"in {settings.root_dir}"
        )

    async def _to_its_end(self, showing: trio.Nursery) -> int:
        """Print the pod's output until it has ended and all of it is printed; return its exit code."""
        code: int | None = None
        async for _ in Every(LOOK_SECONDS):
            pod = self._pod()
            if pod is not None and pod.status is not None:
                await self._show_logs(pod, showing)
                self._warn(pod)
                if code is None and pod.status.phase in ("Succeeded", "Failed"):
                    code = exit_code_of(pod)
                if code is None and (why := self._cannot_start(pod)):
                    _report(why)
                    return EXIT_NEVER_STARTED
            if code is not None and not showing.child_tasks:
                return code
        raise AssertionError  # it has no end of its own

    def _cannot_start(self, pod: Pod) -> str:
        """Return why the pod cannot start; empty for one that starts, or may still."""
        worker = self._agent.node.workers.worker(self._shot.uid)
        found = obstacle(pod, worker.statistics().last_error if worker is not None else "")
        if found is None:
            self._obstructed_since = math.inf
            return ""
        self._obstructed_since = min(self._obstructed_since, trio.current_time())
        may_go = found.may_go and not self._shot.settings.runtime.inside
        seconds = trio.current_time() - self._obstructed_since
        is_tried = self._agent.node.puller.progress(self._shot.uid)
        if seconds < (MAY_GO_SECONDS if may_go else STAYS_SECONDS) or is_tried:
            return ""
        return f"the pod cannot start, stopped after {seconds:.0f} s: {found}"

    def _pod(self) -> Pod | None:
        return next((pod for pod in self._agent.view.pods() if pod.metadata.uid == self._shot.uid), None)

    def _grace_seconds(self) -> int:
        pod = self._pod()
        seconds = None if pod is None else pod.spec.termination_grace_period_seconds
        return 30 if seconds is None else seconds

    async def _show_logs(self, pod: Pod, showing: trio.Nursery) -> None:
        """Begin to print the log of each started run of a container."""
        containers = all_containers(pod)
        observed = self._agent.node.cache.get(self._shot.uid)
        for container in containers:
            run = observed.latest(container.name)
            if run is None or run.state not in (ContainerState.RUNNING, ContainerState.EXITED):
                continue  # its log may exist already, and nothing would show whether it has ended
            try:
                place = await self._agent.view.log(
                    pod.metadata.namespace, pod.metadata.name, container.name, previous=False
                )
            except NotShown:
                continue
            if place.path not in self._logs:
                self._logs.add(place.path)
                before = f"[{container.name}] " if len(containers) > 1 else ""
                showing.start_soon(_show, place, before.encode())

    def _warn(self, pod: Pod) -> None:
        """Print the obstacles of the pod, each once."""
        for event in self._agent.node.events.about(pod.metadata.uid):
            said = f"{event.reason}: {event.message}"
            if event.type == "Warning" and said not in self._warned:
                self._warned.add(said)
                _report(said)

    async def _removed(self) -> int:
        """Wait for the end of the pod, which is not desired any more, and remove the runtime's leftovers of it."""
        async for _ in Every(LOOK_SECONDS):
            if self._pod() is None:
                break
        for sandbox in self._agent.node.cache.get(self._shot.uid).sandboxes:
            try:
                await self._agent.runtime.remove_sandbox(sandbox.id)
            except RuntimeCallError as error:
                _report(f"the runtime keeps the pod's sandbox: {error}")
        pods = self._shot.settings.root_dir / "pods"
        async for _ in Every(LOOK_SECONDS):
            if not pods.is_dir() or not os.listdir(pods):  # housekeeping takes the volumes down
                break
        return 0


def exit_code_of(pod: Pod) -> int:
    """Return 0 for a pod that succeeded; else the exit code of the first container that failed, or 1 if none did: then
    the reason is printed."""
    assert pod.status is not None
    if pod.status.phase == "Succeeded":
        return 0
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = one.state.terminated if one.state else None
        if ended is not None and ended.exit_code:
            return ended.exit_code
    _report(f"the pod failed: {pod.status.reason} {pod.status.message}".rstrip())
    return 1


async def _first(*ways: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the task that finishes first."""
    answers: list[T] = []

    async def go(way: Callable[[], Awaitable[T]], nursery: trio.Nursery) -> None:
        answers.append(await way())
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for way in ways:
            nursery.start_soon(go, way, nursery)
    return answers[0]


async def _interrupted(signals: AsyncIterator[int], said: str) -> int:
    await anext(signals)
    _report(said)
    return EXIT_INTERRUPTED


async def _say_who_is_silent(settings: Settings) -> int:
    if not settings.runtime.inside:
        await trio.sleep(SILENCE_SECONDS)
        _report(f"waiting for {settings.runtime.endpoint} to answer")
    await trio.sleep_forever()
    raise AssertionError


async def _show(place: LogPlace, before: bytes) -> None:
    """Print the output of one run of a container, by whole lines if others are printed in between."""
    lines = WholeLines(before)
    async with aclosing(read_log(place.path, LogQuery(follow=True), place.is_over, place.threads)) as blocks:
        async for block in blocks:
            _write(lines.of(block) if before else block)
    if rest := lines.rest():
        _write(rest + b"\n")


def _write(said: bytes) -> None:
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()


def _report(said: str) -> None:
    with suppress(OSError):  # it has no reader any more, and the pod must still be ended
        print(f"trikubelet: {in_lines(said)}", file=sys.stderr, flush=True)
