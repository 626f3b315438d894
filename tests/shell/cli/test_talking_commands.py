"""``exec``, ``attach`` and ``port-forward`` as processes, against a whole agent on the embedded runtime."""

from __future__ import annotations

import argparse
import errno
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from shell.localkit import FakeView, pod, served
from shell.portkit import free_port
from trikubelet.app import compose
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.cli import asking, blocking, talking
from trikubelet.cli.client import AgentClient
from trikubelet.cli.commands import attach, cp, port_forward
from trikubelet.cli.commands import exec as exec_
from trikubelet.cli.commands.cp import Place, read_place
from trikubelet.cli.commands.port_forward import _attend, _listen, read_ports
from trikubelet.cli.connection import Blocking, InTrio
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.remote_process import RemoteProcess, exit_code_of
from trikubelet.core import spdy
from trikubelet.core.remote_command import StreamChannel, channels
from trikubelet.model import k8s
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.testing import builders

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence

    from trio.abc import Stream

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

SERVER = (
    "import socket\\nwith socket.create_server(('127.0.0.1', %d)) as s:\\n while True:\\n"
    "  c, _ = s.accept(); d = c.recv(9); c.sendall(d.upper()); c.close()"
)
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: host, stdin: true, command: [sh, -c, "while read line; do echo heard $line; done; exit 3"]}
  - name: web
    image: host
    command: [python3, -c, "%(server)s"]
    readinessProbe: {tcpSocket: {host: 127.0.0.1, port: %(port)d}, periodSeconds: 1}
