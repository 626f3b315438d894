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

from shell.localkit import NOW_NS, FakeAgent, FakeView, event, pod, served
from trikubelet.app.last_start import LastStart, record_start
from trikubelet.app.paths import START_RECORD
from trikubelet.cli import asking
from trikubelet.cli.commands import get
from trikubelet.cli.listing import Listing
from trikubelet.cli.main import main
from trikubelet.cli.objects import as_yaml
from trikubelet.cli.things import read_things
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import RuntimeUnavailable
from trikubelet.server.agent_view import ConfigNote, ImageNote
from trikubelet.server.node_view import ManifestFault, PodWork

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoken = Callable[..., tuple[int, str, str]]

FAULT = ManifestFault("/m/web.yaml", 'unknown field "contaners"', 4, "spec.contaners", 'did you mean "containers"?')


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "now_ns", lambda: NOW_NS)


async def say(
    view: FakeView, directory: Path, capsys: pytest.CaptureFixture[str], *words: str, about: FakeAgent | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    async with served(view, directory, about):
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


def test_a_script_can_be_read_in_yaml_and_no_line_is_folded() -> None:
    long = "word " * 40 + "end"
    what = {"command": ["sh", "-c", "echo one\n  echo two\n"], "long": long, "number": "1"}
    shown = as_yaml(what)

    assert f"command:\n- sh\n- -c\n- |\n  echo one\n    echo two\nlong: {long}\nnumber: '1'\n" == shown
    assert what == yaml.safe_load(shown)


def test_yaml_shows_an_emoji_as_it_is() -> None:
    assert "note: done \N{ROCKET}\n" == as_yaml({"note": "done \N{ROCKET}"})


async def test_names_can_be_printed_alone_and_given_as_they_were_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    assert (0, "pod/api-n1\npod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "-o", "name")
    assert (0, "pod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "pod/web-n1", "-o", "name")


async def test_names_may_stand_behind_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    assert (0, "pod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "-o", "name", "web-n1")
    assert (0, "pod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "-n", "", "-o", "name", "pod/web-n1")
    assert "Name:" in (await say(view, tmp_path, capsys, "describe", "pod", "-n", "default", "web-n1"))[1]


async def test_faulty_manifests_are_told_below_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod()], wrong=[FAULT, msgspec.structs.replace(FAULT, running=("default/web-n1",))])

    code, out, err = await say(view, tmp_path, capsys, "get", "pods")

    line = '/m/web.yaml:4: spec.contaners: unknown field "contaners" (did you mean "containers"?)'
    assert (0, 2) == (code, out.count("\n"))
    assert f"{line}\n{line} [default/web-n1: the last good version keeps running]\n" == err


async def test_a_node_that_cannot_work_says_why_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = FakeView(problems=("container runtime is down: no socket",))

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


async def test_a_name_that_is_not_there_hides_none_that_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1")])

    told = 'error: pods "nobody" not found\nerror: pods "none" not found\n'
    assert (1, "pod/web-n1\n", told) == await say(
        view, tmp_path, capsys, "get", "pods", "nobody", "web-n1", "none", "-o", "name"
    )


async def test_a_pod_that_is_not_there_may_be_in_a_manifest_with_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = msgspec.structs.replace(FAULT, source="/m/two.yaml", running=("default/web-n1",))
    view = FakeView([pod("web-n1")], wrong=[FAULT, kept])
    what = '4: spec.contaners: unknown field "contaners" (did you mean "containers"?)\n'
    manifests = f"It may be in one of these manifests, which have faults:\n/m/web.yaml:{what}/m/two.yaml:{what}"

    error = f'error: pods "nobody" not found\n{manifests}'
    assert (1, "", error) == await say(view, tmp_path, capsys, "get", "pods", "nobody")
    assert (1, "", error) == await say(view, tmp_path, capsys, "get", "pod", "nobody", "-o", "json")
    assert (1, "pod/web-n1\n", error) == await say(
        view, tmp_path, capsys, "get", "pods", "nobody", "web-n1", "-o", "name"
    )
    below_the_table = (await say(view, tmp_path, capsys, "get", "pods", "nobody", "web-n1"))[2]
    assert 1 == below_the_table.count("/m/web.yaml")
    assert (1, "", 'error: nodes "n2" not found\n') == await say(view, tmp_path, capsys, "get", "nodes", "n2")


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
        nursery.start_soon(get_in_trio, "pods", "-w", f"--socket={agent.socket_path}")
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
    started = event(pod(), "Started", "Container started", part="spec.containers{app}", last=5)
    view = FakeView(told=[started, event(pod(), "Pulled", "image")])

    assert (
        0,
        "LAST SEEN   TYPE     REASON    OBJECT       MESSAGE\n"
        "60s         Normal   Pulled    pod/web-n1   image\n"
        "5s          Normal   Started   pod/web-n1   Container started\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "events")
    assert (
        0,
        "LAST SEEN   TYPE     REASON    OBJECT       MESSAGE             SUBOBJECT\n"
        "60s         Normal   Pulled    pod/web-n1   image\n"
        "5s          Normal   Started   pod/web-n1   Container started   spec.containers{app}\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "events", "-o", "wide")


NODE = k8s.Node(
    api_version="v1",
    kind="Node",
    metadata=k8s.ObjectMeta(name="n1", labels={"zone": "a", "node-role.kubernetes.io/edge": ""}),
    spec=k8s.NodeSpec(unschedulable=True),
    status=k8s.NodeStatus(
        addresses=(k8s.NodeAddress(type="InternalIP", address="192.0.2.1"),),
        conditions=(
            k8s.NodeCondition(type="MemoryPressure", status="False"),
            k8s.NodeCondition(type="Ready", status="True"),
        ),
        node_info=k8s.NodeSystemInfo(
            architecture="amd64", boot_id="", container_runtime_version="containerd://2.2.0", kernel_version="6.1",
            kube_proxy_version="", kubelet_version="v1.36.3", machine_id="", operating_system="linux",
            os_image="Debian", system_uuid="",
        ),
    ),
)  # fmt: skip


async def test_the_node_is_listed_as_in_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = FakeAgent(NODE)

    assert (
        0,
        "NAME   STATUS                     ROLES   AGE         VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE   "
        "KERNEL-VERSION   CONTAINER-RUNTIME\n"
        "n1     Ready,SchedulingDisabled   edge    <unknown>   v1.36.3   192.0.2.1     <none>        Debian     "
        "6.1              containerd://2.2.0\n",
        "",
    ) == await say(FakeView(), tmp_path, capsys, "get", "nodes", "-o", "wide", about=about)
    assert (0, "node/n1\n", "") == await say(FakeView(), tmp_path, capsys, "get", "no", "-o", "name", about=about)
    code, out, _ = await say(FakeView(), tmp_path, capsys, "get", "node/n1", "-o", "json", about=about)
    assert (0, json.loads(msgspec.json.encode(NODE))) == (code, json.loads(out))
    assert (1, "", 'error: nodes "n2" not found\n') == await say(
        FakeView(), tmp_path, capsys, "get", "nodes", "n2", about=about
    )


async def test_images_are_listed_name_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    id_ = "sha256:0123456789abcdef"
    about = FakeAgent(
        had=[
            ImageNote(id_, ("reg:5000/web:1", "reg:5000/web"), (), 3_812_345, pinned=True),
            ImageNote("sha256:ff", (), ("example.com/api@sha256:1",), 742),
            ImageNote("sha256:ee"),
        ]
    )

    assert (
        0,
        "REPOSITORY        TAG      IMAGE ID        SIZE     PINNED\n"
        "reg:5000/web      1        0123456789abc   3.81MB   yes\n"
        "reg:5000/web      <none>   0123456789abc   3.81MB   yes\n"
        "example.com/api   <none>   ff              742B     no\n"
        "<none>            <none>   ee              0B       no\n",
        "",
    ) == await say(FakeView(), tmp_path, capsys, "get", "images", "-o", "wide", about=about)
    about.problem = RuntimeUnavailable("no socket")
    assert (1, "", "error: the container runtime: no socket\n") == await say(
        FakeView(), tmp_path, capsys, "get", "images", about=about
    )


async def test_volumes_are_listed_with_how_they_were_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([whole_pod()], worked=[PodWork("uid-web-n1", "Syncing", volumes={"far": "not ready: no route"})])

    assert (
        0,
        "POD      NAME   KIND       STATE\n"
        "web-n1   tmp    emptyDir\n"
        "web-n1   etc    hostPath\n"
        "web-n1   far    nfs        not ready: no route\n",
        "",
    ) == await say(view, tmp_path, capsys, "get", "volumes")
    code, out, _ = await say(view, tmp_path, capsys, "get", "volume", "web-n1/far", "-o", "jsonpath={.spec.nfs.server}")
    assert (0, "s") == (code, out)


async def test_pods_are_chosen_by_their_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = msgspec.structs.replace(
        pod("web-n1"), metadata=msgspec.structs.replace(pod("web-n1").metadata, labels={"tier": "x"})
    )
    view = FakeView([labelled, pod("api-n1")])

    assert (0, "pod/web-n1\n", "") == await say(view, tmp_path, capsys, "get", "pods", "-l", "tier=x", "-o", "name")
    assert (0, "", "No resources found in default namespace.\n") == await say(
        view, tmp_path, capsys, "get", "pods", "--selector=tier notin (x),tier"
    )


async def test_a_template_says_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod("web-n1"), pod("api-n1")])

    assert (0, "api-n1 web-n1", "") == await say(
        view, tmp_path, capsys, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"
    )
    assert (0, "Running", "") == await say(
        view, tmp_path, capsys, "get", "pod", "web-n1", "-o", "jsonpath={.status.phase}"
    )
    told = "error: jsonpath: array index out of bounds: index 99, length 2\n"
    assert (1, "", told) == await say(view, tmp_path, capsys, "get", "pods", "-o", "jsonpath=a{.items[99]}")


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("'xml' is none of wide, name, json, yaml, jsonpath=TEMPLATE and custom-columns=SPEC", ["-o", "xml"]),
        ("template format specified but no template given", ["-o", "jsonpath="]),
        ("jsonpath: '{.a': a brace without its other half", ["-o", "jsonpath={.a"]),
        ("is no label selector", ["-l", "a in b"]),
        ('error: "gnomes" is not a kind of object (did you mean "nodes"?)\n', ["gnomes"]),
        ("name cannot be provided when a selector is specified", ["web-n1", "-l", "app=x"]),
    ],
)
def test_what_cannot_be_shown_is_a_matter_of_usage(
    capsys: pytest.CaptureFixture[str], why: str, words: list[str]
) -> None:
    assert 2 == main(["get", *([] if words[0] == "gnomes" else ["pods"]), *words])
    assert why in capsys.readouterr().err


async def get_in_trio(*words: str) -> None:
    """`get` within this process's Trio."""
    args = get.parser().parse_intermixed_args(words)
    wanted = read_things(args)
    await get._get(args, wanted, Listing(get._style(args, with_kinds=len(wanted) > 1)))


async def _watched(
    view: FakeView, about: FakeAgent, directory: Path, words: list[str], changes: list[Callable[[], None]]
) -> None:
    """`get -w` while these changes come, five seconds apart."""
    async with served(view, directory, about) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(get_in_trio, *words, "-w", f"--socket={agent.socket_path}")
        for change in changes:
            await trio.sleep(5)
            change()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()


async def test_events_are_watched_as_they_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    def named(name: str, reason: str, count: int = 1) -> k8s.Event:
        made = event(pod(), reason, "it is so", count=count)
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name=name))

    view = FakeView([pod()], [named("a", "Pulled")])
    changes: list[Callable[[], None]] = [
        lambda: view.told.append(named("b", "Started")),
        lambda: view.told.append(named("c", "Started", 2)),
    ]
    await _watched(view, FakeAgent(), tmp_path, ["events"], changes)

    reasons = [line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert ["Pulled", "Started", "Started"] == reasons


async def test_the_node_images_and_volumes_are_watched_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    volume = k8s.Volume(name="far", nfs=k8s.NFSVolumeSource(server="s", path="/p"))
    view, about = FakeView([pod(volumes=(volume,))]), FakeAgent(had=[ImageNote("sha256:1", ("app:1", "app:2"))])

    def cordon() -> None:
        about.described = msgspec.structs.replace(about.described, spec=k8s.NodeSpec(unschedulable=True))

    await _watched(view, about, tmp_path, ["nodes", "--no-headers"], [cordon])
    await _watched(view, about, tmp_path, ["images", "-o", "name"], [about.had.clear])
    mounted = PodWork("uid-web-n1", "Syncing", volumes={"far": "mounted"})
    await _watched(view, about, tmp_path, ["volumes", "--no-headers"], [lambda: view.worked.append(mounted)])

    out = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [["n1", "Unknown"], ["n1", "Unknown,SchedulingDisabled"]] == [line[:2] for line in out[:2]]
    assert [["image/1"]] * 4 == out[2:6]  # there, and once more when it is gone, by each of its names
    assert [["web-n1", "far", "nfs"], ["web-n1", "far", "nfs", "mounted"]] == out[6:]


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
    assert (0, "one\ntwo\n", 'Defaulted container "app" out of: app, side\n') == await logs("web-n1")
    assert (1, "", "error: none has no log\n") == await logs("web-n1", "none")
    assert (1, "", 'error: pods "web" not found (did you mean "web-n1"?)\n') == await logs("web")
    assert (1, "", 'error: pods "web" not found (did you mean "web-n1"?)\n') == await logs("web", "-c", "app")


@pytest.mark.parametrize(
    ("said", "flag"),
    [
        ("--tail: '-7' is not a whole number from 0 to 999999999999, nor -1 for all", "--tail=-7"),
        ("--tail: '9999999999999' is not a whole number", "--tail=9999999999999"),
        ("--limit-bytes: '0' is not a whole number from 1 to", "--limit-bytes=0"),
        ('--since-time: "noon" is not a time of RFC 3339', "--since-time=noon"),
        ("--since: 'soon' is not a duration", "--since=soon"),
        ("--since: must be more than 0", "--since=0s"),
    ],
)
def test_what_is_wrong_with_a_flag_of_logs_is_reported_by_the_flags_name(
    capsys: pytest.CaptureFixture[str], said: str, flag: str
) -> None:
    assert 2 == main(["logs", "web-n1", flag])
    assert capsys.readouterr().err.startswith(f"error: invalid value for {said}")


def test_logs_have_one_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["logs", "web-n1", "--since=5s", "--since-time=2026-11-21T07:01:02Z"])
    assert capsys.readouterr().err.startswith("error: flags --since and --since-time exclude each other")


