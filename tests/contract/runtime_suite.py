"""One contract for any container runtime behind ``ports.Runtime`` and ``ports.Images``: what the agent relies on.

In scope: the life of sandboxes and containers, names and labels, exits, errors by class, commands in containers, logs,
images. Out of scope: what only some runtimes can do (isolation, limits, networks). A test file makes a `Subject` in a
fixture ``subject`` and lets a class inherit from ``RuntimeContract``, from ``LogContract`` where containers write log
files, and from ``AwayContract`` where the runtime can be taken away, on virtual time. ``clock`` is an autojump clock
where time is virtual, and nothing in particular where it is not.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core import image_garbage
from trikubelet.core.names import POD_UID
from trikubelet.core.statuses import KEY_BYTES, StatusDigester
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.kit.every import Every
from trikubelet.model.registry import Login
from trikubelet.model.runtime import ContainerState, ContainerStatus, HeldResources, SandboxState
from trikubelet.model.runtime_config import (
    ContainerConfig,
    IdRange,
    LinuxResources,
    NamespaceMode,
    Namespaces,
    SandboxConfig,
    Security,
)
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from trikubelet.ports import Images, Runtime

WAIT_SECONDS_MAX = 60
POLL_SECONDS = 0.02  # not every runtime has events


@dataclass(frozen=True)
class Subject:
    """A runtime under test and how its programs are called. ``stoppable`` runs until the stop signal and ends then with
    143; ``stubborn`` ignores the signal; both write ``ready`` when signals may come, where there are logs;
    ``exits`` ends at once; ``impossible`` cannot be started. ``resizes``: what runs can be held to other amounts;
    ``away``: nobody is at its socket, for the length of the block."""

    runtime: Runtime
    images: Images
    image: str
    absent_image: str
    stoppable: tuple[str, ...]
    stubborn: tuple[str, ...]
    exits: Callable[[int], tuple[str, ...]]
    impossible: tuple[str, ...]
    log_directory: Path | None = None
    cgroup_parent: str = ""
    resizes: bool = True
    away: Callable[[], AbstractAsyncContextManager[None]] | None = None
    made: list[str] = field(default_factory=list)

    def sandbox_config(self, uid: str = "uid-1", attempt: int = 0) -> SandboxConfig:
        """A sandbox of pod ``uid``, on the machine's network: the contract is not about networks."""
        return SandboxConfig(
            uid=uid,
            name=f"pod-{uid}",
            namespace="contract",
            attempt=attempt,
            log_directory=str(self.log_directory) if self.log_directory else "",
            labels={POD_UID: uid, "tier": "test"},
            annotations={"note": "kept"},
            cgroup_parent=self.cgroup_parent,
            security=Security(namespaces=Namespaces(network=NamespaceMode.NODE)),
        )

    def container_config(self, command: tuple[str, ...], name: str = "main", attempt: int = 0) -> ContainerConfig:
        """A container that runs ``command``."""
        return ContainerConfig(
            name=name,
            attempt=attempt,
            image=self.image,
            user_specified_image=self.image,
            command=command,
            log_path=f"{name}-{attempt}.log",
            labels={POD_UID: "uid-1", "tier": "test"},
            annotations={"note": "kept"},
        )

    async def sandbox(self, uid: str = "uid-1") -> str:
        """A running sandbox."""
        return await self.runtime.run_sandbox(self.sandbox_config(uid))

    async def created(self, sandbox_id: str, command: tuple[str, ...], name: str = "main", attempt: int = 0) -> str:
        """A container that has not started."""
        config = self.container_config(command, name, attempt)
        return await self.runtime.create_container(sandbox_id, config, self.sandbox_config())

    async def started(self, command: tuple[str, ...]) -> str:
        """A container that runs, in a sandbox of its own."""
        container_id = await self.created(await self.sandbox(), command)
        await self.start(container_id, command)
        return container_id

    async def start(self, container_id: str, command: tuple[str, ...]) -> None:
        """Start a container, and wait until a program that minds signals has said that it does from now on."""
        await self.runtime.start_container(container_id)
        if self.log_directory is not None and command in (self.stoppable, self.stubborn):
            with trio.fail_after(WAIT_SECONDS_MAX):
                while not _holds(self.log_directory / "main-0.log", b"ready"):  # noqa: ASYNC110 - a file has no event
                    await trio.sleep(POLL_SECONDS)

    async def exited(self, container_id: str) -> ContainerStatus:
        """The container's status once it has ended."""
        with trio.fail_after(WAIT_SECONDS_MAX):
            while True:
                status = (await self.runtime.container_status(container_id)).decode()
                if status.state is ContainerState.EXITED:
                    return status
                await trio.sleep(POLL_SECONDS)  # CRI 1.6 can only be asked

    async def listed_sandboxes(self, uid: str | None = None) -> dict[str, pb.PodSandbox]:
        """The sandbox list, decoded, by id."""
        replies = [pb.ListPodSandboxResponse.FromString(r) for r in await self.runtime.list_sandboxes(uid)]
        return {item.id: item for reply in replies for item in reply.items}

    async def listed_containers(self, uid: str | None = None) -> dict[str, pb.Container]:
        """The container list, decoded, by id."""
        replies = [pb.ListContainersResponse.FromString(r) for r in await self.runtime.list_containers(uid)]
        return {item.id: item for reply in replies for item in reply.containers}