"""


@asynccontextmanager
async def running(place: Path) -> AsyncIterator[int]:
    """An agent with that pod, which runs and is listened in: at which port."""
    port = free_port()
    (place / "manifests").mkdir()
    (place / "manifests" / "web.yaml").write_text(POD % {"server": SERVER % port, "port": port})
    words = [f"--root-dir={place}", f"--pod-manifest-path={place}/manifests", "--healthz-port=0"]
    words += ["--standalone", "--hostname-override=n1", "--container-runtime-endpoint=embedded:"]
    settings = load_settings(parse_agent_flags(words), Surroundings(os.geteuid(), os.environ, "n1"))
    async with trio.open_nursery() as nursery:
        with trio.fail_after(120):
            await nursery.start(compose.run, settings, lambda: None, None)
            done = await said(place, "wait", "web-n1", "--for=condition=Ready")
        assert (0, b"pod/web-n1 condition met\n") == (done.returncode, done.stdout), done.stderr
        yield port
        nursery.cancel_scope.cancel()


def line(place: Path, *words: str) -> list[str]:
    verb, *rest = words
    return [sys.executable, "-m", "trikubelet", verb, f"--root-dir={place}", *rest]


async def said(place: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    with trio.fail_after(60):
        return await trio.run_process(
            line(place, *words), stdin=stdin, capture_stdout=True, capture_stderr=True, check=False
        )


@pytest.mark.slow
async def test_a_command_runs_in_a_container_and_its_end_is_ours(place: Path) -> None:
    async with running(place):
        done = await said(place, "exec", "web-n1", "-c", "main", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        assert (7, b"out\n", b"err\n") == (done.returncode, done.stdout, done.stderr)

        much = os.urandom(3_000_000)
        done = await said(place, "exec", "-i", "web-n1", "-c", "main", "--", "cat", stdin=much)
        assert (0, True, b"") == (done.returncode, much == done.stdout, done.stderr)

        done = await said(place, "exec", "web-n1", "-c", "main", "--", "no-such-program")
        said_why = b"error: cannot execute no-such-program: executable file not found in $PATH\n"
        assert (127, b"", said_why) == (done.returncode, done.stdout, done.stderr)
        done = await said(place, "exec", "web-n1", "-c", "main", "--", "/etc/passwd")
        assert (126, b"error: cannot execute /etc/passwd: Permission denied\n") == (done.returncode, done.stderr)
        done = await said(place, "exec", "web-n1", "-c", "none", "--", "true")
        assert (1, b'error: pod "web-n1" has no container "none"; it has main, web\n') == (done.returncode, done.stderr)


@pytest.mark.slow
async def test_command_after_a_restart_that_was_waited_for_runs_in_the_new_container(place: Path) -> None:
    async with running(place):

        async def runs() -> list[str]:
            template = "jsonpath={range .status.containerStatuses[*]}{.containerID} {.ready}{'\\n'}{end}"
            return (await said(place, "get", "pod", "web-n1", "-o", template)).stdout.decode().splitlines()

        before = await runs()
        done = await said(place, "restart", "web-n1", "--wait")
        after = await runs()
        assert (0, 4, b"") == (done.returncode, len(done.stdout.splitlines()), done.stderr)
        assert [True, True] == [line.endswith(" true") for line in after]
        assert set() == set(before) & set(after)
        done = await said(place, "exec", "web-n1", "-c", "main", "--", "echo", "it runs")
        assert (0, b"it runs\n") == (done.returncode, done.stdout)


@pytest.mark.slow
async def test_files_are_copied_in_and_out_and_nothing_leaves_its_place(place: Path) -> None:
    here, there = place / "here", place / "there"
    (here / "deep").mkdir(parents=True)
    there.mkdir()
    (here / "deep" / "a").write_bytes(much := os.urandom(1_000_000))
    (here / "b").write_text("b")
    async with running(place):

        async def copy(*words: str) -> tuple[int, bytes]:
            done = await said(place, "cp", "-c", "main", *words)
            return done.returncode, done.stderr

        assert (0, b"") == await copy(str(here), f"web-n1:{there}/")
        assert (much, "b") == ((there / "here/deep/a").read_bytes(), (there / "here/b").read_text())
        assert (0, b"") == await copy(f"default/web-n1:{there}/here/b", str(place / "c"))
        assert "b" == (place / "c").read_text()
        assert (0, b"") == await copy(f"web-n1:{there}/here", str(place / "back"))
        assert much == (place / "back/deep/a").read_bytes()

        done = await said(place, "cp", "-c", "main", f"web-n1:{there}/here/b", "-")
        assert (0, b"b", b"") == (done.returncode, done.stdout, done.stderr)
        code, err = await copy("-", f"web-n1:{there}/x")
        assert (2, True) == (code, b"cp reads no standard input" in err)
        code, err = await copy(f"web-n1:{there}/none", str(place / "d"))
        assert (1, True) == (code, b"none: Cannot stat" in err)
        code, err = await copy(str(here / "b"), "web-n1:/proc/none/b")
        assert (1, True) == (code, b"error: tar: " in err)
        code, err = await copy(str(place / "none"), "web-n1:/x")
        assert (1, True) == (code, b"No such file or directory" in err)
        (there / "here" / "out").symlink_to("/etc/passwd")
        code, err = await copy(f"web-n1:{there}/here/out", str(place / "e"))
        assert (1, True, False) == (code, b"not taken from the container" in err, (place / "e").is_symlink())


@pytest.mark.parametrize("target", ["new", "/dev/null"])
def test_a_copy_that_nothing_came_of_is_an_error(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a tar in the container that is none, and ends well all the same."""

    async def end_well(*_: object) -> None:
        """Say nothing."""

    monkeypatch.setattr(cp, "_talk", end_well)
    with pytest.raises(CommandFailed, match="sent nothing"):
        cp._fetch(argparse.Namespace(), Place("ns", "web", "/a"), Place("", "", str(tmp_path / target)))
    assert [] == os.listdir(tmp_path)


