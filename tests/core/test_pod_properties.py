"""What holds for every pod, whatever is observed of it and whatever happens to it."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from core.podkit import BOX, observe, pod, rule
from core.podworld import PodWorld
from core.statuskit import NOW
from trikubelet.core.actions import KillReason, PodActions, Verdict, Verdicts, plan
from trikubelet.core.pod_status import (
    StatusFacts,
    equal,
    generate,
    illegal_transitions,
    merge,
    normalize,
    terminate,
)
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.restarts import allows_restart, is_sidecar, policy
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState

POLICIES = ["Always", "OnFailure", "Never"]
CODES = [0, 1, 42]
MAY_RUN = (ContainerState.RUNNING, ContainerState.UNKNOWN)

RULES = st.lists(
    st.builds(rule, st.just("Restart"), st.sampled_from(["In", "NotIn"]), st.sampled_from(CODES)), max_size=2
).map(tuple)
RULES_OF_ALL = st.lists(
    st.builds(
        rule, st.sampled_from(["Restart", "RestartAllContainers"]), st.sampled_from(["In"]), st.sampled_from([1, 42])
    ),
    max_size=2,
).map(tuple)


@st.composite
def pods(draw: st.DrawFn, rules: st.SearchStrategy[tuple[k8s.ContainerRestartRule, ...]] = RULES) -> k8s.Pod:
    """A pod of up to three containers of each kind, with policies and rules of their own."""

    def container(name: str, policies: list[str]) -> k8s.Container:
        own = draw(st.sampled_from(policies))
        probe = k8s.Probe() if draw(st.booleans()) else None
        return k8s.Container(
            name=name, image="image:1", restart_policy=own, startup_probe=probe, restart_policy_rules=draw(rules)
        )

    init = tuple(container(f"i{n}", ["", "", "Always", "OnFailure"]) for n in range(draw(st.integers(0, 3))))
    regular = [container(f"c{n}", ["", "", *POLICIES]) for n in range(draw(st.integers(1, 3)))]
    ephemeral = tuple(f"e{n}" for n in range(draw(st.integers(0, 1))))
    return pod(*regular, init=init, ephemeral=ephemeral, policy=draw(st.sampled_from(POLICIES)))


@st.composite
def observations(draw: st.DrawFn, of: k8s.Pod) -> PodObservation:
    """Anything a runtime might tell of the pod, possible or not."""
    spec = of.spec
    statuses = []
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        for attempt in range(draw(st.integers(0, 2))):
            state = draw(st.sampled_from(list(ContainerState)))
            code = draw(st.sampled_from(CODES)) if state is ContainerState.EXITED else 0
            statuses.append(
                ContainerStatus(
                    f"{container.name}-{attempt}", container.name, attempt, state, attempt + 1, exit_code=code,
                    sandbox_id=draw(st.sampled_from(["box", "old"])), hash=draw(st.sampled_from(["", "", "changed"])),
                )
            )  # fmt: skip
    states = draw(st.lists(st.sampled_from(list(SandboxState)), max_size=2))
    known = zip(("box", "old"), (1, 0), states, strict=False)
    boxes = tuple(replace(BOX, id=id_, attempt=attempt, state=state) for id_, attempt, state in known)
    return observe(of, *statuses, sandboxes=boxes)


VERDICTS = st.sampled_from(list(Verdict))


@st.composite
def verdicts(draw: st.DrawFn, observed: PodObservation) -> Verdicts:
    ids = [status.id for status in observed.containers]
    some = st.dictionaries(st.sampled_from(ids), VERDICTS) if ids else st.just({})
    return Verdicts(liveness=draw(some), startup=draw(some))


@dataclass(frozen=True)
class Situation:
    pod: k8s.Pod
    observed: PodObservation
    verdicts: Verdicts
    actions: PodActions


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    it = draw(pods(RULES_OF_ALL))
    observed = draw(observations(it))
    judged = draw(verdicts(observed))
    return Situation(it, observed, judged, plan(it, observed, judged))


def running_world(it: k8s.Pod) -> PodWorld:
    """The pod's world after everything went well."""
    world = PodWorld(it)
    for _ in range(4 + 2 * len(it.spec.init_containers)):
        world.perform(plan(it, world.observe(), world.verdicts()))
        for container in it.spec.init_containers:
            if not is_sidecar(container):
                world.end(container.name, 0)
    return world


@given(pods())
def test_a_healthy_pod_plans_nothing(it: k8s.Pod) -> None:
    world = running_world(it)
    up = {c.name for c in world.containers if c.state is ContainerState.RUNNING}
    stay = [*it.spec.containers, *it.spec.ephemeral_containers, *filter(is_sidecar, it.spec.init_containers)]
    assert {container.name for container in stay} == up
    assert plan(it, world.observe(), world.verdicts()).is_empty


