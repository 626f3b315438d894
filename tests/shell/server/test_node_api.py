"""The node's API over real TLS: every route for every kind of caller in both modes, and what each route says.

``EXPECTED`` is the table of rights once more, by hand: what is open to whom is not to follow from the code alone.
"""

from __future__ import annotations

import itertools
import os
import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import httpx
import msgspec
import pytest
import trio
import trustme

from shell.localkit import pod
from shell.nodeapikit import SYSTEM_CLOCK, Bench, rules
from trikubelet.core.node_access import PLACES, Place, subresources, verb
from trikubelet.httpd.messages import Request, Response
from trikubelet.httpd.request_head import NotServed, request_of
from trikubelet.model import k8s
from trikubelet.model.api_errors import ApiFailure
from trikubelet.model.callers import Caller
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.model.usage import Depth
from trikubelet.server.authorization import Authorizer
from trikubelet.server.node_api import DEBUGGING, Gate
from trikubelet.server.routes import table
from trikubelet.testing.memory_api import Fail, Hang

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.server.node_api import NodeApi
    from trikubelet.server.routes import Route

EXPECTED = {
    "/healthz": ("healthz", "proxy"),
    "/healthz/{check}": ("healthz", "proxy"),
    "/pods": ("pods", "proxy"),
    "/metrics": ("metrics",),
    "/metrics/probes": ("metrics",),
    "/metrics/slis": ("metrics",),
    "/metrics/resource": ("metrics",),
    "/metrics/cadvisor": ("metrics",),
    "/stats/summary": ("stats",),
    "/runningpods": ("pods", "proxy"),
    "/configz": ("configz", "proxy"),
    "/containerLogs/{namespace}/{pod}/{container}": ("proxy",),
    "/statusz": ("statusz",),
    "/flagz": ("configz",),
    "/debug/pprof": ("proxy",),
    "/debug/pprof/{name}": ("proxy",),
    "/logs": ("log",),
    "/logs/{path...}": ("log",),
}
STREAMS = {
    "/exec/{namespace}/{pod}/{container}": ("GET", "POST"),
    "/exec/{namespace}/{pod}/{uid}/{container}": ("GET", "POST"),
    "/attach/{namespace}/{pod}/{container}": ("GET", "POST"),
    "/attach/{namespace}/{pod}/{uid}/{container}": ("GET", "POST"),
    "/portForward/{namespace}/{pod}": ("GET", "POST"),
    "/portForward/{namespace}/{pod}/{uid}": ("GET", "POST"),
    "/run/{namespace}/{pod}/{container}": ("POST",),
    "/run/{namespace}/{pod}/{uid}/{container}": ("POST",),
}
"""The routes that act: by their methods, and by the right to create ``proxy``."""
RIGHTS = ("proxy", "stats", "log", "metrics", "checkpoint", "statusz", "pods", "healthz", "configz")
REAL = {"{check}": "ping", "{namespace}": "default", "{pod}": "web-n1", "{container}": "app", "{uid}": "uid-1"}
REAL |= {"{name}": "goroutine", "{path...}": "pods/0.log"}
CHECKPOINT = "/checkpoint/{namespace}/{pod}/{container}"
VERBOSITY = "/debug/flags/v"
NOT_ROUTED = (
    "/",
    "/nothing",
    "/stats/container",
)


def real(path: str) -> str:
    for name, word in REAL.items():
        path = path.replace(name, word)
    return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    log = tmp_path / "pods/0.log"
    log.parent.mkdir()
    log.write_text("2026-11-21T11:58:00Z stdout F one\n2026-11-21T11:59:50Z stderr F two\n")
    made = Bench(tmp_path)
    made.view.shown = [pod()]
    made.view.logs = {("default", "web-n1", "app", False): str(log)}
    return made


async def status(client: httpx.AsyncClient, path: str, method: str = "GET") -> int:
    return (await client.request(method, path)).status_code


# ---- who may ask ----


def test_the_table_of_routes_is_the_one_expected(bench: Bench) -> None:
    wanted = {path: (rights, ("GET",)) for path, rights in EXPECTED.items()}
    wanted |= {path: (("proxy",), methods) for path, methods in STREAMS.items()}
    plain = [path for path in EXPECTED if path.startswith(("/healthz", "/metrics", "/configz"))]  # no go-restful there
    wanted |= {path: (EXPECTED[path], ("GET", "HEAD")) for path in plain}
    wanted["/stats/summary"] = (("stats",), ("GET", "POST"))
    wanted |= dict.fromkeys(("/logs", "/logs/{path...}"), (("log",), ("GET", "POST")))
    wanted[CHECKPOINT] = (("checkpoint",), ("POST",))
    wanted[VERBOSITY] = (("proxy",), ("PUT",))
    assert wanted == {route.path: (route.rights, route.methods) for route in bench.node_api(rules()).routes}