async def test_the_logs_of_all_containers_come_one_after_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {}
    for name in ("init", "app"):
        (tmp_path / f"{name}.log").write_text(f"2026-11-21T11:58:00Z stdout F {name} 1\n")
        places["default", "web-n1", name, False] = str(tmp_path / f"{name}.log")
    containers = (k8s.Container(name="app"), k8s.Container(name="late"))
    view = FakeView([pod(init_containers=(k8s.Container(name="init"),), containers=containers)], logs=places)

    def logs(*words: str):
        return say(view, tmp_path, capsys, "logs", "web-n1", "--all-containers", *words)

    assert (1, "init 1\napp 1\n", "error: late has no log\n") == await logs()
    assert (
        1,
        "[pod/web-n1/init] init 1\n[pod/web-n1/app] app 1\n",
        "error: late has no log\n",
    ) == await logs("--prefix")
    code, out, _ = await logs("--follow", "--prefix")
    assert (1, {"[pod/web-n1/init] init 1", "[pod/web-n1/app] app 1"}) == (code, set(out.splitlines()))
    assert 2 == (await logs("-c", "app"))[0]


def with_logs(directory: Path, *names: str, lines: int = 1, containers: tuple[str, ...] = ("app",)) -> FakeView:
    """Pods whose containers have each written lines with their names. The label ``app`` is the first letter."""
    places = {}
    for name in names:
        for container in containers:
            log = directory / f"{name}.{container}.log"
            log.write_text("".join(f"2026-11-21T11:58:00Z stdout F {name} {n}\n" for n in range(lines)))
            places["default", name, container, False] = str(log)
    pods = [pod(name, containers=tuple(k8s.Container(name=one) for one in containers)) for name in names]
    labelled = [msgspec.structs.replace(one.metadata, labels={"app": one.metadata.name[0]}) for one in pods]
    return FakeView(
        [msgspec.structs.replace(one, metadata=meta) for one, meta in zip(pods, labelled, strict=True)], logs=places
    )


