"""Which right a request to the node's API needs."""

from __future__ import annotations

import pytest

from trikubelet.core.node_access import PLACES, Place, subresources, verb


@pytest.mark.parametrize(
    ("rights", "paths"),
    [
        (("pods", "proxy"), ["/pods", "/pods/", "/pods/x", "/runningpods", "/runningpods/"]),
        (("healthz", "proxy"), ["/healthz", "/healthz/ping", "/healthz/syncloop"]),
        (("configz", "proxy"), ["/configz"]),
        (("metrics",), ["/metrics", "/metrics/cadvisor", "/metrics/../exec/a/b/c"]),
        (("stats",), ["/stats", "/stats/summary"]),
        (("log",), ["/logs", "/logs/kubelet.log"]),
        (("checkpoint",), ["/checkpoint/a/b/c"]),
        (("statusz",), ["/statusz"]),
        (("configz",), ["/flagz"]),
        (("proxy",), ["/", "", "/exec/a/b/c", "/run/a/b/c", "/containerLogs/a/b/c", "/nothing", "/podsx", "//pods"]),
        (("proxy",), ["/./pods", "/%70ods", "/Pods", "pods2", "/debug/pprof/"]),
    ],
)
def test_a_path_needs_upstreams_right(rights: tuple[str, ...], paths: list[str]) -> None:
    assert dict.fromkeys(paths, rights) == {path: subresources(path) for path in paths}


METHODS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def test_a_method_is_a_verb_and_one_that_is_none_is_covered_by_no_narrow_right() -> None:
    assert METHODS == {method: verb(method, "/pods") for method in METHODS}
    assert {""} == {verb(method, "/pods") for method in ("HEAD", "OPTIONS", "get", "CONNECT", "")}


@pytest.mark.parametrize("path", ["/exec/a/b/c", "/attach/a/b/c", "/portForward/a/b", "/run/a/b/c", "exec", "/exec"])
def test_to_ask_for_a_stream_is_to_act_by_whatever_method(path: str) -> None:
    assert METHODS | {"GET": "create"} == {method: verb(method, path) for method in METHODS}
    assert "" == verb("HEAD", path)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.path)
def test_every_row_is_asked_about_as_it_says_and_so_is_all_that_begins_as_it_does(place: Place) -> None:
    below = (place.path, place.path + "/", place.path.removeprefix("/"), "/" + place.path.split("/")[1] + "/anything")

    assert [place.rights] * 4 == [subresources(path) for path in below]
    assert ["create" if place.opened.acts else "get"] * 4 == [verb("GET", path) for path in below]


def test_no_path_has_two_rows_and_what_strangers_may_read_is_only_read() -> None:
    paths = [place.path for place in PLACES]

    assert sorted(set(paths)) == sorted(paths)
    assert [] == [place.path for place in PLACES if place.opened.read_only and place.opened.acts]