def test_a_path_without_a_handler_and_a_handler_without_a_path_are_found_before_anything_is_served() -> None:
    handlers = dict.fromkeys((place.path for place in PLACES), answered)

    assert [place.path for place in PLACES] == [route.path for route in table(handlers)]
    assert len(PLACES) - 1 == len(table(handlers | {CHECKPOINT: None}))
    with pytest.raises(AssertionError, match="/pods"):
        table({path: answer for path, answer in handlers.items() if path != "/pods"})
    with pytest.raises(AssertionError, match="/new"):
        table(handlers | {"/new": answered})


async def answered(*_: object) -> Response:
    await trio.lowlevel.checkpoint()
    return Response()


class OneRight:
    """An API server that gives each caller one right, by which they are called."""

    async def allows(self, caller: Caller, action: str, subresource: str) -> bool:
        await trio.lowlevel.checkpoint()
        return caller.name == f"{action} {subresource}"

    async def caller(self, request: Request) -> Caller:
        await trio.lowlevel.checkpoint()
        return Caller(request.headers["name"])


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.path)
async def test_each_row_opens_to_one_verb_on_one_of_its_subresources_and_to_nothing_else(
    bench: Bench, place: Place
) -> None:
    api, server = bench.node_api(rules()), OneRight()
    api.routes = table(dict.fromkeys((one.path for one in PLACES), answered))  # type: ignore[misc]
    gate = Gate(api, server, Authorizer(rules().authorization, server))  # type: ignore[arg-type]
    verbs = {"GET": "create" if place.path in STREAMS else "get", "POST": "create", "PUT": "update", "HEAD": ""}
    opened = set()
    for method, action, right in itertools.product(verbs, ("", "get", "create", "update", "delete"), RIGHTS):
        request = Request(method, real(place.path), headers={"name": f"{action} {right}"})
        if (told := (await gate.answer(request)).status) != HTTPStatus.FORBIDDEN:
            opened.add((method, action, right, told))

    assert opened == {
        (method, verbs[method], right, HTTPStatus.OK if method in place.methods else HTTPStatus.METHOD_NOT_ALLOWED)
        for method, right in itertools.product(verbs, place.rights)
    }


async def test_each_route_wants_one_of_its_rights_and_no_other_one_helps(bench: Bench) -> None:
    async with bench.serving(rules()):
        for right in RIGHTS:
            bench.allow(f"has-{right}", right)
            by_certificate = bench.client(user=f"has-{right}")
            by_token = bench.client(token=bench.token(f"has-{right}"))
            async with by_certificate, by_token:
                for (path, rights), client in itertools.product(EXPECTED.items(), (by_certificate, by_token)):
                    wanted = HTTPStatus.OK if right in rights else HTTPStatus.FORBIDDEN
                    assert (right, path, wanted) == (right, path, await status(client, real(path)))


async def test_right_to_read_does_not_allow_acting_by_any_method(bench: Bench) -> None:
    for right in RIGHTS:
        bench.allow(f"reads-{right}", right)
        bench.allow(f"acts-{right}", right, verb="create")
    async with bench.serving(rules()):
        for right in RIGHTS:
            async with bench.client(user=f"reads-{right}") as reads, bench.client(user=f"acts-{right}") as acts:
                assert (right, right != "checkpoint") == (
                    right,
                    HTTPStatus.FORBIDDEN == await status(acts, real(CHECKPOINT), "POST"),
                )
                assert HTTPStatus.FORBIDDEN == await status(reads, real(CHECKPOINT), "POST")
                for path, method in itertools.product(STREAMS, ("GET", "POST")):
                    assert HTTPStatus.FORBIDDEN == await status(reads, real(path), method)
                    refused = HTTPStatus.FORBIDDEN == await status(acts, real(path), method)
                    assert (right, path, right != "proxy") == (right, path, refused)


async def test_verbosity_needs_the_right_to_update(bench: Bench) -> None:
    for right in ("get", "create", "update"):
        bench.allow(f"may-{right}", "proxy", verb=right)
    async with bench.serving(rules()):
        for right, wanted in (("get", 403), ("create", 403), ("update", 200)):
            async with bench.client(user=f"may-{right}") as client:
                told = await client.put(VERBOSITY, content=b"0")
                assert (right, wanted) == (right, told.status_code)