@given(situations())
def test_a_plan_makes_sense_in_itself(s: Situation) -> None:
    a = s.actions
    own = a.init_to_start or a.to_start
    starts = a.ephemeral_to_start or own
    alone = not (a.kill_pod or a.create_sandbox or a.to_kill or own)
    assert not a.to_reset or alone, "beside a reset nothing is done but for who looks for its cause"
    assert not a.create_sandbox or a.kill_pod, "an old sandbox is stopped before a new one is made"
    assert not a.kill_pod or a.create_sandbox or not starts, "nothing is started in a pod that ends"
    assert not a.kill_pod or not a.to_kill, "the whole pod or single containers"
    assert not a.create_sandbox or bool(a.init_to_start) != bool(a.to_start), "a new sandbox begins at the beginning"
    for indices in (a.ephemeral_to_start, a.init_to_start, a.to_start):
        assert list(indices) == sorted(set(indices))
    killed = [kill.status.id for kill in a.to_kill]
    assert len(killed) == len(set(killed))
    assert all(kill.status.state in MAY_RUN for kill in a.to_kill)
    assert a.kill_pod or a.create_sandbox or not starts or a.sandbox_id, "what starts has a sandbox to start in"


@given(situations())
def test_a_regular_container_is_started_only_where_its_policy_allows(s: Situation) -> None:
    replaced = {kill.status.name: kill.reason for kill in s.actions.to_kill}
    for index in s.actions.to_start:
        container = s.pod.spec.containers[index]
        status = s.observed.latest(container.name)
        if status is not None and status.state is ContainerState.EXITED:
            assert allows_restart(s.pod, container, status.exit_code)
        elif status is not None and status.state is ContainerState.RUNNING and not s.actions.create_sandbox:
            changed = replaced[container.name] is KillReason.HASH_CHANGED
            assert changed or policy(s.pod, container) != "Never"


@given(situations())
def test_nothing_that_runs_is_started_beside_itself(s: Situation) -> None:
    if s.actions.create_sandbox:
        return
    spec = s.pod.spec
    started = [spec.init_containers[i].name for i in s.actions.init_to_start]
    started += [spec.containers[i].name for i in s.actions.to_start]
    killed = {kill.status.name for kill in s.actions.to_kill}
    for name in started:
        status = s.observed.latest(name)
        here = status is not None and status.sandbox_id in ("", s.actions.sandbox_id)
        if status is not None and here and status.state in MAY_RUN:
            assert name in killed


@given(situations())
def test_an_init_container_that_failed_for_good_is_not_started_in_its_sandbox(s: Situation) -> None:
    if s.actions.create_sandbox:
        return
    for index in s.actions.init_to_start:
        container = s.pod.spec.init_containers[index]
        here = [c for c in s.observed.history(container.name) if c.sandbox_id == s.actions.sandbox_id]
        if here and not is_sidecar(container) and here[0].state is ContainerState.EXITED:
            assert here[0].exit_code != 0
            assert allows_restart(s.pod, container, here[0].exit_code)


@given(situations())
def test_ephemeral_containers_start_once(s: Situation) -> None:
    made = [s.observed.latest(s.pod.spec.ephemeral_containers[index].name) for index in s.actions.ephemeral_to_start]
    assert all(latest is None or latest.state is ContainerState.CREATED for latest in made)


@given(situations())
def test_while_something_starts_over_everything_of_the_pod_is_taken_away_once(s: Situation) -> None:
    if s.actions.to_reset:
        names = {c.name for c in (*s.pod.spec.init_containers, *s.pod.spec.containers)}
        ids = [reset.status.id for reset in s.actions.to_reset]
        assert sorted(c.id for c in s.observed.containers if c.name in names) == sorted(ids)
        assert all(reset.kill == (reset.status.state in MAY_RUN) for reset in s.actions.to_reset)


# ---- whole lives ----


