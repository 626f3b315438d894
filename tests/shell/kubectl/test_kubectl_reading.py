"""Lists, tables and watches (server/kubectl/reading.py and spelling.py), of the resources of a real node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from shell.kubectl.kubectlkit import TABLE, Bench, names
from shell.localkit import FakeView, event, pod
from trikubelet.app.kubectl_resources import resources
from trikubelet.model import k8s
from trikubelet.server.kubectl.history import CHANGES_KEPT_MAX

PODS = "/api/v1/namespaces/default/pods"


def ended(one: k8s.Pod) -> k8s.Pod:
    """The pod once it has ended."""
    assert one.status is not None
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, phase="Succeeded"))


def labelled(one: k8s.Pod, **labels: str) -> k8s.Pod:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, labels=labels))


@pytest.fixture
def bench() -> Bench:
    pods = [labelled(pod(), app="web"), pod("dns-n1", "kube-system"), ended(pod("job-n1"))]
    return Bench(FakeView(pods, [event(pods[0], "Started", "it began"), event(pods[1], "Pulled", "it came")]))


async def test_objects_are_as_the_node_has_them_with_kind_and_version(bench: Bench) -> None:
    listed = await bench.told("/api/v1/pods")
    assert ("PodList", "v1") == (listed["kind"], listed["apiVersion"])
    assert ["job-n1", "web-n1", "dns-n1"] == names(listed)
    one = await bench.told(f"{PODS}/web-n1")
    assert ("Pod", "v1", "10.0.0.7") == (one["kind"], one["apiVersion"], one["status"]["podIP"])
    assert 0 < int(one["metadata"]["resourceVersion"]) <= int(listed["metadata"]["resourceVersion"])
    assert (404, "NotFound", 'pods "dns-n1" not found') == await bench.refused(f"{PODS}/dns-n1")


@pytest.mark.parametrize(
    ("found", "path", "query"),
    [
        (["job-n1", "web-n1"], PODS, {}),
        (["web-n1"], PODS, {"labelSelector": "app=web"}),
        (["job-n1"], PODS, {"labelSelector": "!app"}),
        (["web-n1"], PODS, {"fieldSelector": "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"}),
        (["dns-n1"], "/api/v1/pods", {"fieldSelector": "metadata.namespace=kube-system"}),
        ([], PODS, {"fieldSelector": "spec.hostNetwork=true"}),
        (["n1"], "/api/v1/nodes", {"fieldSelector": "metadata.name=n1,spec.unschedulable=false"}),
        (["kube-system"], "/api/v1/namespaces", {"fieldSelector": "metadata.name=kube-system"}),
        (["e"], "/api/v1/events", {"fieldSelector": "involvedObject.name=web-n1,involvedObject.uid=uid-web-n1"}),
        (["e"], "/api/v1/namespaces/kube-system/events", {"fieldSelector": "involvedObject.kind=Pod,type=Normal"}),
    ],
)
async def test_what_is_selected_is_listed(bench: Bench, found: list[str], path: str, query: dict[str, str]) -> None:
    assert found == names(await bench.told(path, **query))


async def test_every_field_can_be_asked_of_everything(bench: Bench) -> None:
    for resource in resources(bench.view, bench.agent):
        path = f"/api/v1/{resource.name}"
        everything = names(await bench.told(path))
        for field in resource.fields:
            assert everything == names(await bench.told(path, fieldSelector=f"{field}!=something else")), field


@pytest.mark.parametrize(
    ("why", "query"),
    [
        ("field label not supported: spec.color", {"fieldSelector": "spec.color=red"}),
        ("no label selector", {"labelSelector": "a in b"}),
        ("watch=maybe", {"watch": "maybe"}),
        ("resourceVersion=new", {"watch": "1", "resourceVersion": "new"}),
        ("timeoutSeconds=-1", {"watch": "1", "timeoutSeconds": "-1"}),
    ],
)
async def test_what_cannot_be_understood_is_named(bench: Bench, why: str, query: dict[str, str]) -> None:
    code, reason, told = await bench.refused(PODS, **query)
    assert (400, "BadRequest") == (code, reason)
    assert why in told


async def test_a_table_has_the_columns_of_the_command_line_and_what_rows_are_about(bench: Bench) -> None:
    table = await bench.told(PODS, TABLE)

    assert ("Table", "meta.k8s.io/v1") == (table["kind"], table["apiVersion"])
    usual = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert usual == [one["name"] for one in table["columnDefinitions"] if not one["priority"]]
    assert ["web-n1", "1/1", "Running", "0", "5m", "10.0.0.7", "n1", "<none>", "<none>"] == table["rows"][1]["cells"]
    about = table["rows"][1]["object"]
    assert ("PartialObjectMetadata", "default") == (about["kind"], about["metadata"]["namespace"])
    assert "spec" not in about


@pytest.mark.parametrize(("include", "kind"), [("Object", "Pod"), ("None", None)])
async def test_a_row_carries_what_it_is_asked_to(bench: Bench, include: str, kind: str | None) -> None:
    table = await bench.told(f"{PODS}/web-n1", TABLE, includeObject=include)
    [row] = table["rows"]
    assert kind == (row["object"] and row["object"]["kind"])


@pytest.mark.parametrize("name", ["pods", "events", "nodes", "namespaces"])
async def test_every_resource_has_a_cell_for_every_column(bench: Bench, name: str) -> None:
    table = await bench.told(f"/api/v1/{name}", TABLE)

    assert table["rows"]
    assert {len(table["columnDefinitions"])} == {len(row["cells"]) for row in table["rows"]}


async def watched(bench: Bench, told: list[Any], accept: str = "application/json", **query: str) -> None:
    """Add what a watch says to ``told``."""
    async for line in bench.watch(PODS, accept, **query):
        told.append(line)  # noqa: PERF401 - as they come: the watch may be ended in the middle


def seen(told: list[Any]) -> list[tuple[str, str]]:
    return [(line["type"], line["object"]["metadata"]["name"]) for line in told]


async def test_a_watch_goes_on_where_the_list_ended(bench: Bench, autojump_clock) -> None:
    listed = await bench.told(PODS)
    bench.view.shown = [*bench.view.shown, pod("between-n1")]
    told: list[Any] = []
    async with trio.open_nursery() as nursery:
        version = listed["metadata"]["resourceVersion"]
        nursery.start_soon(lambda: watched(bench, told, resourceVersion=version))
        await trio.sleep(5)
        bench.view.shown = [*map(ended, bench.view.shown[:1]), *bench.view.shown[1:]]
        await trio.sleep(5)
        bench.view.shown = bench.view.shown[1:]
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    assert [("ADDED", "between-n1"), ("MODIFIED", "web-n1"), ("DELETED", "web-n1")] == seen(told)
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in told]
    assert sorted(set(versions)) == versions


async def test_a_watch_from_nowhere_begins_with_all_there_is(bench: Bench, autojump_clock) -> None:
    told: list[Any] = []
    await watched(bench, told, timeoutSeconds="3", resourceVersion="0")
    assert [("ADDED", "job-n1"), ("ADDED", "web-n1")] == seen(told)


async def test_a_selection_sees_what_begins_and_ceases_to_fit(bench: Bench, autojump_clock) -> None:
    told: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: watched(bench, told, fieldSelector="status.phase=Succeeded"))
        await trio.sleep(5)
        bench.view.shown = [ended(bench.view.shown[0]), *bench.view.shown[1:2], pod("job-n1")]
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    assert ("ADDED", "job-n1") == seen(told)[0]
    assert {("ADDED", "web-n1"), ("DELETED", "job-n1")} == set(seen(told)[1:])


async def test_a_watch_of_tables_tells_rows(bench: Bench, autojump_clock) -> None:
    told: list[Any] = []
    await watched(bench, told, TABLE, timeoutSeconds="1")
    assert ["job-n1", "web-n1"] == [row["cells"][0] for line in told for row in line["object"]["rows"]]


async def test_a_version_of_an_earlier_life_is_gone_and_so_is_one_of_the_future(bench: Bench) -> None:
    now = int((await bench.told(PODS))["metadata"]["resourceVersion"])
    for version in (1, now + 1):
        code, reason, told = await bench.refused(PODS, watch="1", resourceVersion=str(version))
        assert (410, "Expired") == (code, reason)
        assert f"too old resource version: {version}" in told


async def test_a_watch_that_falls_behind_is_told_to_list_again(bench: Bench, autojump_clock) -> None:
    told: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: watched(bench, told))
        await trio.sleep(5)
        bench.view.shown = [pod(f"p{number}") for number in range(CHANGES_KEPT_MAX + 1)]  # within one look
        await trio.sleep(5)
        assert ("ERROR", 410) == (told[-1]["type"], told[-1]["object"]["code"])
        nursery.cancel_scope.cancel()


async def test_a_list_cannot_be_streamed(bench: Bench) -> None:
    code, reason, _ = await bench.refused(PODS, watch="1", sendInitialEvents="true")
    assert (422, "Invalid") == (code, reason)