@pytest.mark.parametrize("mode", ["Webhook", "AlwaysAllow"])
@pytest.mark.parametrize("path", [*EXPECTED, *STREAMS, CHECKPOINT, VERBOSITY, *NOT_ROUTED])
async def test_unauthenticated_clients_get_no_data(bench: Bench, path: str, mode: str) -> None:
    bench.authority_path.write_bytes(bench.authority.cert_pem.bytes())
    expired = bench.authority.issue_cert(
        "client.test",
        common_name="late",
        not_before=datetime(2020, 1, 1, tzinfo=UTC),
        not_after=datetime(2021, 1, 1, tzinfo=UTC),
    )
    async with bench.serving(rules(mode)):
        for client in (bench.client(), bench.client(token="made-up"), bench.client(token="x" * 70_000)):
            async with client:
                told = await client.get(real(path))
                assert (HTTPStatus.UNAUTHORIZED, "Unauthorized") == (told.status_code, told.text)
        strangers = [bench.client(user="admin", groups="system:masters", of=trustme.CA())]
        strangers.append(httpx.AsyncClient(base_url=f"https://127.0.0.1:{bench.port}", verify=bench.trust(expired)))
        for client in strangers:
            async with client:
                with pytest.raises(httpx.TransportError):
                    await client.get(real(path))
    # Only the token that could be one was asked about, and nobody's rights.
    assert ["create /apis/authentication.k8s.io/v1/tokenreviews"] == list(bench.api.requests)


@pytest.mark.parametrize("path", EXPECTED)
async def test_where_everything_is_allowed_one_must_only_be_known(bench: Bench, path: str) -> None:
    async with (
        bench.serving(rules("AlwaysAllow")),
        bench.client(user="anybody") as client,
        bench.client(token=bench.token("anybody")) as other,
    ):
        assert [HTTPStatus.OK] * 2 == [await status(one, real(path)) for one in (client, other)]


@pytest.mark.parametrize("mode", ["Webhook", "AlwaysAllow"])
async def test_anonymous_clients_have_their_own_rights_and_invalid_credentials_are_not_anonymous(
    bench: Bench, mode: str
) -> None:
    bench.allow("system:anonymous", "healthz")
    wanted = {"/healthz": HTTPStatus.OK, "/pods": HTTPStatus.FORBIDDEN if mode == "Webhook" else HTTPStatus.OK}
    async with (
        bench.serving(rules(mode, anonymous=True)),
        bench.client() as nobody,
        bench.client(token="made-up") as liar,
    ):
        assert wanted == {path: await status(nobody, path) for path in wanted}
        assert {HTTPStatus.UNAUTHORIZED} == {await status(liar, path) for path in wanted}


async def test_only_authorized_clients_learn_that_a_path_does_not_exist(bench: Bench) -> None:
    bench.allow("all", *RIGHTS)
    async with bench.serving(rules()), bench.client(user="all") as may, bench.client(user="none") as may_not:
        for path in NOT_ROUTED:
            assert (path, HTTPStatus.NOT_FOUND) == (path, await status(may, path))
            assert (path, HTTPStatus.FORBIDDEN) == (path, await status(may_not, path))


async def test_refusal_names_user_and_request(bench: Bench) -> None:
    async with bench.serving(rules()), bench.client(user="jane", groups="dev") as client:
        told = await client.post("/pods")

    assert "Forbidden (user=jane, verb=create, resource=nodes, subresource(s)=[pods proxy])" == told.text


async def test_the_right_to_read_is_not_the_right_to_write_and_no_route_is_written_to(bench: Bench) -> None:
    bench.allow("reader", "pods")
    bench.allow("writer", "pods", verb="create")
    async with bench.serving(rules()), bench.client(user="reader") as reader, bench.client(user="writer") as writer:
        assert HTTPStatus.FORBIDDEN == await status(reader, "/pods", "POST")
        assert HTTPStatus.METHOD_NOT_ALLOWED == await status(writer, "/pods", "POST")
        assert HTTPStatus.FORBIDDEN == await status(reader, "/pods", "HEAD")
        assert HTTPStatus.FORBIDDEN == await status(writer, "/pods")


async def test_head_is_answered_where_upstream_answers_it(bench: Bench) -> None:
    wanted = dict.fromkeys(EXPECTED, HTTPStatus.METHOD_NOT_ALLOWED)
    wanted |= {path: HTTPStatus.OK for path in EXPECTED if path.startswith(("/healthz", "/metrics", "/configz"))}
    async with bench.serving(rules("AlwaysAllow")), bench.client(user="anybody") as client:
        told = {path: await client.head(real(path)) for path in EXPECTED}

    assert wanted == {path: answer.status_code for path, answer in told.items()}
    assert {b""} == {answer.content for answer in told.values()}
    assert int(told["/metrics"].headers["content-length"]) > 0


