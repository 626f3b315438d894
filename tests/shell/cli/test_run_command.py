"""``run``: one pod to its end on the embedded runtime, and what it sees of a runtime that others use too."""

from __future__ import annotations

import errno
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.breadth import nest
from shell.portkit import full_queue
from shell.threadkit import AtOnce
from trikubelet.app import endpoint
from trikubelet.app.neighbours import agents_on
from trikubelet.cli import one_shot
from trikubelet.cli.commands import run as command
from trikubelet.cli.main import main
from trikubelet.cli.one_pod import OnePodRuntime
from trikubelet.cli.whole_lines import LINE_BYTES_MAX
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import NotImplementedByRuntime
from trikubelet.server.node_view import LogPlace
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.cli.one_shot import Shot

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


def manifest(place: Path, *scripts: str, policy: str = "Never") -> Path:
    containers = [
        f"{{name: c{number}, image: host, command: [sh, -c, {script!r}]}}" for number, script in enumerate(scripts)
    ]
    (place / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: job}\nspec:\n"
        f"  restartPolicy: {policy}\n  terminationGracePeriodSeconds: 60\n  containers: [{', '.join(containers)}]\n"
    )
    return place / "pod.yaml"


def line(file: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "trikubelet", "run", str(file), "--container-runtime-endpoint=embedded:", *words]