def test_failed_copy_reports_what_failed_here_rather_than_what_tar_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a file that may not be read: tar is given half an archive."""

    async def end_badly(_args: object, _place: object, _command: object, read: Callable[[], bytes], _: object) -> None:
        while read():
            pass
        raise CommandFailed("tar: Unexpected EOF")

    def packed(write_end: int, *_: object) -> None:
        os.close(write_end)
        raise PermissionError(errno.EACCES, "Permission denied", "secret")

    monkeypatch.setattr(cp, "_talk", end_badly)
    args, there = argparse.Namespace(), Place("ns", "web", "/a")
    with pytest.raises(CommandFailed, match="Unexpected EOF"):
        cp._send(args, Place("", "", str(tmp_path)), there)
    monkeypatch.setattr(cp.archive, "pack", packed)
    with pytest.raises(PermissionError):
        cp._send(args, Place("", "", str(tmp_path)), there)


@pytest.mark.parametrize(
    ("place", "said_"),
    [
        (Place("ns", "web", "/a"), "web:/a"),
        (Place("other", "web", "a"), "other/web:a"),
        (Place("", "", "/a:b"), "/a:b"),
        (Place("", "", "./a:b"), "./a:b"),
        (Place("", "", "a"), "a"),
    ],
)
def test_a_place_is_here_or_in_a_pod(place: Place, said_: str) -> None:
    assert place == read_place(said_, "ns")


@pytest.mark.slow
async def test_a_containers_own_process_is_heard_and_hears(place: Path) -> None:
    async with running(place):
        process = await trio.lowlevel.open_process(
            line(place, "attach", "-i", "web-n1", "-c", "main"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        heard = b""
        with trio.fail_after(60):
            await process.stdin.send_all(b"you\n")
            while b"\n" not in heard:
                heard += await process.stdout.receive_some()
            process.send_signal(signal.SIGINT)
            assert (b"heard you\n", 130) == (heard, await process.wait())


class Terminal:
    """What a process has written to its terminal so far, of which we have the other end."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._shown = b""

    async def shows(self, wanted: bytes) -> None:
        """Read until it has written that."""
        while wanted not in self._shown:
            await trio.lowlevel.wait_readable(self._ours)
            try:
                self._shown += os.read(self._ours, 4096)
            except BlockingIOError:
                continue
            except OSError:
                raise AssertionError(f"it ended, having written no {wanted!r}: {self._shown!r}") from None


