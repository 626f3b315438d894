"""Seeds that hold, a seed that replays, and rules broken on purpose: each must be found by some seed."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from simulation.plantkit import assert_found
from trikubelet.core import lifecycle, restarts
from trikubelet.core.actions import Verdict, restart_all
from trikubelet.core.containers import environment
from trikubelet.core.lifecycle import Outcome
from trikubelet.core.probes import ProbeKind
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure
from trikubelet.node.housekeeping import Housekeeping
from trikubelet.pleg import inspection
from trikubelet.pleg.cache import PodCache
from trikubelet.pods import start
from trikubelet.pods.container_creator import ContainerCreator
from trikubelet.pods.hooks import Hooks
from trikubelet.pods.pod_syncer import PodSyncer
from trikubelet.pods.preparation import Preparation
from trikubelet.pods.start import ContainerStarter
from trikubelet.pods.stop import PodKiller
from trikubelet.pods.worker import PodWorker
from trikubelet.pods.workers import PodWorkers
from trikubelet.probes import pod as probes_pod
from trikubelet.sources.objects import ManifestObjects
from trikubelet.testing import sim
from trikubelet.testing.memory_host import MemoryVolumes
from trikubelet.testing.simulation import Life, run_life, run_node
from trikubelet.testing.starting_over import EXIT_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.core.actions import Reset
    from trikubelet.core.containers.volume_files import Files
    from trikubelet.core.lifecycle import Graces, Request, State, Step
    from trikubelet.core.probes import Track
    from trikubelet.model import k8s
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.testing.simulation import Outcome as Ended

MET_BEFORE = [
    1098,
    1665,
    3545,
    5914,
    2000116,
    4000264,
    5001304,
    7001635,
    9000813,
    11000399,
    20007152,
    345288568,
    809597600,
    860478822,
    1821160259,
    3144247076,
]
"""Seeds that did not hold once. What they meet now has shifted with the code; they are as good as any. Those below
1,000 are in what `make sim` lives."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(3), *MET_BEFORE])
def test_the_seed_holds(seed: int) -> None:
    outcome = run_node(seed)

    assert () == outcome.violations


class Moving(Life):
    """Now and then a UID is given to a pod of another name."""

    moves_share = 0.3


def move(seed: int, *, trace: bool = False) -> Ended:
    return run_life(Moving(seed, trace=trace))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_seed_holds_in_which_uids_move(seed: int) -> None:
    assert () == move(seed).violations


@pytest.mark.slow
def test_in_those_seeds_uids_do_move() -> None:
    moved = [seed for seed in range(12) if any("has the UID of" in line for line in move(seed, trace=True).trace)]

    assert len(moved) > 6


@pytest.mark.slow
def test_a_worker_that_takes_whatever_pod_has_its_uid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(plant_a_worker_of_two_names, "runs under its UID", move, monkeypatch)


def plant_a_worker_of_two_names(patch: pytest.MonkeyPatch) -> None:
    """What a UID is given to is taken for the pod that runs under it."""
    patch.setattr("trikubelet.core.merge.is_same_pod", lambda *_: True)
    patch.setattr("trikubelet.pods.workers.is_same_pod", lambda *_: True)
    patch.setattr("trikubelet.pods.earlier_instances.is_same_pod", lambda *_: True)


def test_a_seed_is_the_same_life_every_time() -> None:
    assert run_node(7, trace=True) == run_node(7, trace=True)


def test_telling_a_life_does_not_change_it() -> None:
    told, silent = run_node(11, trace=True), run_node(11)

    assert told.trace
    assert not silent.trace
    assert dataclasses.replace(told, trace=()) == silent


def test_the_driver_tells_how_many_seeds_held_and_replays_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == sim.main(["--seed", "3"])
    told = capsys.readouterr().out.splitlines()
    assert 1 == sum(line.startswith("seed 3 (node) held: ") for line in told)
    assert told[-1].startswith("seed 3 (member) held: ")


# ---- rules broken on purpose ----


def plant_nothing_waits(patch: pytest.MonkeyPatch) -> None:
    """An old observation is as good as a new one."""
    patch.setattr(PodCache, "is_newer", lambda *_: True)


def plant_the_terminating_return(patch: pytest.MonkeyPatch) -> None:
    """A pod that is wanted again while it stops goes back to running."""
    honest = lifecycle.on_request

    def on_request(state: State, request: Request, graces: Graces) -> Step:
        if isinstance(state, lifecycle.Terminating) and isinstance(request, lifecycle.Sync) and request.create:
            return lifecycle.Step(lifecycle.Syncing(), interrupt=True, wake=True)
        return honest(state, request, graces)

    patch.setattr(lifecycle, "on_request", on_request)


def plant_a_hasty_end(patch: pytest.MonkeyPatch) -> None:
    """Stopping counts as done whatever came of it."""
    honest = PodSyncer.terminate

    async def terminate(self: PodSyncer, pod: k8s.Pod, state: lifecycle.Terminating, before: PodObservation) -> Outcome:
        try:
            return await honest(self, pod, state, before)
        except Exception:
            return Outcome.DONE

    patch.setattr(PodSyncer, "terminate", terminate)