async def _same_or_refused(asked: Awaitable[str]) -> str | None:
    """Return the existing one, as CRI-O does, or None if it is rejected, as by containerd."""
    try:
        return await asked
    except RuntimeCallError as error:
        if "reserved" not in str(error):
            raise
        return None


def _holds(file: Path, text: bytes) -> bool:
    return file.exists() and text in file.read_bytes()


class RuntimeContract:
    """What every runtime does."""

    async def test_runtime_reports_its_name_and_that_it_is_ready(self, subject: Subject, clock: object) -> None:
        info = await subject.runtime.info()

        assert info.name
        assert "v1" == info.api_version
        ready = info.condition("RuntimeReady")
        assert ready is not None
        assert ready.status

    async def test_a_runtime_that_is_there_need_not_be_waited_for(self, subject: Subject, clock: object) -> None:
        with trio.fail_after(WAIT_SECONDS_MAX):
            await subject.runtime.wait_connected()

    async def test_a_runtime_that_says_its_cgroup_driver_names_one_there_is(
        self, subject: Subject, clock: object
    ) -> None:
        assert await subject.runtime.cgroup_driver() in ("cgroupfs", "systemd", "")

    async def test_a_sandbox_is_ready_and_has_the_names_it_was_given(self, subject: Subject, clock: object) -> None:
        reply = await subject.runtime.sandbox_status(await subject.sandbox())
        status, told = reply.decode(), pb.PodSandboxStatusResponse.FromString(reply.raw).status

        assert SandboxState.READY is status.state
        assert ("uid-1", "pod-uid-1", "contract", 0) == (status.uid, status.name, status.namespace, status.attempt)
        assert {POD_UID: "uid-1", "tier": "test"}.items() <= told.labels.items()  # CRI-O adds its own
        assert {"note": "kept"} == told.annotations
        assert status.host_network
        assert 0 < status.created_at

    async def test_a_stopped_sandbox_stays_and_is_not_ready(self, subject: Subject, clock: object) -> None:
        sandbox_id = await subject.sandbox()

        await subject.runtime.stop_sandbox(sandbox_id)
        await subject.runtime.stop_sandbox(sandbox_id)

        status = (await subject.runtime.sandbox_status(sandbox_id)).decode()
        assert SandboxState.NOTREADY is status.state
        assert () == status.ips
        # containerd 2 asks the sandbox for its status, and lists what it noted when it heard of its end: soon after.
        with trio.fail_after(60):
            async for _ in Every(0.02):
                if pb.SANDBOX_NOTREADY == (await subject.listed_sandboxes())[sandbox_id].state:
                    break

    async def test_a_second_sandbox_of_the_same_attempt_is_never_made(self, subject: Subject, clock: object) -> None:
        made = await subject.sandbox()

        assert await _same_or_refused(subject.sandbox()) in (made, None)
        assert {made} == set(await subject.listed_sandboxes())

    async def test_a_pod_has_users_of_its_own_where_its_runtime_says_that_it_can(
        self, subject: Subject, clock: object
    ) -> None:
        handlers = (await subject.runtime.info()).handlers
        own = Security(namespaces=Namespaces(users=IdRange(first=1 << 20, length=1 << 16)))
        sandbox = replace(subject.sandbox_config(), security=own)
        if any(handler.user_namespaces for handler in handlers if handler.name == ""):
            sandbox_id = await subject.runtime.run_sandbox(sandbox)
            config = replace(subject.container_config(subject.exits(3)), security=own)
            container_id = await subject.runtime.create_container(sandbox_id, config, sandbox)
            await subject.runtime.start_container(container_id)
            assert 3 == (await subject.exited(container_id)).exit_code
        elif handlers:  # one that says nothing of its handlers may pass the wish over
            with pytest.raises(RuntimeCallError):
                await subject.runtime.run_sandbox(sandbox)

    async def test_a_list_can_be_narrowed_to_one_pod(self, subject: Subject, clock: object) -> None:
        one = await subject.sandbox("uid-1")
        two = await subject.sandbox("uid-2")
        container = await subject.created(one, subject.stoppable)

        assert {one, two} == set(await subject.listed_sandboxes())
        assert {two} == set(await subject.listed_sandboxes("uid-2"))
        assert {container} == set(await subject.listed_containers("uid-1"))
        assert {} == await subject.listed_containers("uid-2")

    async def test_a_container_is_listed_with_its_names(self, subject: Subject, clock: object) -> None:
        sandbox_id = await subject.sandbox()
        container_id = await subject.created(sandbox_id, subject.stoppable, "named", 3)

        item = (await subject.listed_containers())[container_id]

        assert ("named", 3) == (item.metadata.name, item.metadata.attempt)
        assert sandbox_id == item.pod_sandbox_id
        assert pb.CONTAINER_CREATED == item.state
        assert {POD_UID: "uid-1", "tier": "test"} == dict(item.labels)

    async def test_a_status_does_not_say_in_which_sandbox_its_container_lives(
        self, subject: Subject, clock: object
    ) -> None:
        # CRI's ContainerStatus has no field for it: a fake that knew it would hide who forgets to ask the list.
        container_id = await subject.created(await subject.sandbox(), subject.stoppable)
        replies = await subject.runtime.statuses((), (container_id,))

        assert "" == (await subject.runtime.container_status(container_id)).decode().sandbox_id
        assert [""] == [reply.decode().sandbox_id for reply in replies.containers]

    async def test_a_container_is_created_then_runs_then_has_exited(self, subject: Subject, clock: object) -> None:
        container_id = await subject.created(await subject.sandbox(), subject.stoppable)
        created = (await subject.runtime.container_status(container_id)).decode()
        await subject.start(container_id, subject.stoppable)
        running = (await subject.runtime.container_status(container_id)).decode()
        await subject.runtime.stop_container(container_id, 20)
        reply = await subject.runtime.container_status(container_id)
        exited = reply.decode()

        assert [ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED] == [
            status.state for status in (created, running, exited)
        ]
        assert (143, "Error") == (exited.exit_code, exited.reason)
        assert 0 < exited.created_at <= exited.started_at <= exited.finished_at
        assert {"note": "kept"} == pb.ContainerStatusResponse.FromString(reply.raw).status.annotations

    @pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (1, "Error"), (77, "Error")])
    async def test_a_container_keeps_its_exit_code(
        self, subject: Subject, clock: object, code: int, reason: str
    ) -> None:
        status = await subject.exited(await subject.started(subject.exits(code)))

        assert (code, reason) == (status.exit_code, status.reason)

    async def test_a_container_that_ignores_its_stop_signal_is_killed(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stubborn)

        await subject.runtime.stop_container(container_id, 1)

        status = (await subject.runtime.container_status(container_id)).decode()
        assert (ContainerState.EXITED, 137) == (status.state, status.exit_code)

    async def test_stopping_what_has_exited_changes_nothing(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.exits(5))
        before = await subject.exited(container_id)

        await subject.runtime.stop_container(container_id, 1)

        # CRI-O takes the moment of the call for its end.
        after = (await subject.runtime.container_status(container_id)).decode()
        assert before == replace(after, finished_at=before.finished_at)
        assert before.finished_at <= after.finished_at

    async def test_statuses_are_told_apart_by_what_they_say(self, subject: Subject, clock: object) -> None:
        digester = StatusDigester(bytes(KEY_BYTES))
        sandbox_id = await subject.sandbox()
        container_id = await subject.created(sandbox_id, subject.stoppable)
        await subject.start(container_id, subject.stoppable)

        async def digests() -> tuple[bytes, bytes]:
            sandbox = await subject.runtime.sandbox_status(sandbox_id)
            container = await subject.runtime.container_status(container_id)
            return digester.sandbox(sandbox.raw), digester.container(container.raw)

        running = {await digests() for _ in range(10)}
        await subject.runtime.stop_container(container_id, 5)
        stopped = {await digests() for _ in range(10)}

        assert (1, 1) == (len(running), len(stopped)), "nothing happened"
        assert running != stopped

    async def test_what_cannot_be_started_is_not_made_or_has_exited_with_a_reason(
        self, subject: Subject, clock: object
    ) -> None:
        sandbox_id = await subject.sandbox()

        with pytest.raises(RuntimeCallError):  # by CRI-O at the first call, which makes all but the program's start
            await subject.runtime.start_container(await subject.created(sandbox_id, subject.impossible))

        for container_id in await subject.listed_containers():
            status = await subject.exited(container_id)
            assert (128, "StartError") == (status.exit_code, status.reason)

    async def test_a_container_starts_only_once(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)

        with pytest.raises(RuntimeCallError):
            await subject.runtime.start_container(container_id)

        assert ContainerState.RUNNING is (await subject.runtime.container_status(container_id)).decode().state

    async def test_a_stopped_sandbox_takes_no_containers(self, subject: Subject, clock: object) -> None:
        sandbox_id = await subject.sandbox()
        await subject.runtime.stop_sandbox(sandbox_id)

        with pytest.raises(RuntimeCallError):  # by containerd sometimes only at the second of the two calls
            await subject.runtime.start_container(await subject.created(sandbox_id, subject.stoppable))

    async def test_a_second_container_of_the_same_attempt_is_never_made(self, subject: Subject, clock: object) -> None:
        sandbox_id = await subject.sandbox()
        made = await subject.created(sandbox_id, subject.stoppable)

        assert await _same_or_refused(subject.created(sandbox_id, subject.stoppable)) in (made, None)
        assert {made} == set(await subject.listed_containers())

        await subject.created(sandbox_id, subject.stoppable, attempt=1)

    async def test_stopping_a_sandbox_kills_its_containers(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stubborn)
        sandbox_id = (await subject.listed_containers())[container_id].pod_sandbox_id

        await subject.runtime.stop_sandbox(sandbox_id)

        status = await subject.exited(container_id)
        assert 137 == status.exit_code

    async def test_removing_a_container_kills_it(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stubborn)

        await subject.runtime.remove_container(container_id)

        assert {} == await subject.listed_containers()
        with pytest.raises(NotFound):
            await subject.runtime.container_status(container_id)

    async def test_removing_a_sandbox_removes_its_containers(self, subject: Subject, clock: object) -> None:
        await subject.started(subject.stubborn)
        sandbox_id = next(iter(await subject.listed_sandboxes()))

        await subject.runtime.stop_sandbox(sandbox_id)
        await subject.runtime.remove_sandbox(sandbox_id)

        assert {} == await subject.listed_containers()
        assert {} == await subject.listed_sandboxes()

    async def test_removing_what_is_not_there_is_no_error(self, subject: Subject, clock: object) -> None:
        await subject.runtime.remove_container("f" * 64)
        await subject.runtime.remove_sandbox("f" * 64)

    async def test_looking_at_or_starting_what_is_not_there_is_an_error(self, subject: Subject, clock: object) -> None:
        for call in (
            subject.runtime.container_status,
            subject.runtime.sandbox_status,
            subject.runtime.start_container,
        ):
            with pytest.raises(NotFound):
                await call("f" * 64)

    async def test_stopping_a_container_that_is_not_there_does_no_harm(self, subject: Subject, clock: object) -> None:
        # Runtimes differ: containerd 1.6 says that it is not found, 2.x is content.
        with suppress(NotFound):
            await subject.runtime.stop_container("f" * 64, 1)

    async def test_a_command_runs_in_a_container(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)

        result = await subject.runtime.exec_sync(container_id, ["echo", "hello", "there"], 20)

        assert (0, b"hello there\n") == (result.exit_code, result.stdout)

    async def test_no_command_runs_in_a_container_that_has_exited(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.exits(0))
        await subject.exited(container_id)

        with pytest.raises(RuntimeCallError):
            await subject.runtime.exec_sync(container_id, ["echo", "hello"], 20)

    async def test_what_runs_is_told_what_it_uses(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)

        (found,) = [one for one in await subject.runtime.container_stats() if one.id == container_id]
        told = (found.usage.cpu_ns, found.usage.memory_bytes, found.usage.working_set_bytes)
        assert None not in told
        assert found.usage.at_ns > 0

    async def test_a_container_that_runs_is_held_to_other_amounts_and_that_is_reported(
        self, subject: Subject, clock: object
    ) -> None:
        container_id = await subject.started(subject.stoppable)
        amounts = LinuxResources(100_000, 20_000, 102, 64 << 20)
        try:
            await subject.runtime.update_resources(container_id, amounts)
        except NotImplementedByRuntime:
            assert not subject.resizes
            return
        status = (await subject.runtime.container_status(container_id)).decode()

        assert subject.resizes
        assert HeldResources(100_000, 20_000, 102, 64 << 20) == status.resources
        assert ContainerState.RUNNING is status.state
        with pytest.raises(RuntimeCallError):
            await subject.runtime.update_resources("0123456789abcdef", amounts)

    async def test_the_stores_of_images_are_reported(self, subject: Subject, clock: object) -> None:
        images, layers = await subject.images.stores()

        assert all(one.mount_point.startswith("/") for one in (*images, *layers))
        assert images
        assert None not in [one.usage.used_bytes for one in images]

    async def test_the_image_is_there_and_another_is_not(self, subject: Subject, clock: object) -> None:
        found = await subject.images.image_status(subject.image)

        assert found is not None
        assert found.id in [image.id for image in await subject.images.list_images()]
        assert await subject.images.image_status(subject.absent_image) is None

    async def test_used_image_can_be_told_from_unused_ones(self, subject: Subject, clock: object) -> None:
        """By what a container's status says of it: an image that is taken for unused is removed."""
        container_id = await subject.started(subject.stoppable)
        status = (await subject.runtime.container_status(container_id)).decode()
        references = frozenset({status.image, status.image_ref, status.image_id} - {""})
        found = await subject.images.image_status(subject.image)
        assert found is not None

        seen = image_garbage.look({}, await subject.images.list_images(), references, 0.0)
        assert [found.id] == [id_ for id_, one in seen.items() if one.in_use]

    async def test_pulling_what_cannot_be_had_is_an_error(self, subject: Subject, clock: object) -> None:
        with pytest.raises(RuntimeCallError):
            await subject.images.pull_image(subject.absent_image)
        with pytest.raises(RuntimeCallError):
            await subject.images.pull_image(subject.absent_image, login=Login("nobody", "knows"))

    async def test_removing_an_image_that_is_not_there_is_no_error(self, subject: Subject, clock: object) -> None:
        await subject.images.remove_image(subject.absent_image)


