"""What talks to running containers, in a real cluster: `kubectl exec`, `attach`, `port-forward`, `cp`, `debug`, `run`,
through the API server's SPDY, on both containerds; and a client of the node itself that speaks WebSocket, version 5,
which no containerd understands.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import pty
import random
import re
import struct
import subprocess
import tempfile
import termios
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.images import BUSYBOX
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import is_ready
from live.test_cluster_node_api import allow, as_user
from shell.websocketkit import Refused, Socket, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

# The sleeps: containerd hands stdin in a moment before it listens to stdout.
ANSWERS = "read a; sleep 1; echo said $a"
LISTENS = "echo ready; while read line; do sleep 1; echo heard $line; done; echo deaf; sleep 1000"


@pytest.fixture
def talking(control_plane: ControlPlane, containerd: Containerd) -> Iterator[ClusterAgent]:
    """A node with a pod of a shell that only waits, a server on port 8080, and a shell that listens to its stdin."""
    containers = (
        shell("c", "while :; do sleep 1; done"),
        container("web", "serve", "8080"),
        shell("ears", LISTENS, stdin=True),
    )
    with ClusterAgent(containerd, control_plane) as agent:
        agent.wait_ready()
        control_plane.kubectl("create", "-f-", manifests=pod("talks", *containers))
        with agent.watch(PODS) as pods:
            pods.wait(lambda now: is_ready(now.get("talks", {})), "the pod runs", story=agent.story)
        yield agent


def run(
    agent: ClusterAgent, *words: str, told: bytes = b"", seconds: float = 120
) -> subprocess.CompletedProcess[bytes]:
    """What becomes of one kubectl."""
    command = agent.plane.kubectl.command(*words)
    return subprocess.run(command, input=told, capture_output=True, timeout=seconds, check=False)


def test_kubectl_talks_to_what_runs(talking: ClusterAgent, tmp_path: Path) -> None:
    executes_commands(talking)
    executes_on_a_terminal(talking)
    attaches(talking)
    forwards_ports(talking)
    copies(talking, tmp_path)
    debugs(talking)
    runs_once(talking)
    trio.run(translates, talking)
    ends_with_the_agent(talking)


def executes_commands(agent: ClusterAgent) -> None:
    done = run(agent, "exec", "talks", "-c", "c", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (7, b"out\n") == (done.returncode, done.stdout), done.stderr
    assert done.stderr.startswith(b"err\n")
    done = run(agent, "exec", "talks", "-c", "c", "--", "true")
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    many = [f"word{n}" for n in range(150)]
    assert " ".join(many) == run(agent, "exec", "talks", "--", "echo", *many).stdout.decode().strip()

    sent = random.Random(1).randbytes(100 * 2**20)
    back = run(agent, "exec", "-i", "talks", "-c", "c", "--", "cat", told=sent)
    assert (0, len(sent)) == (back.returncode, len(back.stdout)), back.stderr[-500:]
    assert hashlib.sha256(sent).digest() == hashlib.sha256(back.stdout).digest()

    path = f"/api/v1/nodes/{agent.name}/proxy/run/default/talks/c?cmd=echo%20some%20words"
    assert b"some words\n" == run(agent, "create", "--raw", path, "-f-", told=b"{}").stdout

    absent = run(agent, "exec", "talks", "-c", "c", "--", "no-such-program")
    assert absent.returncode != 0
    assert b"no-such-program" in absent.stderr


def executes_on_a_terminal(agent: ClusterAgent) -> None:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    sized = 'until [ "$(stty size 2>/dev/null)" = "40 100" ]; do sleep 0.1; done'  # the size comes after the beginning
    # It does not end before its words were read: CRI-O loses what a terminal says last (docs/decisions/0034).
    script = f"{sized}; tty; read word; echo got $word; read more; exit 3"
    command = agent.plane.kubectl.command("exec", "-it", "talks", "-c", "c", "--", "sh", "-c", script)
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True) as process:
        os.close(its)
        try:
            said = b""
            while b"/dev/pts" not in said and process.poll() is None:
                said += os.read(ours, 4096)
            assert b"/dev/pts" in said
            os.write(ours, b"hello\r")
            while b"got hello" not in said and process.poll() is None:
                said += os.read(ours, 4096)
            os.write(ours, b"go\r")
            assert 3 == process.wait(60), said
        finally:
            process.kill()
    with suppress(OSError):  # EIO: everything is read, and nobody is left to write
        while more := os.read(ours, 65536):
            said += more
    assert b"got hello" in said
    os.close(ours)


def attaches(agent: ClusterAgent) -> None:
    command = agent.plane.kubectl.command("attach", "-i", "talks", "-c", "ears")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert b"heard one\n" == process.stdout.readline()
        process.kill()  # a client that goes without a word
    await_that(lambda: "heard one" in agent.plane.kubectl("logs", "talks", "-c", "ears"), 60, agent.story)


def test_an_input_that_is_for_one_client_ends_with_him_and_another_stays_open(talking: ClusterAgent) -> None:
    both = (
        shell("once", "cat; exit 5", stdin=True, stdinOnce=True),
        shell("open", "cat; exit 6", stdin=True),
    )
    kubectl = talking.plane.kubectl
    with talking.watch(PODS) as pods:
        kubectl("create", "-f-", manifests=pod("hears", *both, restartPolicy="Never"))
        pods.wait(lambda now: is_ready(now.get("hears", {})), "both run", story=talking.story)
        for name in ("open", "once"):
            command = kubectl.command("attach", "-i", "hears", "-c", name)
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                assert process.stdin is not None
                process.stdin.write(b"all of it\n")
                process.stdin.close()
                await_that(partial(has_heard, talking, name), 60, talking.story)
                if name == "once":
                    process.wait(60)
                process.kill()  # of an input that stays open nobody hears the end
        now = pods.wait(
            lambda now: "terminated" in state(now["hears"], "once").get("state", {}), "it ends", story=talking.story
        )
    assert 5 == state(now["hears"], "once")["state"]["terminated"]["exitCode"]
    assert "running" in state(now["hears"], "open")["state"]


def has_heard(agent: ClusterAgent, name: str) -> bool:
    return "all of it" in agent.plane.kubectl("logs", "hears", "-c", name)


@contextmanager
def forwarding(agent: ClusterAgent) -> Iterator[str]:
    """A local address that is the pod's port 8080."""
    command = agent.plane.kubectl.command("port-forward", "pod/talks", ":8080", "--address=127.0.0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert found, said + (process.stderr.read() if process.stderr else "")
        yield f"127.0.0.1:{found[1]}"
        process.terminate()


def forwards_ports(agent: ClusterAgent) -> None:
    together = threading.Barrier(200)
    with forwarding(agent) as address, ThreadPoolExecutor(200) as threads:

        def ask(_: int) -> int:
            connection = http.client.HTTPConnection(address, timeout=60)
            with closing(connection):
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                answer.read()
                together.wait(60)  # nobody goes before all are served
                return answer.status

        assert [200] * 200 == list(threads.map(ask, range(200)))


def copies(agent: ClusterAgent, directory: Path) -> None:
    there = directory / "there"
    there.mkdir()
    (there / "a").write_bytes(random.Random(2).randbytes(3 * 2**20))
    (there / "b").write_text("second")
    assert 0 == run(agent, "cp", str(there), "talks:/tmp/copied", "-c", "c").returncode
    back = run(agent, "cp", "talks:/tmp/copied", str(directory / "back"), "-c", "c")
    assert 0 == back.returncode, back.stderr
    assert {one.name: one.read_bytes() for one in there.iterdir()} == {
        one.name: one.read_bytes() for one in (directory / "back").iterdir()
    }


def debugs(agent: ClusterAgent) -> None:
    words = ("debug", "talks", "-i", f"--image={BUSYBOX}", "--container=dbg", "--", "sh", "-c", ANSWERS)
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            agent.plane.kubectl.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"something\n")
        process.stdin.flush()  # and not closed: containerd takes the end of stdin for the end of what is attached
        line = process.stdout.readline()
        said.seek(0)
        assert b"said something\n" == line, said.read()
    assert "dbg" == state(agent.plane.kubectl.get("pod", "talks"), "dbg")["name"]