def plant_an_impatient_housekeeping(patch: pytest.MonkeyPatch) -> None:
    """What no source has asked for yet is stopped although a source has not spoken."""

    async def run(self: Housekeeping, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            await self._unknown.look()
            await self.compare()
            self._orphan_cleanup.clean_up()
            await trio.sleep(1)

    patch.setattr(Housekeeping, "run", run)


def plant_a_forgotten_count(patch: pytest.MonkeyPatch) -> None:
    """Every container is the first of its name."""

    async def first(*_: object) -> int:
        return 0

    patch.setattr(ContainerCreator, "_attempt", first)


def plant_a_jealous_agent(patch: pytest.MonkeyPatch) -> None:
    """An agent that ends takes its pods along."""
    honest = PodWorkers.run

    async def run(self: PodWorkers, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            await honest(self, task_status=task_status)
        finally:
            with trio.move_on_after(5, shield=True):
                for worker in self:
                    syncer = worker._syncer
                    assert isinstance(syncer, PodSyncer)
                    observed = syncer._observations._cache.get(worker.pod.metadata.uid)
                    with suppress(RuntimeCallError):
                        await syncer._killer.stop_pod(worker.pod, observed, 1)

    patch.setattr(PodWorkers, "run", run)


def plant_a_deaf_worker(patch: pytest.MonkeyPatch) -> None:
    """A request that comes during a sync neither interrupts it nor is acted on after it."""
    honest = PodWorker.ask

    def ask(self: PodWorker, request: Request, pod: k8s.Pod | None = None) -> None:
        if self._sync is None:
            honest(self, request, pod)

    patch.setattr(PodWorker, "ask", ask)


def plant_a_kept_ghost(patch: pytest.MonkeyPatch) -> None:
    """The status of a pod that is gone is never dropped."""
    patch.setattr(PodSyncer, "forget", lambda *_: None)


def plant_a_homeless_container(patch: pytest.MonkeyPatch) -> None:
    """Nobody says in which sandbox a container lives."""
    patch.setattr(inspection, "_placed", lambda containers, *_: tuple(containers))


def plant_a_back_off_that_probes_evade(patch: pytest.MonkeyPatch) -> None:
    """What was killed in this very sync has not ended yet, so it is started again at once."""
    honest = start._ends

    def ends(observed: PodObservation, name: str) -> list[ContainerStatus]:
        latest = observed.latest(name)
        return honest(observed, name) if latest is not None and latest.state is ContainerState.EXITED else []

    patch.setattr(start, "_ends", ends)


def plant_a_restart_of_all_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    """What has ended and has all containers restarted is taken away with them."""
    patch.setattr(ContainerStarter, "back_offs", lambda *_: [])


def plant_a_restart_of_all_that_stops_half_way(patch: pytest.MonkeyPatch) -> None:
    """What has ended and has all containers restarted is never taken away."""
    honest = PodKiller.reset

    async def reset(self: PodKiller, pod: k8s.Pod, resets: Sequence[Reset]) -> None:
        if any(one.is_cause for one in resets):
            raise RuntimeFailure("it stays")  # a sync that ends well would be repeated at once, and again
        await honest(self, pod, resets)

    patch.setattr(PodKiller, "reset", reset)


def plant_a_restart_of_all_that_waits_for_a_resync(patch: pytest.MonkeyPatch) -> None:
    """After all containers were taken away nothing has the pod looked at again before its resync."""
    honest = PodSyncer.sync

    async def sync(self: PodSyncer, pod: k8s.Pod, observed: PodObservation) -> Outcome:
        outcome = await honest(self, pod, observed)
        return Outcome.AGAIN if outcome is Outcome.AT_ONCE else outcome

    patch.setattr(PodSyncer, "sync", sync)


def plant_a_restart_of_all_for_any_exit(patch: pytest.MonkeyPatch) -> None:
    """Each exit of a container with such a rule is taken for the one that the rule names."""
    honest = restarts.rule_action

    def action(container: k8s.Container, exit_code: int) -> str:
        return honest(container, EXIT_CODE if container.restart_policy_rules else exit_code)

    patch.setattr(restart_all, "rule_action", action)


def plant_no_back_off(patch: pytest.MonkeyPatch) -> None:
    """What has ended is started again at once."""
    patch.setattr(ContainerStarter, "_confirm_no_back_off", lambda *_: None)


def plant_a_hasty_verdict(patch: pytest.MonkeyPatch) -> None:
    """One result of a probe decides, whatever its thresholds say."""
    honest = probes_pod.record_result

    def hasty(kind: ProbeKind, probe: k8s.Probe, track: Track, result: Verdict) -> Track:
        once = msgspec.structs.replace(probe, failure_threshold=1, success_threshold=1)
        return honest(kind, once, track, result)

    patch.setattr(probes_pod, "record_result", hasty)


def plant_an_inherited_readiness(patch: pytest.MonkeyPatch) -> None:
    """A new container is as ready as one that has answered."""
    honest = probes_pod.begin

    def begin(kind: ProbeKind, container_id: str, kept: Verdict | None = None) -> Track:
        return honest(kind, container_id, Verdict.SUCCESS if kind is ProbeKind.READINESS else kept)

    patch.setattr(probes_pod, "begin", begin)


def plant_a_hook_that_nobody_waits_for(patch: pytest.MonkeyPatch) -> None:
    """A container is stopped as soon as its preStop hook has begun."""
    honest = Hooks.pre_stop

    async def pre_stop(self: Hooks, *args: Any) -> None:
        with trio.move_on_after(0.2):
            await honest(self, *args)

    patch.setattr(Hooks, "pre_stop", pre_stop)


def plant_a_sync_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    """A sync that failed is tried again at once, and again."""
    honest = PodSyncer.sync

    async def sync(self: PodSyncer, pod: k8s.Pod, observed: PodObservation) -> Outcome:
        while True:
            try:
                return await honest(self, pod, observed)
            except VolumeFailed:
                await trio.lowlevel.checkpoint()

    patch.setattr(PodSyncer, "sync", sync)


def plant_a_hasty_container(patch: pytest.MonkeyPatch) -> None:
    """Containers do not wait for volumes that are not ready."""
    honest = Preparation._set_up_volumes

    async def set_up(self: Preparation, pod: k8s.Pod) -> dict[str, str]:
        try:
            return await honest(self, pod)
        except VolumeFailed:
            return {volume.name: "/" for volume in pod.spec.volumes}

    patch.setattr(Preparation, "_set_up_volumes", set_up)


def plant_volumes_that_go_first(patch: pytest.MonkeyPatch) -> None:
    """A pod's volumes go while its containers still end."""
    honest = PodSyncer.terminate

    async def terminate(self: PodSyncer, pod: k8s.Pod, state: lifecycle.Terminating, before: PodObservation) -> Outcome:
        await self._preparation._volumes.tear_down(pod.metadata.uid)
        return await honest(self, pod, state, before)

    patch.setattr(PodSyncer, "terminate", terminate)


def plant_objects_that_never_come(patch: pytest.MonkeyPatch) -> None:
    """What stands in manifests beside pods is not heard of."""
    patch.setattr(ManifestObjects, "replace", lambda *_: None)


def plant_volumes_that_stay_as_they_were(patch: pytest.MonkeyPatch) -> None:
    """A volume is filled once."""
    honest = MemoryVolumes._fill

    def fill(self: MemoryVolumes, path: str, files: Files) -> None:
        if path not in self.files:
            honest(self, path, files)

    patch.setattr(MemoryVolumes, "_fill", fill)


def plant_an_empty_reference(patch: pytest.MonkeyPatch) -> None:
    """A reference that leads nowhere is an empty variable."""
    honest = environment._Found._of_object

    def of_object(self: environment._Found, source: k8s.EnvVarSource) -> str | None:
        try:
            return honest(self, source)
        except ValueError:
            return ""

    patch.setattr(environment._Found, "_of_object", of_object)


BREAKS = (
    (plant_objects_that_never_come, "was never made"),
    (plant_volumes_that_stay_as_they_were, "and file says"),
    (plant_an_empty_reference, "which no object has"),
    (plant_nothing_waits, "already"),
    (plant_the_terminating_return, "came back from Terminating"),
    (plant_a_hasty_end, "and a container of it runs"),
    (plant_an_impatient_housekeeping, "has been wanted all the time"),
    (plant_a_forgotten_count, "s after the last problem"),
    (plant_a_jealous_agent, "an agent that has ended calls Stop"),
    (plant_a_deaf_worker, "s after the last problem"),
    (plant_a_kept_ghost, "statuses"),
    (plant_a_homeless_container, "has ended well"),
    (plant_a_back_off_that_probes_evade, "before its back-off is over"),
    (plant_a_restart_of_all_without_a_pause, "before its back-off is over"),
    (plant_a_restart_of_all_that_stops_half_way, "does not start over"),
    (plant_a_restart_of_all_that_waits_for_a_resync, "does not start over"),
    (plant_a_restart_of_all_for_any_exit, "is stopped as COMPLETED and has not ended"),
    (plant_no_back_off, "before its back-off is over"),
    (plant_a_hasty_verdict, "which is healthy and wanted"),
    (plant_an_inherited_readiness, "is shown ready, and its probes do not say so"),
    (plant_a_hasty_container, "before its volumes scratch are ready"),
    (plant_volumes_that_go_first, "are taken down while"),
    (plant_a_hook_that_nobody_waits_for, "whose preStop hook is not over"),
    (plant_a_sync_without_a_pause, "and no time passes"),
)
"""What is broken on purpose, and words of the violation that finds it."""


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "found"), BREAKS)
def test_a_rule_broken_on_purpose_is_found_by_a_seed(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_found(plant, found, run_node, monkeypatch)