async def test_an_organization_is_a_group_and_extras_reach_the_authorizer(bench: Bench) -> None:
    seen: list[dict[str, object]] = []
    bench.cluster.reviewers["subjectaccessreviews"] = lambda spec: seen.append(spec) or {"allowed": True}
    bench.cluster.tokens["t"] = {"username": "ann", "uid": "7", "groups": ["g"], "extra": {"scopes": ["a", "b"]}}
    async with (
        bench.serving(rules()),
        bench.client(user="joe", groups="ops") as by_certificate,
        bench.client(token="t") as by_token,
    ):
        assert [HTTPStatus.OK] * 2 == [await status(one, "/metrics") for one in (by_certificate, by_token)]

    wanted = {"resource": "nodes", "subresource": "metrics", "verb": "get", "name": "n1", "version": "v1"}
    assert [
        {"user": "joe", "groups": ["ops", "system:authenticated"], "resourceAttributes": wanted},
        {
            "user": "ann",
            "uid": "7",
            "groups": ["g", "system:authenticated"],
            "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": wanted,
        },
    ] == seen


async def test_a_token_is_no_proof_where_tokens_are_not_reviewed(bench: Bench) -> None:
    async with bench.serving(rules("AlwaysAllow", webhook=False)), bench.client(token=bench.token("ann")) as client:
        assert HTTPStatus.UNAUTHORIZED == await status(client, "/pods")
    assert [] == list(bench.api.requests)


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "token-of-ann", "Bearertoken-of-ann", "Token token-of-ann"])
async def test_another_header_is_no_token(bench: Bench, header: str) -> None:
    bench.token("ann")
    async with bench.serving(rules("AlwaysAllow")), bench.client() as client:
        assert HTTPStatus.UNAUTHORIZED == (await client.get("/pods", headers={"authorization": header})).status_code
    assert [] == list(bench.api.requests)


UPGRADE = {"connection": "Upgrade", "upgrade": "websocket"}
NAMED = "base64url.bearer.authorization.k8s.io."
ANN = NAMED + "dG9rZW4tb2YtYW5u"
"""Ann's token, as a browser names it."""


@pytest.mark.parametrize(
    ("wanted", "headers", "protocols"),
    [
        (200, UPGRADE, f"{ANN}, v5.channel.k8s.io"),
        (200, UPGRADE, f"v5.channel.k8s.io,{ANN}"),
        (200, UPGRADE | {"authorization": "Bearer token-of-ann"}, f"{NAMED}bWFkZS11cA, v5.channel.k8s.io"),
        (401, UPGRADE | {"authorization": "Bearer made-up"}, f"{ANN}, v5.channel.k8s.io"),
        (401, UPGRADE, f"{NAMED}bWFkZS11cA, v5.channel.k8s.io"),
        (401, UPGRADE, f"{ANN}, {ANN}, v5.channel.k8s.io"),
        (401, UPGRADE, ANN),
        (401, UPGRADE, f"{ANN},,"),
        (401, UPGRADE, f"{NAMED}d, v5.channel.k8s.io"),
        (401, UPGRADE, f"{NAMED}!!!!, v5.channel.k8s.io"),
        (401, UPGRADE, f"{NAMED}_____w, v5.channel.k8s.io"),
        # These show no proof at all.
        (403, UPGRADE, "v5.channel.k8s.io"),
        (403, UPGRADE, f"{NAMED}, v5.channel.k8s.io"),
        (403, {}, f"{ANN}, v5.channel.k8s.io"),
        (403, UPGRADE | {"upgrade": "SPDY/3.1"}, f"{ANN}, v5.channel.k8s.io"),
    ],
)
async def test_a_web_socket_may_name_its_token_as_a_protocol(
    bench: Bench, wanted: int, headers: dict[str, str], protocols: str
) -> None:
    bench.token("ann")
    bench.allow("ann", "pods")
    async with bench.serving(rules(anonymous=True)), bench.client() as client:
        told = await client.get("/pods", headers={**headers, "sec-websocket-protocol": protocols})

    assert wanted == told.status_code


# ---- what is allowed and what is served are one ----