def run(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"TMPDIR": str(file.parent), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(line(file, *words), capture_output=True, text=True, timeout=60, check=False, env=own)


def test_its_directory_goes_however_deep_a_container_made_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nested(shot: Shot) -> int:
        nest(shot.settings.root_dir, 2 * sys.getrecursionlimit())
        await trio.lowlevel.checkpoint()
        return 0

    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(command, "run_shot", nested)

    assert 0 == command.run([str(manifest(place, "true")), "--container-runtime-endpoint=embedded:"])
    assert [place / "pod.yaml"] == list(place.iterdir())


def test_a_runtime_that_the_user_may_not_open_is_passed_over_with_a_word(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ran(shot: Shot) -> int:
        ran_on.append(shot.settings.runtime.endpoint)
        await trio.lowlevel.checkpoint()
        return 0

    def refused(path: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    ran_on: list[str] = []
    monkeypatch.setattr(endpoint, "connected", refused)
    monkeypatch.setattr(command, "run_shot", ran)

    assert 0 == command.run([str(manifest(place, "true"))])
    assert [endpoint.EMBEDDED] == ran_on
    told = capsys.readouterr().err
    assert told.startswith("trikubelet: container runtime: the embedded one, because ")
    assert "passed over: no permission for /run/containerd/containerd.sock" in told


@pytest.mark.slow
def test_a_pods_words_and_its_exit_code_are_ours_and_nothing_of_it_stays(place: Path) -> None:
    done = run(manifest(place, "echo hello; echo more; exit 4"))

    assert (4, "hello\nmore\n", "") == (done.returncode, done.stdout, done.stderr)
    assert [place / "pod.yaml"] == list(place.iterdir())


@pytest.mark.slow
def test_lines_of_several_containers_have_their_names(place: Path) -> None:
    done = run(manifest(place, "echo a; printf b", "sleep 1; echo c"))

    assert (0, ["[c0] a", "[c0] b", "[c1] c"], "") == (done.returncode, done.stdout.splitlines(), done.stderr)


@pytest.mark.slow
@pytest.mark.nightly  # it has 15 s of a real clock to begin in
def test_timed_out_pod_is_stopped_with_its_grace(place: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo began; while true; do sleep 0.1; done"
    done = run(manifest(place, script, policy="Always"), "--timeout=15s")

    assert (124, "began\nbye\n") == (done.returncode, done.stdout)
    told = "the pod has not ended within 15 s: it is stopped and has 60 s to end (interrupt: kill it)"
    assert f"trikubelet: {told}\n" == done.stderr


@pytest.mark.slow
async def test_an_interrupt_stops_the_pod_with_its_grace(place: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo began; while true; do sleep 0.1; done"
    process = await trio.lowlevel.open_process(
        line(manifest(place, script)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    with trio.fail_after(60):
        assert b"began\n" == bytes(await process.stdout.receive_some())
        process.send_signal(signal.SIGINT)
        assert (130, b"bye\n") == (await process.wait(), bytes(await process.stdout.receive_some()))


def test_a_file_with_another_number_of_pods_or_a_fault_is_refused(place: Path) -> None:
    two = manifest(place, "true")
    two.write_text(two.read_text() + "---\n" + two.read_text().replace("name: job", "name: other"))
    done = run(two)
    assert (1, f"error: {two}: it has 2 pods (give a file with one)\n") == (done.returncode, done.stderr)

    two.write_text("kind: Pot\n")
    done = run(two)
    assert (1, True) == (done.returncode, f"{two}:1: kind" in done.stderr)


async def test_a_runtime_for_one_pod_knows_of_no_other(place: Path) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(run_fake, Plan(pods=3), str(place / "fake.sock"))
        async with open_channel(f"unix://{place}/fake.sock") as channel:
            assert any(await CriRuntime(channel).list_sandboxes())
            one = OnePodRuntime(channel, "its-uid")
            assert not any(await one.list_sandboxes())
            assert not any(await one.list_containers())
            assert ([], []) == (await one.list_sandboxes("other"), await one.list_containers("other"))
            with pytest.raises(NotImplementedByRuntime):
                async with one.events() as events:
                    await anext(events)
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_pod_ends_when_its_reader_leaves(place: Path) -> None:
    script = "trap 'echo bye > $0; exit 0' TERM; while true; do echo more; sleep 0.1; done"
    file = manifest(place, script.replace("$0", f"{place}/ended"))
    own = {"TMPDIR": str(place), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    process = await trio.lowlevel.open_process(line(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own)
    assert process.stdout is not None
    assert process.stderr is not None
    with trio.fail_after(60):
        assert bytes(await process.stdout.receive_some()).startswith(b"more\n")
        await process.stdout.aclose()
        assert (1, b"") == (await process.wait(), bytes(await process.stderr.receive_some()))

    assert ["ended", "pod.yaml"] == sorted(os.listdir(place))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("container", "why"),
    [
        (
            "{name: a, image: nginx}",
            "container a: ImagePullBackOff: .*: nginx:latest: the embedded runtime has no images",
        ),
        ("{name: a, image: host}", 'container a: CreateContainerError: .* image "host" has no command of its own'),
        ("{name: a, image: host, command: [/nope]}", "container a: StartError: cannot execute /nope: no such file"),
        (
            "{name: a, image: host, command: ['true'], envFrom: [{configMapRef: {name: gone}}]}",
            'container a: CreateContainerConfigError: configmap "gone" not found',
        ),
    ],
)
def test_a_pod_that_cannot_start_is_given_up_and_removed(place: Path, container: str, why: str) -> None:
    file = place / "pod.yaml"
    file.write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: job}}\nspec: {{containers: [{container}]}}\n")
    done = run(file)

    assert (125, "") == (done.returncode, done.stdout)
    assert re.fullmatch(
        rf"trikubelet: the pod cannot start, stopped after \d+ s: {why}.*", done.stderr.splitlines()[-1]
    )
    assert [file] == list(place.iterdir())


class Stuck:
    """An agent whose one pod waits as a test says; ``pulls``: an image is being pulled."""

    def __init__(self, place: Path, endpoint: str) -> None:
        self.reason, self.pulls = "", False
        worker = SimpleNamespace(statistics=lambda: SimpleNamespace(last_error=""))
        puller = SimpleNamespace(progress=lambda _: {"a": "pulling"} if self.pulls else {})
        workers = SimpleNamespace(worker=lambda _: worker)
        agent = SimpleNamespace(node=SimpleNamespace(workers=workers, puller=puller))
        shot = one_shot.Shot(one_shot.settings_of(place, endpoint), place / "pod.yaml", "uid", math.inf)
        self._one = one_shot._OneShot(shot, agent, AsyncExitStack(), math.inf)  # type: ignore[arg-type]

    def given_up(self) -> bool:
        waiting = k8s.ContainerStateWaiting(reason=self.reason or "ContainerCreating", message="why")
        shown = k8s.ContainerStatus(
            name="a", image="", image_id="", ready=False, restart_count=0, state=k8s.ContainerState(waiting=waiting)
        )
        status = k8s.PodStatus(phase="Pending", container_statuses=(shown,))
        return bool(self._one._cannot_start(msgspec.structs.replace(pod("web"), status=status)))

    async def seconds_until_given_up(self) -> float:
        began = trio.current_time()
        with trio.fail_after(1000):
            while not self.given_up():  # noqa: ASYNC110 - it is asked again and again by its caller, too
                await trio.sleep(0.2)
        return trio.current_time() - began


OUTSIDE = "unix:///nowhere.sock"


@pytest.mark.parametrize(
    ("endpoint", "reason", "seconds"),
    [
        (OUTSIDE, "ErrImagePull", one_shot.MAY_GO_SECONDS),
        (OUTSIDE, "CreateContainerError", one_shot.MAY_GO_SECONDS),
        (OUTSIDE, "InvalidImageName", one_shot.STAYS_SECONDS),
        (OUTSIDE, "CreateContainerConfigError", one_shot.STAYS_SECONDS),
        ("embedded:", "ErrImagePull", one_shot.STAYS_SECONDS),
        ("embedded:", "CreateContainerError", one_shot.STAYS_SECONDS),
    ],
)
async def test_what_may_go_away_by_itself_is_given_more_time(
    endpoint: str, reason: str, seconds: float, place: Path, autojump_clock: MockClock
) -> None:
    stuck = Stuck(place, endpoint)
    stuck.reason = reason

    assert seconds == pytest.approx(await stuck.seconds_until_given_up(), abs=0.3)


async def test_an_obstacle_that_went_away_counts_anew_and_a_pull_under_way_is_not_broken_off(
    place: Path, autojump_clock: MockClock
) -> None:
    stuck = Stuck(place, OUTSIDE)
    for reason in ("ErrImagePull", "", "ImagePullBackOff"):
        stuck.reason = reason
        assert not stuck.given_up()
        await trio.sleep(one_shot.MAY_GO_SECONDS - 1)
        assert not stuck.given_up()
    stuck.pulls = True
    await trio.sleep(600)
    assert not stuck.given_up()
    stuck.pulls = False
    assert stuck.given_up()


async def interrupted(file: Path, times: int) -> tuple[int, str]:
    """Return the result for a pod that ignores its stop, after that many signals."""
    own = {"TMPDIR": str(file.parent), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    process = await trio.lowlevel.open_process(line(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own)
    assert process.stdout is not None
    assert process.stderr is not None
    said = b""
    with trio.fail_after(120):
        assert b"up\n" == bytes(await process.stdout.receive_some())
        for number in range(times):
            process.send_signal(signal.SIGINT)
            while said.count(b"interrupted") <= number:
                said += bytes(await process.stderr.receive_some())
        while more := await process.stderr.receive_some():
            said += bytes(more)
        return await process.wait(), said.decode()


@pytest.mark.slow
async def test_a_second_signal_kills_the_pod_and_nothing_of_it_stays(place: Path) -> None:
    code, said = await interrupted(manifest(place, "trap '' TERM; echo up; while :; do sleep 0.1; done"), 2)

    assert 130 == code
    assert [
        "trikubelet: interrupted: the pod is stopped and has 60 s to end (again: kill it)",
        "trikubelet: interrupted again: the pod is killed",
    ] == said.splitlines()
    assert ["pod.yaml"] == os.listdir(place)


@pytest.mark.slow
async def test_at_a_third_signal_nothing_is_waited_for_and_on_the_embedded_runtime_nothing_stays(place: Path) -> None:
    code, said = await interrupted(manifest(place, "trap '' TERM; echo up; while :; do sleep 0.1; done"), 3)

    assert 130 == code
    assert "trikubelet: did not wait for the pod: its running containers end now" == said.splitlines()[-1]
    assert ["pod.yaml"] == os.listdir(place)


def test_without_a_runtime_nothing_is_waited_for(place: Path) -> None:
    done = run(manifest(place, "true"), f"--container-runtime-endpoint=unix://{place}/nope.sock")

    why = f"no socket at {place}/nope.sock: the runtime is not running, or listens elsewhere"
    assert (1, f"error: {why}\n") == (done.returncode, done.stderr)
    assert [place / "pod.yaml"] == list(place.iterdir())


def test_runtime_with_a_full_queue_is_reported_without_waiting(place: Path) -> None:
    with full_queue(place / "full.sock"):
        done = run(manifest(place, "true"), f"--container-runtime-endpoint=unix://{place}/full.sock")

    why = f"cannot connect to {place}/full.sock: its queue is full: it does not accept connections"
    assert (1, f"error: {why}\n") == (done.returncode, done.stderr)


@pytest.mark.slow
def test_a_runtime_that_is_silent_is_given_the_time_there_is(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(f"{place}/mute.sock")
        mute.listen()
        done = run(manifest(place, "true"), f"--container-runtime-endpoint=unix://{place}/mute.sock", "--timeout=1s")

    said = f"trikubelet: unix://{place}/mute.sock has not answered, so the pod was not started\n"
    assert (124, "", said) == (done.returncode, done.stdout, done.stderr)
    assert ["mute.sock", "pod.yaml"] == sorted(os.listdir(place))


@pytest.mark.parametrize("seconds_max", [0.0, 0.001])
async def test_a_pod_without_time_to_begin_is_not_begun(
    place: Path, seconds_max: float, capsys: pytest.CaptureFixture[str]
) -> None:
    shot = one_shot.Shot(one_shot.settings_of(place, "fake:"), place / "pod.yaml", "its-uid", seconds_max)
    with trio.fail_after(60):
        assert one_shot.EXIT_TIMEOUT == await one_shot.run_shot(shot)
    assert "trikubelet: fake: has not answered, so the pod was not started\n" == capsys.readouterr().err


@pytest.mark.parametrize("is_heeded", [True, False])
def test_a_closed_terminal_ends_the_pod_unless_nohup_said_otherwise(
    monkeypatch: pytest.MonkeyPatch, is_heeded: bool
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL if is_heeded else signal.SIG_IGN)

    assert is_heeded == (signal.SIGHUP in one_shot._ending_signals())


@pytest.mark.parametrize("verb", ["run x.yaml", "reset"])
def test_no_time_is_negative(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main([*verb.split(), "--timeout=-1s"])
    assert "'-1s' is negative: write how long it may last, such as 30s" in capsys.readouterr().err


PIPE = subprocess.PIPE
SLEEPER = ("-c", "read line", "kubelet", "--container-runtime-endpoint")
"""What makes a shell wait for its input, with the words of a kubelet in its command line."""


@pytest.mark.parametrize(
    ("who", "lock_name", "comm"), [("an agent", "trikubelet.lock", "sh"), ("a kubelet", "other", "kubelet")]
)
def test_beside_an_agent_or_a_kubelet_on_the_same_runtime_nothing_is_run(
    place: Path, who: str, lock_name: str, comm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "kubelet").symlink_to("/bin/sh")
    (place / "sh").symlink_to("/bin/sh")
    (place / "runtime-endpoint").write_text(f"unix://{place}/r.sock\n")
    words = ["run", str(manifest(place, "true"))]
    with (
        socket.socket(socket.AF_UNIX) as here,
        socket.socket(socket.AF_UNIX) as elsewhere,
        open(place / lock_name, "w") as lock,
        subprocess.Popen([place / comm, *SLEEPER, f"unix://{place}/r.sock"], stdin=PIPE, stdout=lock) as other,
    ):
        here.bind(f"{place}/r.sock")
        here.listen()
        elsewhere.bind(f"{place}/e.sock")
        assert 1 == main([*words, f"--container-runtime-endpoint=unix://{place}/r.sock"])
        expected = (
            f"error: process {other.pid} is {who} on unix://{place}/r.sock and would take this pod for a leftover"
        )
        assert expected in capsys.readouterr().err
        assert [other.pid] * (who == "an agent") == agents_on(f"unix://{place}/r.sock")
        assert [] == agents_on(f"unix://{place}/e.sock")
        other.kill()


async def test_a_line_without_an_end_is_not_kept(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = place / "log"
    log.write_bytes(3001 * (b"2026-11-21T07:01:02.000000003Z stdout P " + b"x" * 999 + b"\n"))

    await one_shot._show(LogPlace(str(log), lambda: True, AtOnce()), b"[c0] ")

    shown = capfdbinary.readouterr().out.splitlines()
    assert 3001 * 999 == sum(len(line_) - len(b"[c0] ") for line_ in shown)
    assert max(map(len, shown)) < 2 * LINE_BYTES_MAX
