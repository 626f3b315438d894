"""Who may ask, what there is, what is below a pod, and that nothing is written (server/kubectl/api.py)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from shell.kubectl.kubectlkit import Bench, names
from shell.localkit import FakeView, pod
from trikubelet.httpd.messages import Request, Upgrade
from trikubelet.model import k8s
from trikubelet.model.standard_streams import StandardStreams

if TYPE_CHECKING:
    from pathlib import Path

POD = "/api/v1/namespaces/default/pods/web-n1"


@pytest.fixture
def bench() -> Bench:
    return Bench(FakeView([pod(), pod("dns-n1", "kube-system")]))


@pytest.mark.parametrize("token", ["", "Secret", "secret2", "secre\xe9"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/v1/pods"), ("GET", "/version"), ("POST", f"{POD}/exec")])
async def test_requests_without_the_token_get_no_data(bench: Bench, token: str, method: str, path: str) -> None:
    assert (401, "Unauthorized", "Unauthorized") == await bench.refused(path, method, token)


async def test_discovery_names_every_resource_and_each_can_be_asked_for(bench: Bench) -> None:
    assert ["v1"] == (await bench.told("/api"))["versions"]
    assert [] == (await bench.told("/apis"))["groups"]
    version = await bench.told("/version")
    assert ("1", "36", "v1.36.3+trikubelet.1") == (version["major"], version["minor"], version["gitVersion"])

    found = {one["name"]: one for one in (await bench.told("/api/v1"))["resources"]}
    parts = {"pods/log", "pods/exec", "pods/attach", "pods/portforward"}
    assert {"pods", "events", "nodes", "namespaces"} | parts == set(found)
    for name in found.keys() - parts:
        assert f"{found[name]['kind']}List" == (await bench.told(f"/api/v1/{name}"))["kind"]
        assert ["get", "list", "watch"] == found[name]["verbs"]


async def test_openapi_says_of_each_resource_that_the_server_looks_at_fields(bench: Bench) -> None:
    index = await bench.told("/openapi/v3")
    document = await bench.told(index["paths"]["api/v1"]["serverRelativeURL"])

    patches = [path["patch"] for path in document["paths"].values()]
    kinds = {patch["x-kubernetes-group-version-kind"]["kind"] for patch in patches}
    assert {"Pod", "Event", "Node", "Namespace"} == kinds
    assert {"fieldValidation"} == {one["name"] for patch in patches for one in patch["parameters"]}


async def test_openapi_has_the_fields_of_each_kind_for_kubectl_explain(bench: Bench) -> None:
    """By the fields of the document that its template reads (k8s.io/kubectl/pkg/explain/v2)."""
    index = await bench.told("/openapi/v3")
    schemas = (await bench.told(index["paths"]["api/v1"]["serverRelativeURL"]))["components"]["schemas"]
    kinds = {kind["kind"]: one for one in schemas.values() for kind in one.get("x-kubernetes-group-version-kind", ())}

    def field(*path: str) -> dict[str, Any]:
        found = kinds["Pod"]
        for name in path:
            found = found["properties"][name]
            found = found.get("items") or found.get("additionalProperties") or found
            found = schemas[found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        return found

    assert {"Pod", "Event", "Node", "Namespace"} == set(kinds)
    assert {"type": "integer"} == field("spec", "containers", "ports", "containerPort")
    assert ["name"] == field("spec", "containers")["required"]
    assert {"type": "string"} == field("spec", "containers", "resources", "limits")
    assert {"type": "boolean"} == field("spec", "hostNetwork")
    refs = json.dumps(schemas).split("#/components/schemas/")[1:]
    assert {ref.partition('"')[0] for ref in refs} <= set(schemas)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_it_says_that_it_is_well(bench: Bench, path: str) -> None:
    assert b"ok\n" == (await bench.ask(path)).body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v2/pods",
        "/api/v1/secrets",
        "/api/v1/pods/web-n1",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/n1",
        "/api/v1/nodes/n1/log",
        f"{POD}/binding",
        f"{POD}/log/more",
        "/apis/apps/v1/deployments",
    ],
)
async def test_what_is_not_there_is_not_found(bench: Bench, path: str) -> None:
    assert (404, "NotFound", "the server could not find the requested resource") == await bench.refused(path)


@pytest.mark.parametrize(
    ("of", "method", "path"),
    [
        ("pods/default/web-n1", "DELETE", POD),
        ("pods/default/web-n1", "PATCH", POD),
        ("pods/default/web-n1", "PUT", f"{POD}/status"),
        ("pods/default/web-n1", "POST", f"{POD}/eviction"),
        ("pods/default/", "POST", "/api/v1/namespaces/default/pods"),
        ("nodes//n1", "PATCH", "/api/v1/nodes/n1"),
        ("//", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("pods/default/web-n1", "POST", f"{POD}/log"),
        ("pods/default/web-n1", "HEAD", f"{POD}/exec"),
    ],
)
async def test_write_is_answered_with_the_remedy(bench: Bench, of: str, method: str, path: str) -> None:
    assert (405, "MethodNotAllowed", f"edit the file of {of}") == await bench.refused(path, method)


async def test_namespaces_are_those_in_which_something_is(bench: Bench) -> None:
    assert ["default", "kube-system"] == names(await bench.told("/api/v1/namespaces"))
    assert "Active" == (await bench.told("/api/v1/namespaces/kube-system"))["status"]["phase"]
    assert (404, "NotFound", 'namespaces "other" not found') == await bench.refused("/api/v1/namespaces/other")


async def test_a_log_is_the_containers_or_a_status_that_says_why_not(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("2026-11-21T11:58:00.000000000Z stdout F hello\n")
    bench.view.logs["default", "web-n1", "app", False] = str(path)

    assert 200 == (await bench.ask(f"{POD}/log", method="HEAD")).status
    answer = await bench.ask(f"{POD}/log", tailLines="1")
    assert not isinstance(answer.body, bytes)
    assert b"hello\n" == b"".join([chunk async for chunk in answer.body])

    assert (400, "BadRequest", 'previous terminated container "app" in pod "web-n1" not found') == await bench.refused(
        f"{POD}/log", previous="true"
    )
    told = 'container "none" not found in pod "web-n1"'
    assert (404, "NotFound", told) == await bench.refused(f"{POD}/log", container="none")


async def test_a_container_must_be_named_where_there_are_several() -> None:
    two = (k8s.Container(name="a"), k8s.Container(name="b"))
    first, later = (k8s.Container(name="first"),), (k8s.EphemeralContainer(name="later"),)
    bench = Bench(FakeView([pod(containers=two, init_containers=first, ephemeral_containers=later)]))

    told = "a container name must be specified for pod web-n1, choose one of: [first a b later]"
    assert (400, "BadRequest", told) == await bench.refused(f"{POD}/log")
    missing = "/api/v1/namespaces/default/pods/none/log"
    assert (404, "NotFound", 'pods "none" not found') == await bench.refused(missing)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("asked", "way", "query"),
    [
        (("exec", "app", ["a", "b c"], StandardStreams(True, True, False, True)), "exec", {"tty": "true"}),
        (("exec", "app", ["a", "b c"], StandardStreams(True, True, False, False)), "exec", {"container": "app"}),
        (("attach", "app", StandardStreams(True, True, False, False)), "attach", {"tty": "1"}),
        (("forward", "sandbox", []), "portforward", {}),
    ],
)
async def test_streams_are_the_nodes_own(
    bench: Bench, asked: tuple[object, ...], way: str, query: dict[str, str], method: str
) -> None:
    headers = {"authorization": "Bearer secret", "connection": "Upgrade", "upgrade": "SPDY/3.1"}
    wanted = {"stdin": "true", "stdout": "true", "stderr": "false", **query}
    request = Request(method, f"{POD}/{way}", wanted, headers, repeated={"command": ("a", "b c")})

    assert isinstance(await bench.api.answer(request), Upgrade)
    assert [asked] == bench.runtime.asked


@pytest.mark.parametrize("way", ["exec", "attach", "portforward"])
async def test_a_stream_that_cannot_be_is_refused_by_a_status(bench: Bench, way: str) -> None:
    told = (400, "BadRequest", "Upgrade request required")
    assert told == await bench.refused(f"{POD}/{way}", "POST", container="app", stdout="true")


async def test_a_boolean_that_is_none_is_refused(bench: Bench) -> None:
    code, _, told = await bench.refused(f"{POD}/exec", container="app", stdin="perhaps")
    assert (400, "stdin=perhaps: write true or false") == (code, told)


WORDS = st.sampled_from(
    ["api", "v1", "namespaces", "default", "pods", "web-n1", "nodes", "events", "log", "exec", "", "%"]
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["watch", "resourceVersion", "timeoutSeconds", "labelSelector", "fieldSelector", "container", "tty"]
    ),
    st.sampled_from(["", "0", "1", "true", "a=b", "metadata.name=a", "99999999999999999999", "\udc80", "-1", "!"]),
)


@given(st.sampled_from(["GET", "HEAD", "POST", "DELETE", "BREW"]), st.lists(WORDS, max_size=8), QUERIES)
def test_whatever_is_asked_is_answered(method: str, words: list[str], query: dict[str, str]) -> None:
    async def ask() -> None:
        answer = await Bench(FakeView([pod()])).ask("/".join(["", *words]), method=method, **query)
        assert answer.status in (200, 400, 404, 405, 410)

    trio.run(ask)
