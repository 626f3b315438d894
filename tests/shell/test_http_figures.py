"""How the node's API was asked, as it is counted and told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.localkit import FakeView
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.messages import Request
from trikubelet.server.exposition import exposed
from trikubelet.server.http_figures import Asked, HttpFigures
from trikubelet.server.metrics import node_families

if TYPE_CHECKING:
    from trio.testing import MockClock

PATHS = ("/pods", "/metrics", "/metrics/resource", "/containerLogs/{namespace}/{pod}/{container}", "/exec/{pod}")


@pytest.mark.parametrize(
    ("path", "method", "asked"),
    [
        ("pods", "GET", "/pods/"),
        ("metrics", "GET", "/metrics"),
        ("metrics/resource", "GET", "/metrics/resource"),
        ("containerLogs", "GET", "/containerLogs/default/web/app"),
        ("exec", "POST", "/exec/web"),
        ("other", "GET", "/made/up"),
        ("other", "GET", "/metrics/made/up"),
        ("other", "GET", "/"),
    ],
)
async def test_requests_are_counted_by_what_tells_routes_apart(path: str, method: str, asked: str) -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> int:
        assert [1] == list(figures.under_way.values())
        await trio.lowlevel.checkpoint()
        return 7

    assert 7 == await figures.counted("readwrite", answer)(Request(method, asked))
    assert {Asked(method, path, "readwrite", path == "exec"): 1} == {
        kind: spread.buckets[-1][1] for kind, spread in figures.durations.items()
    }
    assert [0] == list(figures.under_way.values())


async def test_nobody_can_make_up_labels() -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> None:
        raise OSError("no matter")

    for number in range(20):
        with pytest.raises(OSError, match="no matter"):
            await figures.counted("readonly", answer)(Request(f"M{number}", f"/p{number}"))

    assert [Asked("other", "other", "readonly", False)] == list(figures.durations)


async def test_they_are_told_under_upstreams_names(autojump_clock: MockClock) -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> None:
        await trio.sleep(0.3)

    await figures.counted("readwrite", answer)(Request("GET", "/pods"))
    said = exposed(node_families(FakeView(), 0, figures)).decode()

    labels = 'method="GET",path="pods",server_type="readwrite",long_running="false"'
    assert f"kubelet_http_requests_total{{{labels}}} 1\n" in said
    assert f"kubelet_http_requests_duration_seconds_sum{{{labels}}} 0.3" in said
    assert f"kubelet_http_inflight_requests{{{labels}}} 0\n" in said
    assert f'kubelet_http_requests_duration_seconds_bucket{{{labels},le="0.25"}} 0\n' in said
    assert f'kubelet_http_requests_duration_seconds_bucket{{{labels},le="0.5"}} 1\n' in said


async def test_who_is_connected_and_who_had_to_go_is_reported() -> None:
    figures = HttpFigures(PATHS, {})
    limit = figures.connection_limits["readwrite"] = ConnectionLimit("the API", 1)
    with limit.slot(), limit.slot() as slot:
        assert slot is not None
        slot.asks()
        with limit.slot() as none:
            assert none is None
        said = exposed(node_families(FakeView(), 0, figures)).decode()

    assert 'trikubelet_http_connections{server_type="readwrite"} 1\n' in said
    for reason in ("silent", "no_room"):
        labels = f'server_type="readwrite",reason="{reason}"'
        assert f"trikubelet_http_connections_closed_total{{{labels}}} 1\n" in said


async def test_web_sockets_are_reported_by_what_they_want() -> None:
    said = exposed(node_families(FakeView(), 0, HttpFigures(PATHS, {"portforward": 2}))).decode()

    assert 'kubelet_websocket_streaming_requests_total{subresource="portforward"} 2\n' in said