async def test_the_logs_of_selected_pods_are_printed_from_their_last_ten_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = with_logs(tmp_path, "a1", "a2", "b1", lines=12)

    def lines(name: str, first: int) -> str:
        return "".join(f"{name} {number}\n" for number in range(first, 12))

    def logs(*words: str):
        return say(view, tmp_path, capsys, "logs", *words)

    assert (0, lines("a1", 2) + lines("a2", 2), "") == await logs("-l", "app=a")
    assert (0, lines("b1", 0), "") == await logs("-l", "app=b", "--tail=-1")
    prefixed = "[pod/a1/app] a1 11\n[pod/a2/app] a2 11\n"
    assert (0, prefixed, "") == await logs("--selector=app in (a)", "--tail=1", "--prefix", "--all-containers")
    assert (0, "", "No resources found in default namespace.\n") == await logs("-l", "app=none")
    code, out, err = await logs("-l", "app=b", "-c", "nope")
    assert (1, "", "error: nope has no log\n") == (code, out, err)


async def test_a_bounded_number_of_logs_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = with_logs(tmp_path, "a1", "a2", "a3", containers=("app", "side"))

    def logs(*words: str):
        return say(view, tmp_path, capsys, "logs", "-l", "app=a", "-f", "--all-containers", *words)

    told = (
        "error: you are attempting to follow 6 log streams, but maximum allowed concurrency is 5,"
        " use --max-log-requests to increase the limit\n"
    )
    assert (1, "", told) == await logs()
    code, out, err = await logs("--max-log-requests=6", "--prefix")
    whose = {f"[pod/a{number}/{one}] a{number} 0" for number in (1, 2, 3) for one in ("app", "side")}
    assert (0, "", whose) == (code, err, set(out.splitlines()))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("only a selector (-l) or a POD name is allowed", ["web", "-l", "app=a"]),
        ("expected POD or -l SELECTOR", []),
        (
            "invalid value for --max-log-requests: '0' is not a whole number from 1 to 50",
            ["web", "--max-log-requests=0"],
        ),
    ],
)
def test_logs_are_of_a_pod_or_of_selected_pods(capsys: pytest.CaptureFixture[str], why: str, words: list[str]) -> None:
    assert 2 == main(["logs", *words])
    assert capsys.readouterr().err.startswith(f"error: {why}")