WORDS = ("exec", "%65xec", "Exec", "run", "attach", "portForward", "pods", "runningpods", "metrics", "probes", "stats")
WORDS += ("summary", "logs", "containerLogs", "healthz", "configz", "debug", "pprof", "default", "web-n1", "app", "..")
BETWEEN = ("/",) * 12 + ("//", "%2f", "%2F", "/./", "/%2e%2E/", "%00", "%0a/", "%5c", ";", "#", "?", "/?")
BEFORE = ("/",) * 6 + ("//", "%2f", "http://n/", "HTTPS://n:1//", "/http://n/", "//n/", "/../", "")


class Passed:
    """A gate that lets everybody through, to routes that do nothing but note that they were asked."""

    def __init__(self, api: NodeApi) -> None:
        self.served: Route | None = None
        self.allowed: tuple[str, tuple[str, ...]] | None = None
        routes = [replace(route, answer=partial(self._note, route)) for route in api.routes]
        api.routes = tuple(routes)  # type: ignore[misc]
        self._gate = Gate(api, self, self)  # type: ignore[arg-type]

    async def _note(self, route: Route, *_: object) -> Response:
        await trio.lowlevel.checkpoint()
        self.served = route
        return Response()

    async def caller(self, _: Request) -> Caller:
        await trio.lowlevel.checkpoint()
        return Caller("ann")

    async def allows(self, _: Caller, method: str, path: str) -> bool:
        await trio.lowlevel.checkpoint()
        self.allowed = verb(method, path), subresources(path)
        return True

    async def ask(self, method: str, target: str) -> Route | None:
        """As it would come over a connection; the route that answers."""
        self.served = None
        head = h11.Request(method=method, target=target, headers=[("host", "n")])
        with suppress(NotServed):
            await self._gate.answer(request_of(head, 10**6, None))
        return self.served


async def test_route_answers_only_clients_with_its_own_right(bench: Bench) -> None:
    passed, chance, served = Passed(bench.node_api(rules())), random.Random(7), set()
    for _ in range(3000):
        words = "".join(chance.choice(WORDS) + chance.choice(BETWEEN) for _ in range(chance.randint(1, 5)))
        method = chance.choice(("GET", "POST"))
        target = chance.choice(BEFORE) + words
        if target and (route := await passed.ask(method, target)):
            acts = method == "POST" or route.path in STREAMS
            assert ("create" if acts else "get", route.rights) == passed.allowed, target
            served.add(route.path)

    assert len(served) > 12


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (None, "/metrics/../exec/default/web-n1/app"),
        (None, "/metrics/%2e%2e/exec/default/web-n1/app"),
        (None, "//metrics/exec/default/web-n1/app"),
        (None, "//exec/default/web-n1/app"),
        (None, "/exec//default/web-n1/app"),
        (None, "/stats/summary/../../pods"),
        (None, "/pods%00"),
        (None, "/pods#/metrics"),
        ("/exec/{namespace}/{pod}/{container}", "/%65xec%2fdefault%2Fweb-n1/app"),
        ("/exec/{namespace}/{pod}/{container}", "http://metrics/exec/default/web-n1/app"),
        ("/exec/{namespace}/{pod}/{container}", "/exec/default/web-n1/app/?/metrics"),
        ("/logs/{path...}", "/logs/../exec/default/web-n1/app"),
    ],
)
async def test_no_way_of_writing_a_path_leads_to_another_right(bench: Bench, path: str | None, target: str) -> None:
    passed = Passed(bench.node_api(rules()))
    route = await passed.ask("GET", target)

    assert path == (route and route.path)
    if route is not None:
        assert ("create" if path in STREAMS else "get", route.rights) == passed.allowed


# ---- when nobody can tell ----


async def test_a_token_that_cannot_be_reviewed_is_nobodys(bench: Bench) -> None:
    bench.allow("ann", "pods")
    bench.api.plan("create", Fail(ApiFailure("etcd is away")))
    async with bench.serving(rules()), bench.client(token=bench.token("ann")) as client:
        assert HTTPStatus.UNAUTHORIZED == await status(client, "/pods")
        assert HTTPStatus.OK == await status(client, "/pods")


async def test_a_right_that_cannot_be_reviewed_is_not_there_and_the_problem_is_not_remembered(bench: Bench) -> None:
    bench.allow("ann", "pods")
    bench.api.plan("create", Fail(ApiFailure("etcd is away")))
    async with bench.serving(rules()), bench.client(user="ann") as client:
        told = await client.get("/pods")
        assert HTTPStatus.INTERNAL_SERVER_ERROR == told.status_code
        assert told.text.startswith("Authorization error (user=ann, verb=get, resource=nodes")
        assert HTTPStatus.OK == await status(client, "/pods")