def runs_once(agent: ClusterAgent) -> None:
    words = ("--restart=Never", "--rm", "-i", f"--image={BUSYBOX}")
    done = run(agent, "run", "once", *words, "--", "sh", "-c", ANSWERS, told=b"well\n")
    assert b"said well" in done.stdout, done.stderr
    assert 0 == done.returncode, done.stderr


def ends_with_the_agent(agent: ClusterAgent) -> None:
    command = agent.plane.kubectl.command("exec", "talks", "-c", "c", "--", "sh", "-c", "echo on; sleep 1000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"on\n" == process.stdout.readline()
        assert 0 == agent.stop()
        said = process.communicate(timeout=60)[1]
        assert (1, True) == (process.returncode, b"the node's agent is stopping" in said), said


# ---- the node itself, by WebSocket ----


async def translates(agent: ClusterAgent) -> None:
    """Version 5, for a runtime that does not know it."""
    plane = agent.plane
    allow(plane, "reads-only", "proxy")
    allow(plane, "acts", "proxy", verb="create")
    target = "/exec/default/talks/c?command=sh&command=-c&command={}&input=1&output=1&error=1"

    async def connected(user: str) -> trio.SSLStream[Any]:
        (address,) = [one["address"] for one in agent.node()["status"]["addresses"] if one["type"] == "InternalIP"]
        return await trio.open_ssl_over_tcp_stream(
            address, agent.port, ssl_context=as_user(plane, user), https_compatible=True
        )

    @asynccontextmanager
    async def asked(user: str, script: str, *protocols: str) -> AsyncIterator[Socket]:
        async with await connected(user) as stream:
            yield await connect(stream, target.format(script), *protocols)

    with pytest.raises(Refused, match="403") as refused:
        async with asked("reads-only", "true", "v5.channel.k8s.io"):
            pass
    assert "verb=create" in refused.value.text

    async with asked("acts", "cat;echo%20err%20>%262;exit%204", "v5.channel.k8s.io", "v4.channel.k8s.io") as socket:
        assert "v5.channel.k8s.io" == socket.protocol
        await socket.say(0, b"some")
        await socket.say(0, b"thing")
        await socket.say(255, b"\0")
        told = await socket.everything()
        assert (b"something", b"err\n") == (told[1], told[2])
        assert b'"4"' in told[3]
        assert (1000, "") == socket.closed

    for protocol in ("v4.channel.k8s.io", "channel.k8s.io"):  # the second is not ours to translate
        async with asked("acts", "read%20a;echo%20$a", protocol) as socket:
            await socket.say(0, b"word\n")
            assert b"word\n" == (await socket.everything())[1]

    def sleeps() -> bool:
        return b"sleep 4242" in run(agent, "exec", "talks", "-c", "c", "--", "ps", "-o", "args").stdout

    async with await connected("acts") as stream:
        await stream.send_all(b"POST /run/default/talks/c?cmd=sleep%204242 HTTP/1.1\r\nhost: n\r\n\r\n")
        await trio.to_thread.run_sync(await_that, sleeps, 30, agent.story)
    await trio.to_thread.run_sync(await_that, lambda: not sleeps(), 30, agent.story)