def test_the_default_container_is_chosen_among_containers_of_every_sort(capsys: pytest.CaptureFixture[str]) -> None:
    several = pod(
        init_containers=(k8s.Container(name="init"),), ephemeral_containers=(k8s.EphemeralContainer(name="debug"),)
    )
    assert ("app", "app") == (asking.default_container(several), asking.default_container(pod()))
    assert 'Defaulted container "app" out of: app, init (init), debug (ephem)\n' == capsys.readouterr().err


async def test_configuration_is_shown_with_the_place_of_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"maxPods": 9, "logging": {"verbosity": 2, "format": "text"}, "clusterDNS": ["10.0.0.1"]}
    given = {"maxPods": "/etc/k.yaml:3", "logging.verbosity": "--v"}
    about = FakeAgent(configured=ConfigNote(fields, given, {"root directory": "/r"}, "n1", "/m"))

    assert (
        0,
        "WHAT                VALUE          GIVEN BY\n"
        "root directory      /r             default\n"
        "static pods         /m             default\n"
        'clusterDNS          ["10.0.0.1"]   default\n'
        "logging.format      text           default\n"
        "logging.verbosity   2              --v\n"
        "maxPods             9              /etc/k.yaml:3\n",
        "",
    ) == await say(FakeView(), tmp_path, capsys, "config", "view", about=about)
    _, out, _ = await say(FakeView(), tmp_path, capsys, "config", "view", "--given", "-o", "yaml", about=about)
    assert {"maxPods": 9, "logging": fields["logging"]} == yaml.safe_load(out)
    _, out, _ = await say(FakeView(), tmp_path, capsys, "config", "view", "-o", "json", about=about)
    assert fields == json.loads(out)