async def test_no_client_is_admitted_before_the_node_has_joined(bench: Bench) -> None:
    bench.joined = None
    async with (
        bench.serving(rules()),
        bench.client(user="ann") as client,
        bench.client(token=bench.token("ann")) as other,
    ):
        assert HTTPStatus.INTERNAL_SERVER_ERROR == await status(client, "/pods")
        assert HTTPStatus.UNAUTHORIZED == await status(other, "/pods")


async def test_invalid_reviews_admit_no_client(bench: Bench) -> None:
    bench.cluster.reviewers["subjectaccessreviews"] = lambda _: {"allowed": "yes"}
    bench.cluster.reviewers["tokenreviews"] = lambda _: {"authenticated": True}
    async with bench.serving(rules()), bench.client(user="ann") as client, bench.client(token="t") as other:
        assert HTTPStatus.INTERNAL_SERVER_ERROR == await status(client, "/pods")
        assert HTTPStatus.UNAUTHORIZED == await status(other, "/pods")


async def test_a_denial_beats_a_permission(bench: Bench) -> None:
    bench.cluster.reviewers["subjectaccessreviews"] = lambda _: {"allowed": True, "denied": True}
    async with bench.serving(rules()), bench.client(user="ann") as client:
        assert HTTPStatus.FORBIDDEN == await status(client, "/pods")


async def test_reviews_are_remembered_as_long_as_the_configuration_says(
    bench: Bench, autojump_clock: MockClock
) -> None:
    bench.allow("ann", "pods")
    asked = rules()
    assert 120 == asked.authentication.webhook.cache_ttl
    kept = asked.authorization.webhook
    assert (300, 30) == (kept.cache_authorized_ttl, kept.cache_unauthorized_ttl)
    gate = bench.gate(asked).answer
    token = {"authorization": f"Bearer {bench.token('ann')}"}

    async def ask(path: str = "/pods") -> tuple[int, int]:
        before = len(bench.api.requests)
        answer = await gate(Request("GET", path, headers=token))
        return answer.status, len(bench.api.requests) - before

    assert (200, 2) == await ask()
    await trio.sleep(119)
    assert (200, 0) == await ask()
    await trio.sleep(2)
    assert (200, 1) == await ask()  # the token again
    assert (403, 1) == await ask("/metrics")
    await trio.sleep(29)
    assert (403, 0) == await ask("/metrics")
    await trio.sleep(2)
    assert (403, 1) == await ask("/metrics")
    bench.cluster.rights.clear()
    await trio.sleep(60)
    assert (200, 0) == await ask()
    await trio.sleep(300)
    assert (403, 3) == await ask()


async def test_silent_api_server_times_out(bench: Bench, autojump_clock: MockClock) -> None:
    bench.api.plan("create", *[Hang()] * 10)
    gate = bench.gate(rules()).answer
    begun = trio.current_time()
    answers = []

    async def ask() -> None:
        answers.append((await gate(Request("GET", "/pods", headers={"authorization": "Bearer t"}))).status)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)

    assert ([401] * 5, 30) == (answers, trio.current_time() - begun)


# ---- what is told ----


async def told(bench: Bench, path: str, configuration: KubeletConfiguration | None = None) -> httpx.Response:
    async with bench.serving(configuration or rules("AlwaysAllow")), bench.client(user="ann") as client:
        return await client.get(path)


async def test_pods_come_as_a_pod_list(bench: Bench) -> None:
    said = (await told(bench, "/pods/")).json()

    assert ("v1", "PodList", ["web-n1"]) == (
        said["apiVersion"],
        said["kind"],
        [one["metadata"]["name"] for one in said["items"]],
    )
    assert "Running" == said["items"][0]["status"]["phase"]


async def test_what_runs_comes_as_a_pod_list_too(bench: Bench) -> None:
    assert ["web-n1"] == [one["metadata"]["name"] for one in (await told(bench, "/runningpods/")).json()["items"]]


async def test_the_configuration_is_told_as_upstream_does(bench: Bench) -> None:
    said = (await told(bench, "/configz", rules("AlwaysAllow", max_pods=7))).json()

    assert (7, "AlwaysAllow") == (said["kubeletconfig"]["maxPods"], said["kubeletconfig"]["authorization"]["mode"])