@pytest.mark.slow
async def test_a_terminal_is_passed_on_with_its_size_and_its_keys(place: Path) -> None:
    async with running(place):
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        command = line(
            place, "exec", "-it", "web-n1", "-c", "main", "--", "sh", "-c", "test -t 0; echo $?; read x; echo [$x]"
        )
        process = await trio.lowlevel.open_process(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        terminal = Terminal(ours)
        with trio.fail_after(60):
            await terminal.shows(b"0\r\n")
            os.write(ours, b"hello\r")
            await terminal.shows(b"[hello]")
            assert 0 == await process.wait()
        os.close(ours)


class NotingAgent(AgentClient):
    """Has one pod; what it is asked for is noted, and it is gone."""

    def __init__(self, shown: k8s.Pod) -> None:
        super().__init__("")
        self._shown = shown
        self.asked: dict[str, str] = {}

    async def get(self, path: str, query: object = None) -> bytes:
        return msgspec.json.encode({"items": [self._shown]})

    @asynccontextmanager
    async def upgraded(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncGenerator[Stream, None]:
        self.asked = dict(query)
        ours, theirs = socket.socketpair()
        theirs.close()
        with ours:
            yield Blocking(ours)


NO_TTY = "error: Unable to use a TTY - container main did not allocate one\n"
NO_STDIN = "error: Unable to use stdin - container main was started without\n"
NO_TERMINAL = "Unable to use a TTY - input is not a terminal or the right kind of file\n"


@pytest.mark.parametrize(
    ("words", "has", "here", "asked", "is_raw", "told"),
    [
        ("attach -it", "stdin tty", "terminal", "input output tty", True, ""),
        ("attach -it", "stdin", "terminal", "input output error", False, NO_TTY),
        ("attach -it", "tty", "terminal", "output tty", False, NO_STDIN),
        ("attach -it", "", "terminal", "output error", False, NO_TTY + NO_STDIN),
        ("attach -i", "stdin tty", "terminal", "input output tty", True, ""),
        ("attach -i", "stdin tty", "pipe", "input output tty", False, NO_TERMINAL),
        ("attach -i", "stdin", "pipe", "input output error", False, ""),
        ("attach", "stdin tty", "terminal", "output tty", False, ""),
        ("attach", "", "pipe", "output error", False, ""),
        ("exec -it", "", "terminal", "input output tty", True, ""),
        ("exec -it", "tty", "pipe", "input output error", False, NO_TERMINAL),
        ("exec -t", "tty", "terminal", "output error", False, NO_TERMINAL),
        ("exec", "tty", "terminal", "output error", False, ""),
    ],
)
def test_attach_uses_a_terminal_only_if_the_container_has_one(
    words: str,
    has: str,
    here: str,
    asked: str,
    is_raw: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextmanager
    def note_raw() -> Iterator[None]:
        raw.append(True)
        yield

    raw: list[bool] = []
    main = k8s.EphemeralContainer(name="main", image="i", stdin="stdin" in has or None, tty="tty" in has)
    shown = k8s.Pod(
        metadata=k8s.ObjectMeta(name="web-n1", namespace="default"),
        spec=k8s.PodSpec(containers=(k8s.Container(name="other", image="i"),), ephemeral_containers=(main,)),
    )
    agent = NotingAgent(shown)
    monkeypatch.setattr(asking, "agent_of", lambda _: agent)
    monkeypatch.setattr(talking, "raw_terminal", note_raw)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: here == "terminal", raising=False)
    monkeypatch.setattr(sys.stdin, "fileno", lambda: 0, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: here == "terminal")
    verb, *options = words.split()
    parser = {"attach": attach, "exec": exec_}[verb].parser()

    with pytest.raises(CommandFailed):
        blocking.run(talking.talk, parser.parse_args([*options, "web-n1", "-c", "main"]), verb)

    assert (asked, is_raw, told) == (" ".join(agent.asked), bool(raw), capsys.readouterr().err)


@contextmanager
def connected() -> Iterator[tuple[socket.socket, trio.SocketStream]]:
    """A connection: the end of a command, and that of the runtime."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, trio.SocketStream(trio.socket.from_stdlib_socket(theirs))


async def exit_code(process: RemoteProcess) -> int:
    """The exit code of a process that a command talks to, which takes a thread for itself."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(blocking.run, process.run)


def no_output(_: bytes) -> None:
    """Drop what a process writes."""


SUCCESS = spdy.data(1, b'{"status":"Success"}', ends=True)


async def test_the_size_of_a_window_that_is_not_there_is_not_sent() -> None:
    streams = StandardStreams(False, True, False, True)
    with connected() as (ours, theirs):
        process = RemoteProcess(Blocking(ours), streams, bytes, no_output, no_output)
        async with trio.open_nursery() as nursery:

            async def runtime() -> None:
                frames = [*spdy.FrameReader().feed(bytes(await theirs.receive_some()))]
                assert [spdy.SynStream] * 3 == [type(frame) for frame in frames]
                await theirs.send_all(SUCCESS)

            nursery.start_soon(runtime)
            assert 0 == await exit_code(process)


async def test_standard_input_that_cannot_be_read_ends_the_conversation() -> None:
    def read() -> bytes:
        raise IsADirectoryError(errno.EISDIR, "Is a directory")

    with connected() as (ours, _):  # and the runtime says nothing
        process = RemoteProcess(Blocking(ours), StandardStreams(stdin=True), read, no_output, no_output)
        with pytest.raises(IsADirectoryError):
            await exit_code(process)


async def test_a_connection_in_trio_is_broken_off_too() -> None:
    with connected() as (ours, theirs):
        connection = InTrio(theirs)
        connection.break_off()
        assert b"" == await connection.receive_some(1)
        ours.close()
        connection.break_off()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_a_signal_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    script = (
        "import os, resource, signal, trio; from trikubelet.cli.remote_process import raw_terminal\n"
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"  # a shell has its background jobs ignore some
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"  # SIGQUIT would leave a file behind
        "with raw_terminal(): os.write(1, b'raw'); trio.run(trio.sleep_forever)"
    )
    process = await trio.lowlevel.open_process([sys.executable, "-c", script], stdin=theirs, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with trio.fail_after(60):
        assert b"raw" == bytes(await process.stdout.receive_some())
        assert before != termios.tcgetattr(theirs)
        process.send_signal(number)
        assert -number == await process.wait()

    assert before == termios.tcgetattr(theirs)
    for descriptor in (ours, theirs):
        os.close(descriptor)


@pytest.mark.slow
async def test_connections_to_a_local_port_end_in_the_pod(place: Path) -> None:
    async with running(place) as port:
        process = await trio.lowlevel.open_process(
            line(place, "port-forward", "web-n1", f":{port}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        with trio.fail_after(60):
            told = bytes(await process.stdout.receive_some()).decode().split()
            assert ["Forwarding", "from"] == told[:2]
            for _ in range(3):
                async with await trio.open_tcp_stream("127.0.0.1", int(told[2].rpartition(":")[2])) as stream:
                    await stream.send_all(b"hello")
                    assert b"HELLO" == bytes(await stream.receive_some())
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert (130, b"") == (await process.wait(), bytes(await process.stderr.receive_some()))


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_no_port_is_opened_for_a_pod_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    async def listen(address: str, port: int) -> list[trio.SocketListener]:
        raise AssertionError("a port was opened")

    monkeypatch.setattr(port_forward, "_listen", listen)
    meta, status = k8s.ObjectMeta(name="job-n1", namespace="default"), k8s.PodStatus(phase=phase)
    shown = k8s.Pod(metadata=meta, spec=k8s.PodSpec(containers=()), status=status)
    async with served(FakeView([shown]), tmp_path) as agent:
        args = port_forward.parser().parse_args(["job-n1", ":80", f"--socket={agent.socket_path}"])
        why = f"^unable to forward port because pod is not running. Current status={phase}$"
        with pytest.raises(CommandFailed, match=why):
            await port_forward._forward(args)


class BusyAgent(AgentClient):
    """Keeps whoever wants a conversation waiting."""

    @asynccontextmanager
    async def upgraded(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncGenerator[Stream, None]:
        await trio.sleep_forever()
        raise AssertionError
        yield


class GoneAgent(AgentClient):
    """Agrees to a conversation and is gone."""

    @asynccontextmanager
    async def upgraded(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncGenerator[Stream, None]:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.aclose()
        yield ours


async def test_an_agent_that_goes_costs_its_connection_alone() -> None:
    client, ours = trio.testing.memory_stream_pair()

    await _attend(GoneAgent(""), pod("web"), 80, trio.CapacityLimiter(1), client)  # type: ignore[arg-type]
    await ours.aclose()


@pytest.mark.parametrize("address", ["192.0.2.1", "ü..x"], ids=["another's", "none"])
async def test_an_address_that_cannot_be_listened_on_is_named(address: str) -> None:
    with pytest.raises(CommandFailed, match=f"^{address} port 8080: .+"):
        await _listen(address, 8080, 8080, pod("web-n1"))


async def test_waiting_connection_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    turns = trio.CapacityLimiter(2)
    pairs = [socket.socketpair() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for here, _ in pairs:
            client = trio.SocketStream(trio.socket.from_stdlib_socket(here))
            nursery.start_soon(_attend, BusyAgent(""), pod("web-n1"), 80, turns, client)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    for pair in pairs:
        for one in pair:
            one.close()

    assert "port 80: 2 connections are open; others wait until one of them ends\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, {"status": "Success"}),
        (3, {"reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}),
    ],
)
def test_the_status_says_how_a_process_ended(code: int, status: dict[str, object]) -> None:
    assert code == exit_code_of(msgspec.json.encode(status))


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("no such file", b'{"status":"Failure","message":"no such file"}'),
        ("it failed without a reason", b"{}"),
        ("command terminated", b"command terminated\n"),
        ("the stream ended without the process's exit status (did the agent or the runtime stop?)", b""),
    ],
)
def test_an_end_without_an_exit_code_is_told_as_it_was(why: str, told: bytes) -> None:
    with pytest.raises(CommandFailed) as failed:
        exit_code_of(told)
    assert why == str(failed.value)


OCI = "failed to start exec: OCI runtime exec failed: exec failed: unable to start container process: "


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (127, OCI + 'exec: "nope": executable file not found in $PATH: unknown'),
        (127, OCI + 'exec: "/nope": stat /nope: no such file or directory: unknown'),
        (127, "executable file `nope` not found in $PATH: No such file or directory"),
        (127, "cannot execute /nope: no such file"),
        (126, OCI + 'exec: "/etc/passwd": permission denied: unknown'),
        (126, "open executable: Permission denied"),
        (126, "cannot execute /data: Exec format error"),
        (1, OCI + 'chdir to cwd ("/gone") set in config.json failed: no such file or directory: unknown'),
        (1, "cannot enter the working directory /gone: No such file or directory"),
        (1, 'container "main" is not running'),
    ],
)
def test_a_command_that_cannot_be_executed_ends_with_the_exit_code_of_a_shell(code: int, why: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        exit_code_of(msgspec.json.encode({"status": "Failure", "message": why, "reason": "InternalError"}))

    assert (code, why) == (failed.value.exit_code, str(failed.value))


class Deaf(Blocking):
    """A connection to a runtime that takes no more, once something was ``typed``."""

    def __init__(self, connection: socket.socket, typed: list[bytes]) -> None:
        super().__init__(connection)
        self._typed = typed
        self.typed_in_vain = threading.Event()

    async def send_all(self, data: bytes) -> None:
        if self._typed:
            self.typed_in_vain.set()
            raise BrokenPipeError
        await super().send_all(data)


async def test_what_is_typed_at_the_end_of_a_process_loses_nothing_of_what_it_wrote() -> None:
    streams = StandardStreams(True, True, True, False)
    ids = {channel: 2 * number + 1 for number, channel in enumerate(channels(streams))}
    written, taken = bytearray(), list[bytes]()

    def typed() -> bytes:
        taken.append(b"key")
        return taken[-1]

    with connected() as (ours, theirs):
        connection = Deaf(ours, taken)

        async def runtime() -> None:
            await theirs.receive_some()
            assert await trio.to_thread.run_sync(connection.typed_in_vain.wait, 60)
            await theirs.send_all(spdy.ping(2))
            await theirs.send_all(spdy.data(ids[StreamChannel.STDOUT], b"bye"))
            status = b'{"reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}'
            await theirs.send_all(spdy.data(ids[StreamChannel.ERROR], status, ends=True))

        process = RemoteProcess(connection, streams, typed, written.extend, no_output)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime)
            assert (3, b"bye") == (await exit_code(process), bytes(written))
    assert [b"key"] == taken  # what is typed after that is for whoever reads the terminal next


async def test_the_first_status_is_bounded_and_a_ping_is_answered() -> None:
    with connected() as (ours, theirs):
        process = RemoteProcess(Blocking(ours), StandardStreams(), bytes, no_output, no_output)
        async with trio.open_nursery() as nursery:

            async def runtime() -> None:
                await theirs.receive_some()
                await theirs.send_all(spdy.ping(2))
                assert spdy.ping(2) == bytes(await theirs.receive_some())
                await theirs.send_all(spdy.data(1, b"x" * 100_000) + spdy.data(1, b"", ends=True))

            nursery.start_soon(runtime)
            with pytest.raises(CommandFailed) as failed:
                await exit_code(process)
    assert 64 * 1024 == len(str(failed.value))


SERVES = builders.pod(
    "web-n1",
    builders.container(
        "a", ports=(k8s.ContainerPort(container_port=80, name="http"), k8s.ContainerPort(container_port=81))
    ),
    builders.container("b", ports=(k8s.ContainerPort(container_port=9100, name="metrics-2"),)),
)


@pytest.mark.parametrize(
    ("ports", "said_"),
    [
        ((80, 80), "80"),
        ((8080, 80), "8080:80"),
        ((0, 80), ":80"),
        ((80, 80), "http"),
        ((8080, 80), "8080:http"),
        ((0, 9100), ":metrics-2"),
    ],
)
def test_ports_are_read_as_kubectl_reads_them(ports: tuple[int, int], said_: str) -> None:
    assert ports == read_ports(said_).of(SERVES)


def test_a_port_name_that_the_pod_does_not_have_is_reported_with_those_it_has() -> None:
    with pytest.raises(CommandFailed, match=r"^pod web-n1 has no port named 'htp'; it has http, metrics-2$"):
        read_ports("8080:htp").of(SERVES)
    with pytest.raises(CommandFailed, match=r"^pod web-n1 has no port named 'a'; none of its ports has a name: "):
        read_ports("a").of(pod("web-n1"))


@pytest.mark.parametrize(
    ("pod_ip", "local", "hint"),
    [
        (
            "192.0.2.1",
            80,
            "the pod's ports are this machine's own, and this may be the pod itself; else write :80 for any",
        ),
        ("192.0.2.1", 8080, "write :80 for any free local port, or LOCAL:80"),
        ("10.0.0.7", 80, "write :80 for any free local port, or LOCAL:80"),
        ("", 80, "write :80 for any free local port, or LOCAL:80"),
    ],
)
async def test_a_local_port_that_is_taken_is_reported_with_what_to_write(
    pod_ip: str, local: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(trio, "open_tcp_listeners", taken)
    status = k8s.PodStatus(phase="Running", pod_ip=pod_ip, host_ip="192.0.2.1")
    shown = msgspec.structs.replace(SERVES, status=status)
    with pytest.raises(CommandFailed) as failed:
        await _listen("127.0.0.1", local, 80, shown)

    assert str(failed.value).startswith(f"127.0.0.1 port {local}: Address already in use ({hint}")


@pytest.mark.parametrize(
    "wrong", ["", "0", "80:0", "65536", "1:2:3", "A", "a_b", "123456", "x" * 16, "80:", "-1", "--"]
)
def test_what_is_no_port_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is neither PORT nor LOCAL:PORT"):
        read_ports(wrong)
