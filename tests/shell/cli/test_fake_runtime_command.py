"""``trikubelet fake-runtime`` as a process, what it says to wrong flags, and the agent that has it inside."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.app import compose
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.cli.main import main
from trikubelet.cri.channel import open_channel
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, uid: the-uid}
spec: {containers: [{name: main, image: "nginx:1.27"}]}
"""


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("missing argument: --socket", []),
        ("invalid value for --pods: '-1' is not a whole number from 0 to 1000000", ["--pods=-1"]),
        ("invalid value for --churn: '2' is not a fraction from 0 to 1", ["--churn=2"]),
        ("invalid value for --list-latency: '5x' is not a duration", ["--list-latency=5x"]),
        ("invalid value for --message-limit: '5Gi' is not from 1 to 4294967295 bytes", ["--message-limit=5Gi"]),
        (
            "invalid value for --message-limit: '1m' is not a whole number of bytes, with k, M, G",
            ["--message-limit=1m"],
        ),
        ("invalid value for --message-limit: '1mb' is not a whole number of bytes", ["--message-limit=1mb"]),
        ("invalid value for --message-limit: '0' is not from 1", ["--message-limit=0"]),
        ("--churn-period must be more than 0", ["--churn-period=0"]),
        ('unknown flag: --podz (did you mean "--pods"?)', ["--podz=1"]),
        ("invalid value for --http: 'nowhere' is not HOST:PORT", ["--http=nowhere"]),
        ("--http: 192.0.2.1:80: ", ["--http=192.0.2.1:80"]),
        ("--socket: /no/such/directory/s: No such file or directory", ["--pods=1"]),
        (
            "missing argument of flag --list-latency (a value that begins with a dash is written --flag=-x); `",
            ["--list-latency", "-1s"],
        ),
        ("invalid value for --list-latency: '-1s' is not ", ["--list-latency=-1s"]),
        ("--socket: x: the socket's path must be absolute", ["--socket=x"]),
        ("--journal: /no/such/file: No such file or directory", ["--journal=/no/such/file"]),
    ],
)
def test_what_is_wrong_with_the_flags_is_reported_in_one_line(
    words: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    socket = ["--socket=/no/such/directory/s"] if flags else []

    code = main(["fake-runtime", *socket, *flags])

    told = capsys.readouterr().err
    assert (2 if told.endswith("lists the flags\n") else 1) == code
    assert told.startswith(f"error: {words}")
    assert 1 == told.count("\n")


@pytest.mark.slow
async def test_the_process_serves_until_it_is_told_to_end_and_leaves_no_socket(place: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "trikubelet",
        "fake-runtime",
        f"--socket={place}/s",
        "--pods=7",
        "--http=127.0.0.1:0",
    ]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    async with process.stdout:
        ready = re.fullmatch(
            rf"ready: 7 pods at {place}/s, page at (http://127\.0\.0\.1:\d+/)\n", await _line(process.stdout)
        )
        assert ready is not None
        async with open_channel(f"unix://{place}/s") as channel:
            reply = await RuntimeServiceStub(channel).ListContainers(pb.ListContainersRequest())
        figures = await trio.to_thread.run_sync(_get, f"{ready[1]}figures")
        process.send_signal(signal.SIGTERM)

        assert 0 == await process.wait()
    assert 14 == len(reply.containers)
    assert reply.ByteSize() == json.loads(figures)["lists"]["ListContainers"]["bytes"]
    assert not (place / "s").exists()


@pytest.mark.slow
async def test_an_agent_runs_its_pods_on_the_fake_runtime_inside_it(place: Path) -> None:
    root = place / "50%20full"  # a path and no URL
    (place / "manifests").mkdir()
    (place / "manifests/web.yaml").write_text(POD)
    flags = ["--standalone", "--container-runtime-endpoint=fake:", f"--pod-manifest-path={place / 'manifests'}"]
    flags += [f"--root-dir={root}", "--hostname-override=node", "--healthz-port=0"]
    settings = load_settings(parse_agent_flags(flags), Surroundings(0, {}, "node"))
    async with trio.open_nursery() as nursery:
        agent = await nursery.start(compose.run, settings, lambda: None, None)
        with trio.fail_after(60):
            while not _running(agent):  # noqa: ASYNC110 - the view has no event, as its clients over HTTP have none
                await trio.sleep(0.02)
        async with open_channel(str(root / "fake.sock")) as channel:
            [container] = (await RuntimeServiceStub(channel).ListContainers(pb.ListContainersRequest())).containers
        nursery.cancel_scope.cancel()

    assert "nginx:1.27" == container.image.user_specified_image
    assert str(root / "logs/pods") == str(settings.pod_logs_dir)


@pytest.mark.slow
async def test_an_agent_of_its_own_compares_a_pod_with_the_labels_it_was_given(place: Path) -> None:
    (place / "manifests").mkdir()
    for name, disk in (("near", "ssd"), ("far", "slow")):
        text = (
            POD.replace("web", name)
            .replace("the-uid", name)
            .replace("spec: {", f"spec: {{nodeSelector: {{disk: {disk}}}, ")
        )
        (place / f"manifests/{name}.yaml").write_text(text)
    flags = ["--standalone", "--container-runtime-endpoint=fake:", f"--pod-manifest-path={place / 'manifests'}"]
    flags += [f"--root-dir={place / 'root'}", "--hostname-override=node", "--healthz-port=0", "--node-labels=disk=ssd"]
    settings = load_settings(parse_agent_flags(flags), Surroundings(0, {}, "node"))
    async with trio.open_nursery() as nursery:
        agent = await nursery.start(compose.run, settings, lambda: None, None)
        with trio.fail_after(60):
            while {"Running", "Failed"} != {phase for _, phase, _ in _told(agent)}:  # noqa: ASYNC110 - as above
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()

    assert [("far-node", "Failed", "NodeAffinity"), ("near-node", "Running", "")] == sorted(_told(agent))


def _told(agent: compose.Agent) -> list[tuple[str, str, str]]:
    return [(pod.metadata.name, pod.status.phase, pod.status.reason) for pod in agent.view.pods()]


def _running(agent: compose.Agent) -> bool:
    return [1] == [len(pod.status.container_statuses) for pod in agent.view.pods() if pod.status.phase == "Running"]


async def _line(stream: trio.abc.ReceiveStream) -> str:
    said = b""
    while not said.endswith(b"\n"):
        part = await stream.receive_some()
        assert part, f"it ended, having said {said!r}"
        said += part
    return said.decode()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def test_a_full_disk_behind_standard_output_ends_it_with_one_line(place: Path) -> None:
    words = [sys.executable, "-m", "trikubelet", "fake-runtime", "--socket", str(place / "s"), "--pods=1"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)

    assert (1, "error: standard output: No space left on device\n") == (ended.returncode, ended.stderr)


@pytest.mark.slow
async def test_a_journal_that_cannot_be_written_costs_no_call(place: Path) -> None:
    words = [sys.executable, "-m", "trikubelet", "fake-runtime", f"--socket={place}/s", "--pods=1"]
    words += ["--journal=/dev/full"]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    async with process.stdout, process.stderr:
        await _line(process.stdout)
        async with open_channel(f"unix://{place}/s") as channel:
            for _ in range(2):
                reply = await RuntimeServiceStub(channel).ListContainers(pb.ListContainersRequest())
                assert 2 == len(reply.containers)
        told = await _line(process.stderr)
        process.send_signal(signal.SIGTERM)

        assert 0 == await process.wait()
    assert "The journal ends here: No space left on device" in told
