"""Which things ``get`` and ``describe`` mean, and how ``get`` prints them: kubectl's ways to name and to select."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.cli.test_commands import NODE, get_in_trio, say
from shell.localkit import NOW_NS, FakeAgent, FakeView, event, pod, served
from trikubelet.cli import asking
from trikubelet.cli.main import main
from trikubelet.model import k8s

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "now_ns", lambda: NOW_NS)


def labelled(one: k8s.Pod, **labels: str) -> k8s.Pod:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, labels=labels))


def restarted(one: k8s.Pod, count: int, phase: str = "Running") -> k8s.Pod:
    assert one.status is not None
    (container,) = one.status.container_statuses
    status = msgspec.structs.replace(
        one.status, container_statuses=(msgspec.structs.replace(container, restart_count=count),), phase=phase
    )
    return msgspec.structs.replace(one, status=status)


def two_pods() -> FakeView:
    return FakeView(
        [
            restarted(labelled(pod("web-n1"), app="web", tier="front"), 3),
            restarted(pod("api-n1"), 10, "Failed"),
            pod("dns-n1", "kube-system"),
        ]
    )


WITH_KINDS = (
    "NAME         READY   STATUS    RESTARTS   AGE\n"
    "pod/api-n1   1/1     Failed    10         5m\n"
    "pod/web-n1   1/1     Running   3          5m\n"
    "\n"
    "NAME      STATUS                     ROLES   AGE         VERSION\n"
    "node/n1   Ready,SchedulingDisabled   edge    <unknown>   v1.36.3\n"
)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (WITH_KINDS, "pods,nodes"),
        (WITH_KINDS, "po,no --selector="),
        (WITH_KINDS, "pod/api-n1 pods/web-n1 node/n1"),
        ("NAME     READY   STATUS    RESTARTS   AGE\nweb-n1   1/1     Running   3          5m\n", "pod/web-n1"),
        ("NAME     READY   STATUS    RESTARTS   AGE\nweb-n1   1/1     Running   3          5m\n", "po pod/web-n1"),
        ("pod/api-n1\npod/web-n1\nnode/n1\n", "pods,nodes -o name"),
        ("pod/api-n1\npod/web-n1\n", "all -o name"),
        ("pod/web-n1\n", "pods --field-selector=status.phase==Running,spec.nodeName=n1 -o name"),
        ("pod/api-n1\npod/dns-n1\n", "pods -A --field-selector=metadata.name!=web-n1 -o name"),
        ("pod/dns-n1\n", "pods -A --field-selector=metadata.namespace=kube-system -o name"),
        ("pod/web-n1\npod/api-n1\n", "pods --sort-by=.status.containerStatuses[0].restartCount -o name"),
        ("n1\napi-n1\nweb-n1\n", "nodes,pods -o custom-columns=N:.metadata.name --no-headers"),
        (
            "NAME     PHASE\napi-n1   Failed\nweb-n1   Running\n",
            "pods -o custom-columns=NAME:{.metadata.name},PHASE:status.phase",
        ),
        (
            "NAME     READY   STATUS    RESTARTS   AGE   APP   X   TIER    LABELS\n"
            "api-n1   1/1     Failed    10         5m                      <none>\n"
            "web-n1   1/1     Running   3          5m    web       front   app=web,tier=front\n",
            "pods -L app,example.com/x -L tier --show-labels",
        ),
    ],
)
async def test_things_are_named_selected_and_printed_as_kubectl_does(
    printed: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = await say(two_pods(), tmp_path, capsys, "get", *words.split(), about=FakeAgent(NODE))

    assert (0, "", printed) == (code, err, out)


async def test_table_that_is_sorted_names_namespaces_and_wide_columns_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "pods -A -o wide --sort-by=metadata.name -L app --no-headers"

    _, out, _ = await say(two_pods(), tmp_path, capsys, "get", *words.split())

    assert [
        "default api-n1 1/1 Failed 10 5m 10.0.0.7 n1 <none> <none>",
        "kube-system dns-n1 1/1 Running 0 5m 10.0.0.7 n1 <none> <none>",
        "default web-n1 1/1 Running 3 5m 10.0.0.7 n1 <none> <none> web",
    ] == [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("No resources found in default namespace.\n", "pods -l app=none"),
        ("No resources found in default namespace.\n", "pods,events --field-selector=metadata.name=none"),
        ("No resources found\n", "pods,nodes -l app=none"),
        ("", "pods -l app=none -o custom-columns=NAME:.metadata.name --no-headers"),
    ],
)
async def test_selectors_that_nothing_fits_are_no_error(
    told: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (0, "", told) == await say(two_pods(), tmp_path, capsys, "get", *words.split(), about=FakeAgent(NODE))


async def test_names_that_are_missing_are_reported_for_each_kind_below_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = await say(two_pods(), tmp_path, capsys, "get", "pods,nodes", "web-n1", about=FakeAgent(NODE))
    assert (1, 2, 'error: nodes "web-n1" not found\n') == (code, out.count("\n"), err)
    assert "pod/web-n1" in out

    told = 'error: pods "none" not found\nerror: nodes "none" not found\n'
    assert (1, "", told) == await say(two_pods(), tmp_path, capsys, "get", "pod/none", "node/none")


async def test_events_are_those_about_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = two_pods()
    view.told = [event(one, "Started", one.metadata.name) for one in view.shown]
    line = "60s   Normal   Started   pod/web-n1   web-n1\n"

    for words in ("--for pod/web-n1", "--for=pods/web-n1", "web-n1", "--field-selector=involvedObject.name=web-n1"):
        assert (0, line, "") == await say(view, tmp_path, capsys, "get", "events", "--no-headers", *words.split())
    code, out, _ = await say(view, tmp_path, capsys, "get", "events", "--for=Deployment/web-n1", "-o", "name")
    assert (0, "") == (code, out)
    code, out, _ = await say(view, tmp_path, capsys, "describe", "events", "api-n1")
    assert (0, 1) == (code, out.count("Object:      pod/api-n1"))


def with_volumes(*pods: str) -> FakeView:
    return FakeView([pod(name, volumes=(k8s.Volume(name="page"), k8s.Volume(name=f"of-{name}"))) for name in pods])


@pytest.mark.parametrize("verb", ["get", "describe"])
async def test_volume_is_found_by_its_own_name_where_one_pod_has_it(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = await say(with_volumes("web-n1"), tmp_path, capsys, verb, "volume", "page")
    assert (0, 1, False) == (code, out.count("page"), "of-web" in out)

    code, out, err = await say(with_volumes("web-n1", "api-n1"), tmp_path, capsys, verb, "volume", "page")
    several = 'error: volumes "page": there are several: write one of api-n1/page, web-n1/page\n'
    assert (1, "", several) == (code, out, err)

    code, out, _ = await say(with_volumes("web-n1", "api-n1"), tmp_path, capsys, verb, "volumes", "api-n1")
    assert (0, 1, True, False) == (code, out.count("page"), "of-api-n1" in out, "web-n1" in out)

    _, _, err = await say(with_volumes("web-n1", "api-n1"), tmp_path, capsys, verb, "volumes", "of-wep-n1")
    assert 'error: volumes "of-wep-n1" not found (did you mean "of-web-n1"?)\n' == err


async def test_describe_selects_by_labels_and_describes_several_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def names(out: str) -> list[str]:
        return [line.split()[1] for line in out.splitlines() if line.startswith("Name:")]

    about = FakeAgent(NODE)
    _, out, _ = await say(two_pods(), tmp_path, capsys, "describe", "pods", "-l", "tier=front", about=about)
    assert ["web-n1"] == names(out)
    _, out, _ = await say(two_pods(), tmp_path, capsys, "describe", "pod/api", "node/n1", about=about)
    assert ["api-n1", "n1"] == names(out)
    _, out, _ = await say(two_pods(), tmp_path, capsys, "describe", "pods,nodes", about=about)
    assert ["api-n1", "web-n1", "n1"] == names(out)
    nothing = "No resources found in default namespace.\n"
    assert (0, "", nothing) == await say(two_pods(), tmp_path, capsys, "describe", "pods", "-l", "app=none")


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ('"gnomes" is not a kind of object (did you mean "nodes"?)', "get pods,gnomes"),
        ('"" is not a kind of object', "get pods,"),
        ('"gnome" is not a kind of object', "describe gnome/x"),
        ("name cannot be provided when a selector is specified", "get pods web --field-selector=metadata.name=web"),
        ("name cannot be provided when a selector is specified", "get events web --for=pod/web"),
        ("name cannot be provided when a selector is specified", "describe pod web -l app=web"),
        (
            "--field-selector: field label not supported: spec.color (nodes have metadata.name",
            "get no --field-selector=spec.color=red",
        ),
        ("--field-selector: field label not supported: a (images have none)", "get images --field-selector=a=b"),
        ("--for selects events: pods are not about other objects", "get pods --for=pod/web"),
        ("--for must be in resource/name form", "get events --for=web"),
        ("--for must be in resource/name form", "get events --for=pod/"),
        ("--show-labels option cannot be used with json printer", "get pods --show-labels -o json"),
        (
            "--show-labels option cannot be used with custom-columns printer",
            "get pods --show-labels -o custom-columns=A:.a",
        ),
        ("custom-columns format specified but no custom columns given", "get pods -o custom-columns"),
        ("custom-columns: unexpected custom-columns spec: A,", "get pods -o custom-columns=A"),
        ("invalid value for --sort-by: unexpected path string", "get pods --sort-by={.a"),
        ("you may only specify a single resource type to watch", "get pods,nodes -w"),
    ],
)
def test_what_cannot_be_selected_or_printed_is_invalid_usage(
    why: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main([*line.split(), "--socket=/none"])
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("--sort-by=.a.b: couldn't find any field with this path in the list of objects", "--sort-by=.a.b"),
        ("--sort-by=spec: unsortable type: dict", "--sort-by=spec"),
        (
            "custom-columns: array index out of bounds: index 7, length 1",
            "-o=custom-columns=A:.spec.containers[7].name",
        ),
    ],
)
async def test_paths_that_do_not_fit_the_things_are_errors(
    why: str, options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (1, "", f"error: {why}\n") == await say(two_pods(), tmp_path, capsys, "get", "pods", *options.split())


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["NAME", "web-n1", "web-n1"], "pods -l app=web -o custom-columns=NAME:.metadata.name"),
        (["web-n1 web", "web-n1 web"], "pods --field-selector=metadata.name=web-n1 --no-headers -L app"),
        (["web-n1 web", "web-n1 web"], "pods web-n1 --no-headers -L app"),
        (["pod/web-n1", "pod/web-n1"], "pods --field-selector=metadata.name=web-n1 -o name"),
    ],
)
async def test_watch_prints_the_changes_of_what_is_selected(
    lines: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    view = two_pods()
    async with served(view, tmp_path) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(get_in_trio, *words.split(), "-w", f"--socket={agent.socket_path}")
        await trio.sleep(5)
        view.shown = [restarted(one, 20) for one in view.shown]
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [" ".join([line[0], *line[5:]]) for line in shown]


def test_watch_says_that_changes_are_not_sorted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["get", "pods", "-w", "--sort-by=metadata.name", f"--socket={tmp_path}/none"])
    told = "warning: --watch requested, --sort-by will be ignored for watch events received\n"
    assert capsys.readouterr().err.startswith(told)