def test_config_view_of_a_file_prints_its_unknown_fields_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 7\n")
    flags = ["--standalone", f"--root-dir={tmp_path}", f"--config={config}"]

    assert 0 == main(["config", "view", "--given", "--", *flags])
    said = capsys.readouterr()
    assert f'warning: {config}:3: maxPod: unknown field: it is ignored (did you mean "maxPods"?)\n' == said.err
    assert "maxPod" not in said.out
    assert 1 == main(["config", "view", "--", *flags, "--strict-config"])
    assert f'error: {config}:3: maxPod: unknown field (did you mean "maxPods"?)\n' == capsys.readouterr().err


def test_the_configuration_of_an_agent_that_does_not_run_is_worked_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 1Mi}\n"
    )
    flags = ["--standalone", f"--root-dir={tmp_path}", "--max-pods=7", f"--pod-manifest-path={tmp_path}/m"]
    flags += ["--hostname-override=vm", "--node-ip=10.0.0.1,fd00::1", "--node-labels=a=b,c=d", "--kubectl-port=6440"]

    assert 0 == main(["config", "view", "--given", "--", f"--config={config}", *flags])
    assert [
        ["WHAT", "VALUE", "GIVEN", "BY"],
        ["root", "directory", str(tmp_path), "flag", "--root-dir"],
        ["static", "pods", f"{tmp_path}/m", "flag", "--pod-manifest-path"],
        ["--config", str(config), "flag", "--config"],
        ["--standalone", "true", "flag", "--standalone"],
        ["--hostname-override", "vm", "flag", "--hostname-override"],
        ["--node-ip", "10.0.0.1,fd00::1", "flag", "--node-ip"],
        ["--node-labels", "a=b,c=d", "flag", "--node-labels"],
        ["--kubectl-port", "6440", "flag", "--kubectl-port"],
        ["evictionHard[memory.available]", "1Mi", f"{config}:3"],
        ["maxPods", "7", "flag", "--max-pods"],
        ["staticPodPath", f"{tmp_path}/m", "flag", "--pod-manifest-path"],
    ] == [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("verb", ["config view", "doctor"])
@pytest.mark.parametrize(
    ("code", "said", "flag"),
    [
        (2, "error: --max-podz: unknown flag", "--max-podz=7"),
        (2, "error: --max-pods:", "--max-pods=x"),
        (1, "error: /none: ", "--config=/none"),
    ],
)
def test_an_agents_flags_that_are_not_understood_end_with_2_and_files_that_are_not_there_with_1(
    verb: str, code: int, said: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == main([*verb.split(), "--", flag])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["config view", "doctor"])
@pytest.mark.parametrize(
    ("said", "flag"),
    [
        ("error: --root-dir={} is given before --, and --root-dir=/b after it\n", "--root-dir=/b"),
        ("error: --help only prints and starts no agent: leave it out\n", "--help"),
    ],
)
def test_an_agents_flags_that_are_of_no_one_agent_end_with_2(
    verb: str, said: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main([*verb.split(), f"--root-dir={tmp_path}", "--", flag])
    assert said.format(tmp_path) == capsys.readouterr().err


@pytest.mark.parametrize("verb", ["config view", "doctor"])
def test_an_agent_that_runs_and_the_flags_of_one_that_would_are_not_asked_about_at_once(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main([*verb.split(), "--socket=/a", "--", "--standalone"])
    assert (
        "error: --socket=/a names a running agent, but the flags after -- describe a new one" in capsys.readouterr().err
    )


def test_doctor_checks_nothing_else_if_the_named_socket_has_no_listener(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == main(["doctor", f"--socket={tmp_path}/none"])
    shown = capsys.readouterr()
    assert "" == shown.out
    assert f"{tmp_path}/none" in shown.err


def test_a_root_directory_is_the_agents_before_its_flags_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == main(["config", "view", "--given", f"--root-dir={tmp_path}/a/..", "--", "--standalone"])
    assert ["root", "directory", f"{tmp_path}/a/..", "flag", "--root-dir"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


async def test_pod_annotation_chooses_the_default_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_where_no_agent_answers_the_last_ones_command_line_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    where = f"error: no trikubelet answers at {tmp_path}/trikubelet.sock: is the agent running?"
    elsewhere = "or name another agent's with --root-dir or --socket)\n"
    record_start(tmp_path, LastStart(("trikubelet",), ("--standalone", "--pod-manifest-path=/a b")))

    for option in (f"--root-dir={tmp_path}", f"--socket={tmp_path}/trikubelet.sock"):
        assert 1 == main(["get", "pods", option])
        command = "trikubelet --standalone '--pod-manifest-path=/a b'"
        assert f"{where} (start it again with: `{command}`; {elsewhere}" == capsys.readouterr().err

    (tmp_path / START_RECORD).write_text("damaged")
    assert 1 == main(["get", "pods", f"--root-dir={tmp_path}"])
    general = "`trikubelet help agent` lists the flags to start one with"
    assert f"{where} ({general}; {elsewhere}" == capsys.readouterr().err


async def test_describe_shows_all_about_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backed_off = event(
        whole_pod(), "BackOff", "Back-off restarting", part="spec.containers{app}", first=180, last=3, count=5
    )
    view = FakeView([whole_pod()], [backed_off])
    view.wrong = [msgspec.structs.replace(FAULT, running=("default/web-n1",))]
    volumes = {"far": "not ready: mount s:/p: no route to host"}
    view.worked = [
        PodWork("uid-web-n1", "Syncing", 7, 2, "CrashLoopBackOff: wait", None, 45.2, "no answer yet", volumes)
    ]

    code, out, err = await say(view, tmp_path, capsys, "describe", "pod", "web")

    assert (0, "") == (code, err)
    assert (Path(__file__).parent / "described_pod.txt").read_text() == out


async def test_describe_shows_what_a_pod_waits_for_on_a_node_that_cannot_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = msgspec.structs.replace(pod("ended"), status=k8s.PodStatus(phase="Succeeded"))
    worked = [
        PodWork("uid-waits", "Syncing", 1, busy_seconds=31.7),
        PodWork("uid-ended", "Syncing", 1, busy_seconds=4.9),
    ]
    view = FakeView([pod("waits"), ended], worked=worked, problems=("container runtime is down: no answer",))

    told = [(await say(view, tmp_path, capsys, "describe", "pod", name))[1] for name in ("waits", "ended")]

    assert [
        "This Sync: in progress for 32s (number 1)",
        *("Node Problems:", "container runtime is down: no answer", "Events: <none>"),
    ] == [" ".join(line.split()) for line in told[0].splitlines()[-4:]]
    assert "This Sync" not in told[1]
    assert "Node Problems" not in told[1]


async def test_describe_shows_where_the_pull_of_an_image_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pulls = {"app": "app:1 is queued to be pulled, 3 ahead of it, for 7s"}
    view = FakeView([whole_pod()], worked=[PodWork("uid-web-n1", "Syncing", pulls=pulls)])
    _, out, _ = await say(view, tmp_path, capsys, "describe", "pod", "web")

    [line] = [line for line in out.splitlines() if "Image Pull:" in line]
    assert ["Image Pull", pulls["app"]] == [word.strip() for word in line.split(":", 1)]


async def test_pod_with_an_unreadable_manifest_is_described_by_its_faults(
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


async def test_describe_shows_all_about_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = k8s.NodeStatus(
        addresses=(k8s.NodeAddress(type="InternalIP", address="192.0.2.1"),),
        capacity={"cpu": "2"},
        allocatable={"cpu": "1900m"},
        conditions=(
            k8s.NodeCondition(
                type="Ready", status="True", reason="KubeletReady", message="kubelet is posting ready status",
                last_heartbeat_time="2026-11-21T11:59:50Z", last_transition_time="2026-11-21T11:00:00Z",
            ),
        ),
    )  # fmt: skip
    meta = k8s.ObjectMeta(name="n1", labels={"node-role.kubernetes.io/edge": "", "a": "b"})
    taints = (k8s.Taint(key="k", value="v", effect="NoSchedule"), k8s.Taint(key="gone", effect="NoExecute"))
    about = FakeAgent(described=k8s.Node(metadata=meta, spec=k8s.NodeSpec(taints=taints), status=status))
    done = msgspec.structs.replace(pod("job-n1"), status=k8s.PodStatus(phase="Succeeded"))
    of_node = msgspec.structs.replace(
        event(pod(), "Rebooted", "it came back"), involved_object=k8s.ObjectReference(kind="Node", name="n1", uid="n1")
    )
    view = FakeView([pod(), done], [event(pod(), "Started", "not the node's"), of_node], problems=("the disk is full",))

    code, out, _ = await say(view, tmp_path, capsys, "describe", "node", "n1", about=about)

    assert 0 == code
    assert (
        "Name:           n1\n"
        "Roles:          edge\n"
        "Labels:         a=b\n"
        "                node-role.kubernetes.io/edge=\n"
        "Annotations:    <none>\n"
        "Taints:         k=v:NoSchedule\n"
        "                gone:NoExecute\n"
        "Unschedulable:  false\n"
        "Problems:\n"
        "  the disk is full\n"
        "Conditions:\n"
        "  Type   Status  Heartbeat  Transition  Reason        Message\n"
        "  ----   ------  ---------  ----------  ------        -------\n"
        "  Ready  True    10s        60m         KubeletReady  kubelet is posting ready status\n"
        "Addresses:\n"
        "  InternalIP:  192.0.2.1\n"
        "Capacity:\n"
        "  cpu:  2\n"
        "Allocatable:\n"
        "  cpu:  1900m\n"
        "Non-terminated Pods (1 in total):\n"
        "  Namespace  Name    Age\n"
        "  ---------  ----    ---\n"
        "  default    web-n1  5m\n"
        "Events:\n"
        "  Type    Reason    Age  From        Message\n"
        "  ----    ------    ---  ----        -------\n"
        "  Normal  Rebooted  60s  trikubelet  it came back\n"
    ) == out


async def test_describe_shows_the_holder_of_each_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def holding(name: str, phase: str, **health: str) -> k8s.Pod:
        devices = tuple(k8s.ResourceHealth(resource_id=id_, health=its) for id_, its in health.items())
        held = (k8s.ResourceStatus(name="example.com/gpu", resources=devices),)
        one = pod(name)
        assert one.status is not None
        (shown,) = one.status.container_statuses
        statuses = (msgspec.structs.replace(shown, allocated_resources_status=held),)
        status = msgspec.structs.replace(one.status, phase=phase, container_statuses=statuses)
        return msgspec.structs.replace(one, status=status)

    view = FakeView([holding("web", "Running", b="Healthy", a="Unhealthy"), holding("ended", "Succeeded", c="Healthy")])
    _, node, _ = await say(view, tmp_path, capsys, "describe", "node", "n1", about=FakeAgent())
    _, web, _ = await say(view, tmp_path, capsys, "describe", "pod", "web")

    assert (
        "Allocated Devices:\n"
        "  Resource         Device  Health     Pod          Container\n"
        "  --------         ------  ------     ---          ---------\n"
        "  example.com/gpu  a       Unhealthy  default/web  app\n"
        "  example.com/gpu  b       Healthy    default/web  app\n"
    ) in node
    assert (
        "    Allocated Devices:\n      example.com/gpu:  b (Healthy)\n                        a (Unhealthy)\n"
    ) in web


async def test_describe_shows_an_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = FakeView([pod()], [event(pod(), "BackOff", "once more", count=5, first=180, last=3)])

    _, out, _ = await say(view, tmp_path, capsys, "describe", "event", "e")

    assert (
        "Name:        e\n"
        "Namespace:   default\n"
        "Type:        Normal\n"
        "Reason:      BackOff\n"
        "Message:     once more\n"
        "Object:      pod/web-n1\n"
        "Part Of It:  <none>\n"
        "UID:         uid-web-n1\n"
        "Count:       5\n"
        "First Seen:  Sat, 21 Nov 2026 11:57:00 +0000\n"
        "Last Seen:   Sat, 21 Nov 2026 11:59:57 +0000\n"
        "From:        trikubelet\n"
    ) == out


@pytest.mark.parametrize("name", ["app:1", "sha256:1", "1", "image/app:2"])
async def test_describe_shows_an_image_by_any_of_its_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    about = FakeAgent(had=[ImageNote("sha256:1", ("app:1", "app:2"), ("app@sha256:2",), 1234567)])

    _, out, _ = await say(FakeView([pod()]), tmp_path, capsys, "describe", "image", name, about=about)

    assert (
        "ID:       sha256:1\n"
        "Tags:     app:1\n"
        "          app:2\n"
        "Digests:  app@sha256:2\n"
        "Size:     1.23MB (1234567 bytes)\n"
        "Pinned:   no\n"
        "Used By:  default/web-n1 app\n"
    ) == out


async def test_describe_shows_pod_and_state_of_a_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"far": "not ready: no route to host"}
    view = FakeView([whole_pod()], worked=[PodWork("uid-web-n1", "Syncing", volumes=state)])

    _, out, _ = await say(view, tmp_path, capsys, "describe", "volume", "web-n1/far")
    assert (
        "Name:        far\n"
        "Pod:         web-n1\n"
        "Namespace:   default\n"
        "State:       not ready: no route to host\n"
        "Mounted By:  <none>\n"
        "Source:\n"
        "    Type:    NFS\n"
        "    Path:    /p\n"
        "    Server:  s\n"
    ) == out
    secret = k8s.LocalObjectReference(name="s")
    csi = k8s.CSIVolumeSource(driver="d", volume_attributes={"a": "b", "c": "1"}, node_publish_secret_ref=secret)
    plugged = pod(volumes=(k8s.Volume(name="v", csi=csi),))
    _, out, _ = await say(FakeView([plugged]), tmp_path, capsys, "describe", "volume", "web-n1/v")
    assert ["NodePublishSecretRef: name=s", "VolumeAttributes: a=b", "c=1"] == [
        " ".join(line.split()) for line in out.splitlines()[-3:]
    ]
    _, out, _ = await say(view, tmp_path, capsys, "describe", "volumes", "web")
    assert ["tmp", "etc", "far"] == [line.split()[1] for line in out.splitlines() if line.startswith("Name:")]
    assert "Mounted By:  app at /etc/app (read-only)" in out


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ('error: nodes "n1x" not found (did you mean "n1"?)\n', ["node", "n1x"]),
        ('error: images "none" not found\n', ["image", "none"]),
        ('error: events "x" not found\n', ["event/x"]),
    ],
)
async def test_what_cannot_be_described_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: str, words: list[str]
) -> None:
    assert (1, "", told) == await say(FakeView(), tmp_path, capsys, "describe", *words)


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


def found_socket(**given: str) -> str:
    return asking.socket_path(argparse.Namespace(**{"socket": None, "root_dir": None, **given}))


@pytest.mark.parametrize(
    ("there", "where"),
    [
        ([], "/var/lib/kubelet"),
        (["/var/lib/trikubelet/runtime-endpoint"], "/var/lib/trikubelet"),
        (["/var/lib/trikubelet/runtime-endpoint", "/var/lib/kubelet/runtime-endpoint"], "/var/lib/kubelet"),
        (["/var/lib/trikubelet/trikubelet.sock", "/var/lib/kubelet/runtime-endpoint"], "/var/lib/trikubelet"),
    ],
)
def test_an_agent_of_root_is_looked_for_where_one_is_or_was(
    there: list[str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.path.exists", lambda path: str(path) in there)

    assert f"{where}/trikubelet.sock" == found_socket()


def test_the_agent_is_looked_for_where_one_of_this_user_would_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_socket
    monkeypatch.setattr("os.path.exists", lambda _: False)
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
    assert capsys.readouterr().err.startswith("error: neither XDG_STATE_HOME nor HOME is set")