async def test_metrics_are_prometheus_own_text(bench: Bench) -> None:
    answer = await told(bench, "/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "kubelet_running_pods 7\n" in answer.text
    assert 'kubelet_node_name{node="n1"} 1\n' in answer.text
    for word, value in (
        ("capacity_bytes", 1000),
        ("available_bytes", 600),
        ("used_bytes", 400),
        ("inodes", 100),
        ("health_status_abnormal", 1),
    ):
        said = f'kubelet_volume_stats_{word}{{namespace="default",persistentvolumeclaim="claim"}} {value}\n'
        assert said in answer.text


@pytest.mark.parametrize(
    ("sign", "depth", "path"),
    [
        ("node_cpu_usage_seconds_total 100.0 ", Depth.LOAD, "/metrics/resource"),
        ('container_memory_rss{container="app",', Depth.METRICS, "/metrics/cadvisor"),
        ('"ephemeral-storage":{', Depth.SUMMARY, "/stats/summary"),
        ('"ephemeral-storage":{', Depth.SUMMARY, "/stats/summary?only_cpu_and_memory=false"),
        ('"usageNanoCores":250', Depth.CPU_AND_MEMORY, "/stats/summary?only_cpu_and_memory=true"),
    ],
)
async def test_what_is_used_is_looked_at_as_deep_as_it_is_asked_for(
    bench: Bench, sign: str, depth: Depth, path: str
) -> None:
    answer = await told(bench, path)

    assert (200, True, [depth]) == (answer.status_code, sign in answer.text, bench.stats.asked)


@pytest.mark.parametrize("path", ["/metrics/resource", "/metrics/cadvisor", "/stats/summary"])
async def test_a_machine_that_cannot_be_read_is_said_to_be(bench: Bench, path: str) -> None:
    bench.stats.failure = OSError("no /proc")

    assert (500, "cannot measure the machine: no /proc") == (
        (answer := await told(bench, path)).status_code, answer.text
    )  # fmt: skip


async def test_a_word_that_is_no_boolean_is_refused(bench: Bench) -> None:
    assert 400 == (await told(bench, "/stats/summary?only_cpu_and_memory=maybe")).status_code


async def test_health_is_reported_by_its_checks(bench: Bench) -> None:
    bench.checks = {"syncloop": lambda: "it hangs"}

    assert (500, "it hangs\n") == ((answer := await told(bench, "/healthz/syncloop")).status_code, answer.text)
    assert HTTPStatus.INTERNAL_SERVER_ERROR == (await told(bench, "/healthz")).status_code
    assert HTTPStatus.OK == (await told(bench, "/healthz/ping")).status_code


LOG = "/containerLogs/default/web-n1/app"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("one\ntwo\n", ""),
        ("two\n", "?tailLines=1"),
        ("two\n", "?tailLines=1&stream=All"),
        ("on", "?limitBytes=2"),
        ("two\n", "?stream=Stderr"),
        ("two\n", "?sinceTime=2026-11-21T11:59:00Z"),
        ("2026-11-21T11:59:50Z two\n", "?tailLines=1&timestamps=true"),
        ("one\ntwo\n", "?follow=true"),
    ],
)
async def test_a_log_is_read_as_asked(bench: Bench, text: str, query: str) -> None:
    answer = await told(bench, LOG + query)

    assert (200, text) == (answer.status_code, answer.text)


@pytest.mark.parametrize(
    ("code", "text", "path"),
    [
        (404, 'pod "none" does not exist', "/containerLogs/default/none/app"),
        (404, 'pod "web-n1" does not exist', "/containerLogs/other/web-n1/app"),
        (404, 'container "none" not found in pod "web-n1"', "/containerLogs/default/web-n1/none"),
        (400, 'previous terminated container "app" in pod "web-n1" not found', LOG + "?previous=true"),
        (422, "`tailLines` and specific `stream` are mutually exclusive for now", LOG + "?tailLines=1&stream=Stdout"),
        (422, "tailLines=-1: write a whole number, 0 or more", LOG + "?tailLines=-1"),
        (422, "limitBytes=0: write a whole number, 1 or more", LOG + "?limitBytes=0"),
        (422, "sinceSeconds=0: write a whole number, 1 or more", LOG + "?sinceSeconds=0"),
        (422, "stream=both: write stdout, stderr or all", LOG + "?stream=both"),
        (422, "sinceSeconds and sinceTime: give one of them", LOG + "?sinceSeconds=1&sinceTime=2026-11-21T11:59:00Z"),
        (400, "tailLines=two: write a whole number, 0 or more", LOG + "?tailLines=two"),
        (400, "sinceTime=noon: write a time such as 2026-11-21T07:01:02Z", LOG + "?sinceTime=noon"),
        (404, "404 page not found\n", LOG + "/more"),
        (404, "404 page not found\n", "/containerLogs/default/web-n1"),
        (404, "404 page not found\n", "/containerLogs/default//app"),
    ],
)
async def test_a_log_that_is_not_there_is_reported_in_kubectls_words(
    bench: Bench, code: int, text: str, path: str
) -> None:
    answer = await told(bench, path)

    assert (code, text) == (answer.status_code, answer.text)