@st.composite
def happenings(draw: st.DrawFn, it: k8s.Pod) -> list[tuple[str, str, int]]:
    spec = it.spec
    names = [c.name for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
    what = st.sampled_from(["end", "end", "end", "lose", "reboot"])
    return draw(st.lists(st.tuples(what, st.sampled_from(names), st.sampled_from(CODES)), max_size=12))


@st.composite
def lives(
    draw: st.DrawFn, rules: st.SearchStrategy[tuple[k8s.ContainerRestartRule, ...]] = RULES
) -> tuple[k8s.Pod, list[tuple[str, str, int]]]:
    it = draw(pods(rules))
    return it, draw(happenings(it))


def happen(world: PodWorld, what: str, name: str, code: int) -> None:
    match what:
        case "end":
            world.end(name, code)
        case "lose":
            world.lose(name)
        case _:
            world.reboot()


@given(lives(RULES_OF_ALL))
def test_whatever_happened_a_pod_left_in_peace_comes_to_rest(life: tuple[k8s.Pod, list[tuple[str, str, int]]]) -> None:
    it, events = life
    world = PodWorld(it)
    for what, name, code in events:
        world.perform(plan(it, world.observe(), world.verdicts()))
        happen(world, what, name, code)
    for _ in range(20):
        actions = plan(it, world.observe(), world.verdicts())
        running = any(c.state is ContainerState.RUNNING for c in world.containers)
        if actions.is_empty or (actions.kill_pod and not actions.create_sandbox and not running):
            break
        world.perform(actions)
        for container in it.spec.init_containers:
            if not is_sidecar(container):
                world.end(container.name, 0)
    else:
        raise AssertionError(f"still busy: {actions}")
    live = [s for s in world.sandboxes if s.state is SandboxState.READY]
    assert len(live) <= 1
    by_name = [c.name for c in world.containers if c.state is ContainerState.RUNNING]
    assert len(by_name) == len(set(by_name)), "one container of a name at a time"


@given(lives(RULES_OF_ALL), st.booleans())
def test_statuses_never_go_backwards(life: tuple[k8s.Pod, list[tuple[str, str, int]]], delete: bool) -> None:
    it, events = life
    world = PodWorld(it)
    before: k8s.PodStatus | None = None
    for what, name, code in [*events, ("end", "c0", 0)]:
        previous = all_statuses(before) if before is not None else {}
        noted = ContainerFacts(waiting={name: ("CrashLoopBackOff", "")} if code else {}, previous=previous)
        after = generate(it, world.observe(), StatusFacts(NOW, ("192.0.2.1",), before, containers=noted))
        check_status(it, after)
        if before is not None:
            check_step(it, before, after)
        before = after
        if after.phase in TERMINAL:
            break  # the worker stops syncing and stops the pod
        world.perform(plan(it, world.observe(), world.verdicts(), shown=after))
        happen(world, what, name, code)
    assert before is not None
    if delete or before.phase in TERMINAL:
        world.perform(PodActions(kill_pod=True))
        last = generate(it, world.observe(), StatusFacts(NOW, ("192.0.2.1",), before, is_ending=True))
        check_step(it, before, last)
        final = terminate(it, last, NOW)
        check_step(it, last, final)
        assert final.phase in TERMINAL
        assert not any(c.status == "True" for c in final.conditions if c.type in ("Ready", "ContainersReady"))


def all_statuses(status: k8s.PodStatus) -> dict[str, k8s.ContainerStatus]:
    return {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}


def check_status(it: k8s.Pod, status: k8s.PodStatus) -> None:
    """Check what every single status must satisfy."""
    shown = all_statuses(status)
    for one in shown.values():
        assert one.state is not None
        assert 1 == sum(getattr(one.state, kind) is not None for kind in ("waiting", "running", "terminated"))
        assert one.last_state is None or one.last_state.terminated is not None, "a last state is an end"
    for container in it.spec.containers:
        one = shown[container.name]
        assert not one.ready or (one.state is not None and one.state.running is not None)
    live = [s.name for s in shown.values() if s.state is not None and s.state.running is not None]
    assert status.phase != "Succeeded" or not live, "success is told when nothing runs any more"
    again = generate(it, PodObservation(it.metadata.uid), StatusFacts(NOW, (), status))
    assert status.phase not in TERMINAL or again.phase == status.phase


def check_step(it: k8s.Pod, before: k8s.PodStatus, after: k8s.PodStatus) -> None:
    """Check the rules between a status and the next one."""
    assert () == illegal_transitions(it, before, after)
    assert before.phase not in TERMINAL or after.phase == before.phase
    assert after.start_time == before.start_time
    old, new = all_statuses(before), all_statuses(after)
    for name, one in old.items():
        assert new[name].restart_count >= one.restart_count, f"{name} has been restarted before"
        assert one.last_state is None or new[name].last_state is not None or new[name].state == one.last_state, (
            f"{name} had ended before"
        )


@given(lives(), st.booleans())
def test_merging_comparing_and_normalizing_are_at_rest_after_once(
    life: tuple[k8s.Pod, list[tuple[str, str, int]]], could_run: bool
) -> None:
    it, events = life
    world = PodWorld(it)
    reported = k8s.PodStatus(phase="Pending", conditions=(k8s.PodCondition(type="theirs", status="True"),))
    for what, name, code in events:
        computed = normalize(it, generate(it, world.observe(), StatusFacts(NOW, ("192.0.2.1",))))
        assert computed == normalize(it, computed)
        assert equal(computed, computed)
        sent = merge(reported, computed, could_run=could_run, now=NOW)
        assert sent == merge(sent, computed, could_run=could_run, now="2030-01-01T00:00:00Z")
        assert reported.phase not in TERMINAL or sent.phase == reported.phase
        assert not could_run or sent.phase not in TERMINAL
        assert "theirs" in {c.type for c in sent.conditions}
        reported = sent
        world.perform(plan(it, world.observe(), world.verdicts()))
        happen(world, what, name, code)