class AwayContract:
    """What every runtime does that can be taken away and given back."""

    async def test_calls_and_timed_callers_wait_while_the_runtime_is_away(
        self, subject: Subject, clock: object
    ) -> None:
        container_id, answered = await subject.started(subject.stoppable), []

        async def ask(name: str, question: Awaitable[object]) -> None:
            await question
            answered.append(name)

        assert subject.away is not None
        async with trio.open_nursery() as nursery:
            async with subject.away():
                nursery.start_soon(ask, "connected", subject.runtime.wait_connected())
                nursery.start_soon(ask, "stopped", subject.runtime.stop_container(container_id, 5))
                nursery.start_soon(ask, "listed", subject.runtime.list_containers())
                await trio.sleep(30)
                assert [] == answered
            nursery.cancel_scope.deadline = trio.current_time() + WAIT_SECONDS_MAX

        assert {"connected", "stopped", "listed"} == set(answered)
        assert 143 == (await subject.exited(container_id)).exit_code


class LogContract:
    """What every runtime does whose containers are programs that write."""

    async def test_what_a_container_writes_is_in_its_log_by_the_line(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(("sh", "-c", "echo one; echo two >&2; printf three"))
        status = await subject.exited(container_id)

        assert subject.log_directory is not None
        assert str(subject.log_directory / "main-0.log") == status.log_path
        records = (subject.log_directory / "main-0.log").read_text().splitlines()
        for record in records:
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d) (stdout|stderr) [FP] ", record)
        assert {"stdout F one", "stderr F two", "stdout P three"} == {r.split(" ", 1)[1] for r in records}

    async def test_a_long_line_is_split_into_parts(self, subject: Subject, clock: object) -> None:
        await subject.exited(await subject.started(("sh", "-c", "printf '%020000d\\n' 7")))

        assert subject.log_directory is not None
        records = (subject.log_directory / "main-0.log").read_text().splitlines()
        parts = [(record.split(" ", 3)[2], len(record.split(" ", 3)[3])) for record in records]
        assert ["P"] * (len(parts) - 1) + ["F"] == [kind for kind, _ in parts]
        assert 20000 == sum(size for _, size in parts)
        assert max(size for _, size in parts) <= 16384  # CRI-O's conmon writes what it happened to read at once

    async def test_a_log_that_was_renamed_goes_on_in_a_new_file(self, subject: Subject, clock: object) -> None:
        assert subject.log_directory is not None
        log = subject.log_directory / "main-0.log"
        waiting = "trap 'echo after; exit 0' TERM; echo before; while :; do sleep 0.05; done"
        container_id = await subject.started(("sh", "-c", waiting))
        with trio.fail_after(WAIT_SECONDS_MAX):
            while not _holds(log, b"before"):  # noqa: ASYNC110 - a file has no event
                await trio.sleep(POLL_SECONDS)

        log.rename(subject.log_directory / "rotated")
        await subject.runtime.reopen_log(container_id)
        await subject.runtime.stop_container(container_id, 20)

        assert "before" in (subject.log_directory / "rotated").read_text()
        assert "after" in log.read_text()
        assert "before" not in log.read_text()

    async def test_a_command_gives_back_both_streams_and_its_code(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)

        result = await subject.runtime.exec_sync(container_id, ["sh", "-c", "echo out; echo err >&2; exit 9"], 20)

        assert (9, b"out\n", b"err\n") == (result.exit_code, result.stdout, result.stderr)

    async def test_a_command_that_takes_too_long_is_killed_and_that_is_reported(
        self, subject: Subject, clock: object
    ) -> None:
        container_id = await subject.started(subject.stoppable)

        with pytest.raises(RuntimeTimeout):
            await subject.runtime.exec_sync(container_id, ["sleep", "100"], 1)

    async def test_the_environment_and_the_working_directory_are_the_containers(
        self, subject: Subject, clock: object
    ) -> None:
        config = replace(
            subject.container_config(("sh", "-c", 'test "$GREETING" = "hello  you" && test "$PWD" = /tmp')),
            envs=(("GREETING", "hello  you"),),
            working_dir="/tmp",
        )
        container_id = await subject.runtime.create_container(await subject.sandbox(), config, subject.sandbox_config())
        await subject.runtime.start_container(container_id)

        assert 0 == (await subject.exited(container_id)).exit_code