async def test_a_container_that_waits_says_why(bench: Bench) -> None:
    state = k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason="ContainerCreating"))
    shown = pod()
    assert shown.status is not None
    (container,) = shown.status.container_statuses
    blank = msgspec.structs.replace(container, state=state)
    bench.view.shown = [
        msgspec.structs.replace(shown, status=msgspec.structs.replace(shown.status, container_statuses=(blank,)))
    ]

    answer = await told(bench, LOG)

    wanted = 'container "app" in pod "web-n1" is waiting to start: ContainerCreating'
    assert (400, wanted) == (answer.status_code, answer.text)


async def test_missing_log_file_is_reported(bench: Bench) -> None:
    bench.view.logs = {}

    assert (400, "app has no log") == ((answer := await told(bench, LOG)).status_code, answer.text)


async def test_a_log_that_is_no_file_is_said_to_be_none(bench: Bench, tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "fifo")
    bench.view.logs = {("default", "web-n1", "app", False): str(path)}

    answer = await told(bench, LOG)

    wanted = f'cannot read the log of container "app" at {path}: not a regular file'
    assert (400, wanted) == (answer.status_code, answer.text)


async def test_without_debugging_handlers_their_paths_say_so(bench: Bench) -> None:
    off = rules("AlwaysAllow", enable_debugging_handlers=False)
    async with bench.serving(off), bench.client(user="ann") as client:
        for word in sorted(DEBUGGING):
            answer = await client.get(f"/{word}/x")
            assert (word, 405, "Debug endpoints are disabled.") == (word, answer.status_code, answer.text)
        wanted = {"/pods": 200, "/healthz": 200, "/metrics": 200, "/configz": 404, "/runningpods/": 405, LOG: 405}
        wanted |= {"/statusz": 404, "/flagz": 404}
        assert wanted == {path: await status(client, path) for path in wanted}
        assert 404 == await status(client, real(CHECKPOINT), "POST")


async def test_read_only_port_serves_some_paths_to_every_client(bench: Bench) -> None:
    api = bench.node_api(rules())
    wanted = {"/pods": 200, "/healthz": 200, "/healthz/ping": 200, "/metrics": 200, "/configz": 404}
    wanted |= {"/runningpods": 405, LOG: 405, "/exec/default/web-n1/app": 405, "/logs/": 405, "/nothing": 404}

    assert wanted == {path: (await api.answer_anybody(Request("GET", path))).status for path in wanted}
    assert 405 == (await api.answer_anybody(Request("POST", "/pods"))).status


async def test_whether_the_health_checks_pass_is_a_metric_that_is_made_for_the_asking(bench: Bench) -> None:
    found: list[str | None] = ["pleg hangs", None]
    bench.checks = {"pleg": lambda: found.pop(0)}
    api = bench.node_api(rules())
    asked = Request("GET", "/metrics/slis")
    first, second = [(await api.answer_anybody(asked)).body.decode() for _ in range(2)]

    assert 'kubernetes_healthcheck{name="pleg",type="healthz"} 0\n' in first
    assert 'kubernetes_healthcheck{name="pleg",type="healthz"} 1\n' in second
    assert 'kubernetes_healthchecks_total{name="pleg",status="error",type="healthz"} 1\n' in second
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2\n' in second


# ---- certificates that change ----


async def test_a_certificate_that_ends_ends_its_right_on_a_connection_that_goes_on(bench: Bench) -> None:
    class Later:
        ns = SYSTEM_CLOCK.now_ns()

        def now_ns(self) -> int:
            return self.ns

    clock = bench.clock = Later()
    short = bench.authority.issue_cert(
        "client.test", common_name="ann", not_after=datetime.now(UTC) + timedelta(hours=1)
    )
    async with bench.serving(rules("AlwaysAllow", anonymous=True)):
        url = f"https://127.0.0.1:{bench.port}"
        async with httpx.AsyncClient(base_url=url, verify=bench.trust(short)) as client:
            assert HTTPStatus.OK == await status(client, "/pods")
            clock.ns += 3601 * 10**9
            assert HTTPStatus.UNAUTHORIZED == await status(client, "/pods")
