"""The verbs, spoken to a local API on a real socket: what is printed, where, and with which exit code."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import yaml

from shell.localkit import NOW_NS, FakeView, event, pod, served
from trikubelet.app.cli import main
from trikubelet.app.commands import asking, get
from trikubelet.model import k8s
from trikubelet.server.node_view import ManifestFault, PodWork

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoken = Callable[..., tuple[int, str, str]]

FAULT = ManifestFault("/m/web.yaml", 'unknown field "contaners"', 4, "spec.contaners", 'did you mean "containers"?')


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "now_ns", lambda: NOW_NS)


async def say(view: FakeView, directory: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    async with served(view, directory):
        code = await trio.to_thread.run_sync(main, [*words, f"--socket={directory}/trikubelet.sock"])
    said = capsys.readouterr()
    return code, said.out, said.err


async def test_get_pods_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1"), pod("dns-n1", "kube-system")])

    assert (
        0,
        "NAME     READY   STATUS    RESTARTS   AGE\n"
        "api-n1   1/1     Running   0          5m\n"
        "web-n1   1/1     Running   0          5m\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "pods")


async def test_get_pods_of_all_namespaces_wide_and_without_headings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = FakeView([pod("web-n1"), pod("dns-n1", "kube-system")])

    assert (
        0,
        "default       web-n1   1/1   Running   0   5m   10.0.0.7   n1   <none>   <none>\n"
        "kube-system   dns-n1   1/1   Running   0   5m   10.0.0.7   n1   <none>   <none>\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "po", "-A", "-o", "wide", "--no-headers")


async def test_one_pod_is_printed_as_the_object_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        code, out, _ = await say(view, tmp_path, capsys, "get", "pod", "web-n1", "-o", output)

        assert (0, json.loads(msgspec.json.encode(pod("web-n1")))) == (code, parse(out))


async def test_several_pods_are_printed_as_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    _, out, _ = await say(view, tmp_path, capsys, "get", "pods", "-o", "yaml")
    shown = yaml.safe_load(out)

    assert ("v1", "List") == (shown["apiVersion"], shown["kind"])
    assert ["api-n1", "web-n1"] == [item["metadata"]["name"] for item in shown["items"]]


async def test_names_can_be_printed_alone_and_given_as_they_were_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    assert (0, "pod/api-n1\npod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "-o", "name")
    assert (0, "pod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "pod/web-n1", "-o", "name")


async def test_faulty_manifests_are_told_below_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod()], wrong=[FAULT, msgspec.structs.replace(FAULT, running=("default/web-n1",))])

    code, out, err = await say(view, tmp_path, capsys, "get", "pods")

    line = '/m/web.yaml:4: spec.contaners: unknown field "contaners" (did you mean "containers"?)'
    assert (0, 2) == (code, out.count("\n"))
    assert f"{line}\n{line} [default/web-n1: the last good version keeps running]\n" == err


async def test_a_node_that_cannot_work_says_why_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = FakeView(troubles=("container runtime is down: no socket",))

    assert (
        0,
        "",
        "No resources found in default namespace.\nwarning: container runtime is down: no socket\n",
    ) == await say(view, tmp_path, capsys, "get", "pods")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("No resources found in empty namespace. (2 pods in others: use -A)\n", ["-n", "empty"]),
        ('error: pods "nobody" not found\n', ["nobody"]),
        ('error: pods "web" not found (did you mean "web-n1"?)\n', ["web"]),
        ('error: pods "dns-n1" not found (there is one in namespace kube-system: use -n kube-system)\n', ["dns-n1"]),
    ],
)
async def test_what_is_not_there_is_said_with_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, words: list[str]
) -> None:
    view = FakeView([pod("web-n1"), pod("dns-n1", "kube-system")])

    assert (int("error" in said), "", said) == await say(view, tmp_path, capsys, "get", "pods", *words)


async def test_an_empty_node_says_that_it_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, "", "No resources found in default namespace.\n") == await say(
        FakeView(), tmp_path, capsys, "get", "pods"
    )
    assert (0, "", "No resources found\n") == await say(FakeView(), tmp_path, capsys, "get", "pods", "-A")


async def test_a_watch_shows_what_is_there_and_then_each_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    view = FakeView([pod("web-n1"), pod("dns-n1", "kube-system")])
    async with served(view, tmp_path) as agent, trio.open_nursery() as nursery:
        args = get.parser().parse_args(["pods", "-w", f"--socket={agent.socket_path}"])
        nursery.start_soon(get._pods, args)
        await trio.sleep(5)
        going = msgspec.structs.replace(pod().metadata, deletion_timestamp="2026-11-21T12:00:00Z")
        view.shown = [msgspec.structs.replace(pod(), metadata=going), *view.shown[1:]]
        await trio.sleep(5)
        view.shown = [pod("b", "kube-system"), pod("a")]
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    assert [
        "NAME     READY   STATUS    RESTARTS   AGE",
        "web-n1   1/1     Running   0          5m",
        "web-n1   1/1     Terminating   0          5m",
        "web-n1   1/1     Terminating   0          5m",
        "a        1/1     Running       0          5m",
    ] == capsys.readouterr().out.splitlines()


async def test_events_are_listed_with_what_they_are_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView(told=[event(pod(), "Started", "Started container app", last=5), event(pod(), "Pulled", "image")])

    assert (
        0,
        "LAST SEEN   TYPE     REASON    OBJECT       MESSAGE\n"
        "60s         Normal   Pulled    pod/web-n1   image\n"
        "5s          Normal   Started   pod/web-n1   Started container app\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "events")


async def test_logs_come_as_they_were_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "0.log"
    log.write_text("2026-11-21T11:58:00Z stdout F one\n2026-11-21T11:59:50Z stdout F two\n")
    two = pod(containers=(k8s.Container(name="app"), k8s.Container(name="side")))
    places = {("default", "web-n1", name, old): str(log) for name in ("app", "side") for old in (False, True)}
    view = FakeView([two], logs=places)

    def logs(*words: str):
        return say(view, tmp_path, capsys, "logs", *words)

    assert (0, "one\ntwo\n", "") == await logs("web-n1", "-c", "side")
    assert (0, "one\ntwo\n", "") == await logs("pod/web-n1", "side", "-f")
    assert (0, "two\n", "") == await logs("web-n1", "app", "--tail", "1", "-p")
    assert (0, "2026-11-21T11:59:50Z two\n", "") == await logs("web-n1", "app", "--since=1m", "--timestamps")
    assert (0, "one\ntwo\n", 'No container was named: this is "app"; there are also side\n') == await logs("web-n1")
    assert (1, "", "error: none has no log\n") == await logs("web-n1", "none")
    assert (1, "", 'error: pods "web" not found (did you mean "web-n1"?)\n') == await logs("web")
    code, _, err = await logs("web-n1", "--since", "soon")
    assert (1, True) == (code, err.startswith("error: --since: 'soon' is not a duration"))


async def test_a_pod_can_say_whose_log_is_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "0.log"
    log.write_text("2026-11-21T11:58:00Z stdout F one\n")
    two = pod(containers=(k8s.Container(name="side"), k8s.Container(name="app")))
    annotations = {"kubectl.kubernetes.io/default-container": "app"}
    two = msgspec.structs.replace(two, metadata=msgspec.structs.replace(two.metadata, annotations=annotations))
    view = FakeView([two], logs={("default", "web-n1", "app", False): str(log)})

    assert (0, "one\n", "") == await say(view, tmp_path, capsys, "logs", "web-n1")


@pytest.mark.parametrize("words", [("get", "pods"), ("describe", "pod", "x"), ("logs", "x"), ("logs", "x", "c")])
def test_every_verb_says_that_there_is_no_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert 1 == main([*words, f"--socket={tmp_path}/trikubelet.sock"])
    said = capsys.readouterr()
    assert "" == said.out
    assert said.err.startswith(f"error: no trikubelet answers at {tmp_path}/trikubelet.sock: is the agent running?")


async def test_describe_tells_all_about_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([whole_pod()], [event(whole_pod(), "BackOff", "Back-off restarting", count=5, first=180, last=3)])
    view.wrong = [msgspec.structs.replace(FAULT, running=("default/web-n1",))]
    view.worked = [PodWork("uid-web-n1", "Syncing", 7, 2, "CrashLoopBackOff: wait")]

    code, out, err = await say(view, tmp_path, capsys, "describe", "pod", "web")

    assert (0, "") == (code, err)
    assert (Path(__file__).parent / "described_pod.txt").read_text() == out


async def test_a_pod_whose_manifest_cannot_be_read_is_described_by_its_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = await say(FakeView(wrong=[FAULT]), tmp_path, capsys, "describe", "pod/web-n1")

    assert (1, "") == (code, out)
    assert (
        'error: pods "web-n1" not found\n'
        "It may be in one of these manifests, which have faults:\n"
        '/m/web.yaml:4: spec.contaners: unknown field "contaners" (did you mean "containers"?)\n'
    ) == err


async def test_several_pods_are_described_one_after_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = await say(FakeView([pod("a"), pod("b")]), tmp_path, capsys, "describe", "pods")

    assert ["a", "b"] == [line.split()[1] for line in out.splitlines() if line.startswith("Name:")]


def whole_pod() -> k8s.Pod:
    """A pod with something in every part of its description."""
    made = pod(
        init_containers=(k8s.Container(name="init", image="init:1", command=("sh", "-c", "one\ntwo")),),
        containers=(
            k8s.Container(
                name="app",
                image="app:1",
                args=("--serve",),
                ports=(k8s.ContainerPort(container_port=8080, host_port=80), k8s.ContainerPort(container_port=53)),
                env=(
                    k8s.EnvVar(name="PLAIN", value="x"),
                    k8s.EnvVar(
                        name="IP",
                        value_from=k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path="status.podIP")),
                    ),
                ),
                resources=k8s.ResourceRequirements(limits={"memory": "64Mi", "cpu": "1"}),
                liveness_probe=k8s.Probe(http_get=k8s.HTTPGetAction(port=8080, path="/live"), period_seconds=5),
                volume_mounts=(
                    k8s.VolumeMount(name="tmp", mount_path="/tmp"),
                    k8s.VolumeMount(name="etc", mount_path="/etc/app", read_only=True, sub_path="a"),
                ),
            ),
        ),
        volumes=(
            k8s.Volume(name="tmp", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")),
            k8s.Volume(name="etc", host_path=k8s.HostPathVolumeSource(path="/etc/app", type="Directory")),
            k8s.Volume(name="far", nfs=k8s.NFSVolumeSource(server="s", path="/p")),
        ),
        tolerations=(k8s.Toleration(operator="Exists", effect="NoExecute"),),
    )
    ended = k8s.ContainerStateTerminated(
        exit_code=3,
        reason="Error",
        message="first\nlast words\n",
        started_at="2026-11-21T11:56:00Z",
        finished_at="2026-11-21T11:57:00Z",
    )
    done = k8s.ContainerStateTerminated(exit_code=0, reason="Completed", finished_at="2026-11-21T11:55:00Z")
    waiting = k8s.ContainerStateWaiting(reason="CrashLoopBackOff", message="back-off 40s")
    assert made.status is not None
    status = msgspec.structs.replace(
        made.status,
        conditions=(
            k8s.PodCondition(type="Initialized", status="True"),
            k8s.PodCondition(type="Ready", status="False", reason="ContainersNotReady"),
        ),
        init_container_statuses=(
            k8s.ContainerStatus(
                name="init", image="init:1", image_id="sha256:2", container_id="c://init", ready=True,
                restart_count=0, state=k8s.ContainerState(terminated=done),
            ),
        ),
        container_statuses=(
            k8s.ContainerStatus(
                name="app", image="app:1", image_id="sha256:1", container_id="c://app", ready=False, restart_count=3,
                state=k8s.ContainerState(waiting=waiting), last_state=k8s.ContainerState(terminated=ended),
            ),
        ),
    )  # fmt: skip
    meta = msgspec.structs.replace(made.metadata, labels={"tier": "x", "app": "web"})
    return msgspec.structs.replace(made, metadata=meta, status=status)


def test_the_agent_is_looked_for_where_one_of_this_user_would_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**given: str) -> str:
        return asking.socket_path(argparse.Namespace(**{"socket": None, "root_dir": None, **given}))

    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "/run/user/1000/trikubelet/trikubelet.sock" == found()
    assert "/r/run/trikubelet.sock" == found(root_dir="/r")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "/var/lib/kubelet/trikubelet.sock" == found()
    assert "/r/trikubelet.sock" == found(root_dir="/r")
    assert "/s" == found(root_dir="/r", socket="/s")


def test_a_user_without_a_home_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    assert 1 == main(["get", "pods"])
    assert capsys.readouterr().err.startswith("error: neither XDG_STATE_HOME nor HOME says")
