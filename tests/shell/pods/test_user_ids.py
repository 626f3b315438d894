"""Users for pods with a user namespace: written down on the disk before they are used, and all an agent knows of them;
and a node whose pods have some.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shell.pods.shellkit import Bench, FixedHealth, phase, until
from trikubelet.core.containers import SandboxConfigError
from trikubelet.core.user_namespaces import IdPool, ids_of, written
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import SandboxState
from trikubelet.model.runtime_config import IdRange
from trikubelet.pods.user_ids import UserIds
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trio.testing import MockClock

K64 = 65536
ALL, ONE = IdPool(), IdPool(K64, K64)
"""``ONE`` has a single range, so all pods in turn get the same."""
FIRST = ids_of("uid-a", {}, ALL)
SECOND = ids_of("uid-b", {"uid-a": written(FIRST)}, ALL)
A, B = (pod(name, host_users=False) for name in ("a", "b"))


@pytest.fixture
def disk(tmp_path: Path) -> DiskPodFiles:
    made = DiskPodFiles(tmp_path, tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 1))
    for uid in ("uid-a", "uid-b"):
        (tmp_path / "pods" / uid).mkdir()
    return made


def agent(disk: DiskPodFiles, *able: str, pool: IdPool = ALL, users: Sequence[IdRange] = ()) -> UserIds:
    """Return the state of an agent that begins now; ``able`` are the runtime handlers that can do it."""
    return UserIds(disk, pool, FixedHealth(maps_users_of=able or ("",)), lambda: users)


def test_a_pod_that_does_not_ask_has_the_nodes_users(disk: DiskPodFiles) -> None:
    for plain in (pod("a"), pod("a", host_users=True)):
        assert agent(disk).of_new(plain, "") is None
        assert agent(disk).of_standing(plain) is None
    assert b"" == disk.noted("uid-a", Note.USER_IDS)


def test_what_a_pod_has_is_on_the_disk_as_upstream_writes_it_and_the_next_agent_finds_it(
    disk: DiskPodFiles, tmp_path: Path
) -> None:
    assert [FIRST, SECOND] == [agent(disk).of_new(one, "") for one in (A, B)]
    assert (
        f'{{"uidMappings":[{{"hostId":{SECOND.first},"containerId":0,"length":65536}}],'
        f'"gidMappings":[{{"hostId":{SECOND.first},"containerId":0,"length":65536}}]}}'
    ) == (tmp_path / "pods/uid-b/userns").read_text()

    assert [SECOND, FIRST] == [agent(disk).of_new(one, "") for one in (B, A)]
    assert [SECOND, FIRST] == [agent(disk).of_standing(one) for one in (B, A)]


@pytest.mark.parametrize("ends", ["released", "removed"])
async def test_what_a_pod_had_is_for_others_when_it_is_over(ends: str, disk: DiskPodFiles) -> None:
    ids = agent(disk, pool=ONE)
    ids.of_new(A, "")
    if ends == "released":
        ids.release("uid-a")
        ids.release("uid-a")
    else:
        await disk.remove_pod("uid-a")

    assert ids.of_new(B, "") is not None


def test_the_ids_of_the_nodes_users_count_unless_some_are_set_aside_for_the_kubelet(disk: DiskPodFiles) -> None:
    alice = [IdRange(100000, K64)]

    with pytest.raises(SandboxConfigError, match="could not find an empty slot"):
        agent(disk, pool=ONE, users=alice).of_new(A, "")
    assert agent(disk, pool=replace(ONE, is_set_aside=True), users=alice).of_new(A, "") is not None


def test_without_the_ids_of_the_nodes_users_no_pod_is_given_any(disk: DiskPodFiles) -> None:
    def fails() -> Sequence[IdRange]:
        raise PermissionError(errno.EACCES, "Permission denied", "/etc/subuid")

    with pytest.raises(SandboxConfigError, match="Permission denied: '/etc/subuid'"):
        UserIds(disk, ALL, FixedHealth(maps_users_of=("",)), fails).of_new(A, "")


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        ("can't set `spec.hostUsers: false`, runtime does not support user namespaces", ""),
        ('can\'t set `spec.hostUsers: false`, RuntimeClass handler "old" does not support user namespaces', "old"),
    ],
)
def test_a_runtime_that_cannot_is_not_asked(expected: str, handler: str, disk: DiskPodFiles) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        agent(disk, "new").of_new(A, handler)

    assert f"Failed to create pod sandbox: {expected}" == caught.value.message
    assert b"" == disk.noted("uid-a", Note.USER_IDS)


def test_an_empty_file_as_a_power_cut_leaves_it_holds_nothing(disk: DiskPodFiles) -> None:
    disk.note("uid-b", Note.USER_IDS, b"")

    assert agent(disk, pool=ONE).of_new(A, "") is not None


async def test_two_pods_with_ids_in_common_are_told_at_the_start_and_get_no_new_sandbox(
    disk: DiskPodFiles, caplog: pytest.LogCaptureFixture
) -> None:
    for uid in ("uid-a", "uid-b"):
        disk.note(uid, Note.USER_IDS, written(FIRST))
    ids = agent(disk)

    ids.log_problems()

    assert ["Users of pods: pods uid-a and uid-b have ids in common (see their files userns)"] == caplog.messages
    with pytest.raises(SandboxConfigError, match="user namespace: pods uid-b and uid-a have ids in common"):
        ids.of_new(B, "")
    assert FIRST == ids.of_standing(B)
    await disk.remove_pod("uid-a")
    assert FIRST == ids.of_new(B, "")


def test_what_the_users_of_a_standing_sandbox_are_is_known_or_told_and_never_chosen(disk: DiskPodFiles) -> None:
    with pytest.raises(
        SandboxConfigError, match="user namespace: the file userns of pod uid-a: invalid user namespace"
    ):
        agent(disk).of_standing(A)


def test_a_disk_that_fails_is_reported(
    disk: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error", "/pods/uid-a/userns")

    ids = agent(disk)
    for method in ("noted", "note", "forget_note"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, method, fails)
            if method == "forget_note":
                ids.release("uid-a")
            else:
                with pytest.raises(SandboxConfigError, match="Input/output error: '/pods/uid-a/userns'"):
                    ids.of_new(A, "")
            if method == "noted":
                ids.log_problems()
                with pytest.raises(SandboxConfigError, match="Input/output error"):
                    ids.of_standing(A)
    assert 2 == sum("Input/output error" in message for message in caplog.messages)
    assert FIRST == ids.of_new(A, "")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "note", fails)
        assert FIRST == ids.of_new(A, "")  # who has users needs no more of the disk


def given(bench: Bench, uid: str) -> list[IdRange | None]:
    """Return the ids of each existing sandbox of the pod, and of each container in it."""
    world = bench.world
    standing = [s.id for s in world.sandboxes.values() if s.uid == uid and s.state is SandboxState.READY]
    made = [one.config for one in world.containers.values() if one.status.sandbox_id in standing]
    configs = [world.sandbox_configs[one] for one in standing]
    return [config.security.namespaces.users for config in (*configs, *made)]


async def test_pods_with_users_of_their_own_keep_them_over_restarts_of_agent_and_sandbox(
    autojump_clock: MockClock,
) -> None:
    expected = {"uid-a": 3 * [FIRST], "uid-b": 2 * [SECOND], "uid-plain": 2 * [None]}
    bench = Bench()

    def are_given() -> bool:
        return expected == {uid: given(bench, uid) for uid in expected}

    own = pod("a", container("main"), container("second"), host_users=False)
    async with bench.agent(own, B, pod("plain")):
        await until(are_given)

    async with bench.agent(own, B, pod("plain")):
        bench.world.stop_sandbox(next(one.id for one in bench.world.sandboxes.values() if one.uid == "uid-a"))
        assert not are_given()
        await until(are_given)


async def test_a_container_that_is_started_again_has_the_users_of_its_sandbox(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("a", container(command=("exit", "1", "1")), host_users=False)):
        await until(lambda: 1 in {one.config.attempt for one in bench.world.containers.values()})

    assert {FIRST} == set(given(bench, "uid-a"))


async def test_a_pod_that_has_ended_gives_its_users_back_while_it_is_still_known(autojump_clock: MockClock) -> None:
    bench = Bench()
    short = pod("a", container(command=("exit", "0", "1")), policy="Never", host_users=False)
    async with bench.agent(short) as node:
        await until(lambda: bool(bench.files.noted("uid-a", Note.USER_IDS)))
        await until(lambda: phase(node, "uid-a") == "Succeeded" and not bench.files.noted("uid-a", Note.USER_IDS))

        assert "uid-a" in bench.pods_on_disk()


async def test_a_pod_that_has_ids_of_another_runs_on_and_is_told_of_when_the_agent_starts(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.agent(A):
        await until(lambda: 2 * [FIRST] == given(bench, "uid-a"))
    before = bench.world.running_of("uid-a")
    await bench.files.make_pod("uid-b")
    bench.files.note("uid-b", Note.USER_IDS, written(FIRST))

    async with bench.agent(A, B) as node:
        assert "pods uid-a and uid-b have ids in common" in caplog.text
        await until(lambda: any("ids in common" in event.message for event in node.events.all()))

    assert before == bench.world.running_of("uid-a")
    assert [] == given(bench, "uid-b")
