"""How an API server was asked: by host, method and code, and for each pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.kube.apikit import access_to, asking, serving
from shell.memberkit import Bench, until
from trikubelet.httpd.messages import Request, Response
from trikubelet.kube import figures
from trikubelet.kube.figures import ApiFigures
from trikubelet.model.api import PODS as POD_OBJECTS
from trikubelet.model.api import PatchKind
from trikubelet.model.api_errors import ApiUnreachable

if TYPE_CHECKING:
    from trio.testing import MockClock

TEXT = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"u","resourceVersion":"7"}}'
PODS = "/api/v1/namespaces/default/pods"


def test_a_pods_requests_are_counted_when_it_is_gone() -> None:
    asked = ApiFigures()
    asked.there("default", "web")
    for method, path in (
        ("PATCH", f"{PODS}/web/status"),
        ("PATCH", f"{PODS}/web/status"),
        ("DELETE", f"{PODS}/web"),
        ("PATCH", f"{PODS}/other/status"),
        ("GET", f"{PODS}?limit=500"),
        ("GET", "/api/v1/nodes/n"),
    ):
        asked.asked(method, path)
    asked.there("default", "web")  # as with each of its changes
    assert {} == asked.of_pods

    asked.over("default", "web")
    asked.over("default", "never-heard-of")
    asked.over("default", "web")

    assert {"GET": 0.0, "PATCH": 2.0, "DELETE": 1.0} == {verb: spread.sum for verb, spread in asked.of_pods.items()}
    assert {1} == {spread.count for spread in asked.of_pods.values()}


def test_nothing_is_kept_of_a_pod_that_is_asked_about_before_it_is_there_or_after_it_is_over() -> None:
    asked = ApiFigures()
    asked.asked("GET", f"{PODS}/web")
    asked.there("default", "web")
    asked.over("default", "web")
    asked.asked("DELETE", f"{PODS}/web")

    assert {"GET": 0.0, "PATCH": 0.0, "DELETE": 0.0} == {verb: spread.sum for verb, spread in asked.of_pods.items()}
    assert "<ApiFigures: 0 answers, 0 pods>" == repr(asked)


def test_answers_are_told_apart_by_code_method_and_host() -> None:
    asked = ApiFigures()
    asked.answered("a", "GET", "200", 0.02, 0)
    asked.answered("a", "GET", figures.FAILED, 3.0, 0)
    asked.answered("b", "POST", "201", 0.5, 100)

    assert {("200", "GET", "a"): 1, ("<error>", "GET", "a"): 1, ("201", "POST", "b"): 1} == asked.answers
    assert 3.02 == asked.durations["GET", "a"].sum
    assert 100 == asked.sent["POST", "b"].sum


async def test_a_client_counts_what_it_asked_with_what_came_of_it() -> None:
    busy = iter([Response(429, {"retry-after": "0"}, b"{}"), Response(200, {}, TEXT)])

    async def answer(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return next(busy)

    async with serving(None, answer) as server, asking(access_to(server.url)) as client:
        await client.patch(POD_OBJECTS, "web", {"a": "b"}, "default", kind=PatchKind.MERGE, subresource="status")
    host = server.url.removeprefix("http://")

    assert {("429", "PATCH", host): 1, ("200", "PATCH", host): 1} == client.figures.answers
    assert {("429", "PATCH", host): 1} == client.figures.retries
    assert 2 * len(b'{"a":"b"}') == client.figures.sent["PATCH", host].sum
    assert len(TEXT) == client.figures.received["PATCH", host].sum


async def test_unanswered_request_is_counted_as_an_error() -> None:
    async with asking(access_to("http://127.0.0.1:1")) as client:
        with pytest.raises(ApiUnreachable):
            await client.get(POD_OBJECTS, "web", "default")

    assert {("<error>", "GET", "127.0.0.1:1"): 1} == client.figures.answers


async def test_a_request_is_its_pods_although_the_pod_is_over_when_the_answer_comes() -> None:
    async def answer(_: Request) -> Response:
        await trio.lowlevel.checkpoint()
        client.figures.over("default", "web")
        return Response(200, {}, TEXT)

    async with serving(None, answer) as server, asking(access_to(server.url)) as client:
        client.figures.there("default", "web")
        await client.delete(POD_OBJECTS, "web", "default")

    assert 1 == client.figures.of_pods["DELETE"].sum
    assert "<ApiFigures: 1 answers, 0 pods>" == repr(client.figures)


async def test_a_pod_that_its_cluster_has_no_more_is_over(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent() as (_, member):
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        bench.clients.figures.asked("PATCH", f"{PODS}/web/status")
        bench.server.delete(POD_OBJECTS, "web", "default")
        await until(lambda: ("default", "web") not in member.pods.objects)

    assert 1 == bench.clients.figures.of_pods["PATCH"].sum
