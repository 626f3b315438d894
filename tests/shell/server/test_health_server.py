"""/healthz over a real socket and without one."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest
import trio

from trikubelet.httpd.server import Request
from trikubelet.model.errors import StartFailed
from trikubelet.server.health import Verdicts, health_handler, problems, serve_health

if TYPE_CHECKING:
    from trikubelet.server.health import Checks


def well() -> str | None:
    return None


def ill() -> str | None:
    return "no pass for 400 s"


def broken() -> str | None:
    raise KeyError("x")


async def ask(checks: Checks, path: str, *, method: str = "GET", **query: str) -> tuple[int, str]:
    response = await health_handler(Verdicts(checks))(Request(method, path, query))
    assert isinstance(response.body, bytes)
    return int(response.status), response.body.decode()


@pytest.mark.parametrize(
    ("path", "query", "status", "body"),
    [
        ("/healthz", {}, 200, "ok\n"),
        ("/healthz/", {}, 200, "ok\n"),
        ("/healthz/ping", {}, 200, "ok\n"),
        ("/healthz/log", {}, 200, "ok\n"),
        ("/healthz", {"verbose": ""}, 200, "[+]ping ok\n[+]log ok\nhealthz check passed\n"),
        ("/healthz/nothing", {}, 404, "unknown check nothing; checks: ping, log\n"),
        ("/healthzz", {}, 404, "404 page not found\n"),
        ("/metrics", {}, 404, "404 page not found\n"),
    ],
)
async def test_a_well_agent_says_ok(path: str, query: dict[str, str], status: int, body: str) -> None:
    assert (status, body) == await ask({"log": well}, path, **query)


async def test_an_ill_agent_says_which_check_failed_and_why() -> None:
    checks = {"log": well, "syncloop": ill}

    assert (
        500,
        "[+]ping ok\n[+]log ok\n[-]syncloop failed: no pass for 400 s\nhealthz check failed\n",
    ) == await ask(checks, "/healthz")
    assert (500, "no pass for 400 s\n") == await ask(checks, "/healthz/syncloop")
    assert (200, "ok\n") == await ask(checks, "/healthz", exclude="syncloop")


@pytest.mark.parametrize("name", ["pleg", "runtime"])
async def test_runtime_trouble_is_reported_and_does_not_fail_healthz(name: str) -> None:
    checks = {"log": well, name: ill}

    assert (200, "ok\n") == await ask(checks, "/healthz")
    assert (500, "no pass for 400 s\n") == await ask(checks, f"/healthz/{name}")
    assert (
        200,
        f"[+]ping ok\n[+]log ok\n[-]{name} failed: no pass for 400 s\nhealthz check passed\n",
    ) == await ask(checks, "/healthz", verbose="")
    assert 500 == (await ask(checks | {"syncloop": ill}, "/healthz"))[0]


async def test_what_an_operator_should_know_of_a_check_that_passes_stands_behind_it() -> None:
    handle = health_handler(Verdicts({"pleg": well, "log": ill}), {"pleg": lambda: "cannot inspect default/web"})
    response = await handle(Request("GET", "/healthz", {"verbose": "", "exclude": "log"}))

    assert b"[+]ping ok\n[+]pleg ok: cannot inspect default/web\nhealthz check passed\n" == response.body
    assert HTTPStatus.OK == response.status


async def test_only_reading_is_allowed() -> None:
    assert (405, "method not allowed\n") == await ask({}, "/healthz", method="POST")


def test_a_check_that_raises_has_failed() -> None:
    assert {"syncloop": "the check failed: KeyError('x')"} == problems({"log": well, "syncloop": broken})


async def test_it_is_served_over_tcp() -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve_health, {"log": well}, {}, "127.0.0.1", 0))
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/healthz")

        assert (200, "ok\n") == (answer.status_code, answer.text)
        nursery.cancel_scope.cancel()


async def test_a_port_that_is_taken_is_named() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with pytest.raises(
        StartFailed, match=f"cannot serve /healthz on 127.0.0.1 port {port}: .*healthzPort, or --healthz-port="
    ):
        await serve_health({}, {}, "127.0.0.1", port)
    await listener.aclose()
