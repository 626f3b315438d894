"""From a handler in a spec to what is asked."""

from __future__ import annotations

import pytest

from trikubelet.core.handlers import http_target, port_number, probe_command, redirected
from trikubelet.model import k8s
from trikubelet.model.handlers import HandlerInvalid, HttpTarget, Unreachable

CONTAINER = k8s.Container(
    name="c",
    image="i",
    ports=(k8s.ContainerPort(container_port=8080, name="web"), k8s.ContainerPort(container_port=9090, name="metrics")),
    env=(
        k8s.EnvVar(name="WHO", value="me"),
        k8s.EnvVar(
            name="IP", value_from=k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path="status.podIP"))
        ),
    ),
)


@pytest.mark.parametrize(("port", "number"), [(1, 1), (65535, 65535), ("web", 8080), ("metrics", 9090)])
def test_a_port_is_a_number_or_a_name_of_the_container(port: int | str, number: int) -> None:
    assert number == port_number(port, CONTAINER)


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (0, "invalid port number: 0"),
        (65536, "invalid port number: 65536"),
        ("no", '^port "no" not found$'),
        ("8081", '^port "8081" not found$'),
    ],
)
def test_a_port_that_is_none_is_told(port: int | str, why: str) -> None:
    with pytest.raises(HandlerInvalid, match=why):
        port_number(port, CONTAINER)


@pytest.mark.parametrize(
    ("action", "url"),
    [
        (k8s.HTTPGetAction(port="web"), "http://10.0.0.1:8080/"),
        (k8s.HTTPGetAction(port=1, path="x/y", scheme="HTTPS"), "https://10.0.0.1:1/x/y"),
        (k8s.HTTPGetAction(port=1, path="/a b?c=d%20e&f=ü", host="h"), "http://h:1/a%20b?c=d%20e&f=%C3%BC"),
        (k8s.HTTPGetAction(port=1, path="/a?b=c#d?e", host="h"), "http://h:1/a?b=c"),
        (k8s.HTTPGetAction(port=1, host="fd00::1"), "http://[fd00::1]:1/"),
    ],
)
def test_a_target_is_made_of_the_handler_and_the_pods_address(action: k8s.HTTPGetAction, url: str) -> None:
    assert url == http_target(action, CONTAINER, "10.0.0.1", "agent").url


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ((), (("Host", "10.0.0.1:1"), ("User-Agent", "agent"), ("Accept", "*/*"))),
        ((("host", "h"), ("ACCEPT", "")), (("Host", "h"), ("User-Agent", "agent"))),
        ((("User-Agent", ""), ("Content-Length", "9")), (("Host", "10.0.0.1:1"), ("Accept", "*/*"))),
        (
            (("X-A", "1"), ("X-A", " 2 ")),
            (("Host", "10.0.0.1:1"), ("User-Agent", "agent"), ("Accept", "*/*"), ("X-A", "1"), ("X-A", "2")),
        ),
    ],
)
def test_headers_are_ours_unless_the_handler_has_its_own(
    given: tuple[tuple[str, str], ...], sent: tuple[tuple[str, str], ...]
) -> None:
    headers = tuple(k8s.HTTPHeader(name=name, value=value) for name, value in given)
    target = http_target(k8s.HTTPGetAction(port=1, http_headers=headers), CONTAINER, "10.0.0.1", "agent")

    assert (*sent, ("Connection", "close")) == target.headers


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\x7f", "\0"])
def test_a_header_cannot_be_two(value: str) -> None:
    action = k8s.HTTPGetAction(port=1, http_headers=(k8s.HTTPHeader(name="X", value=value),))

    with pytest.raises(Unreachable, match=r'^Get "http://10.0.0.1:1/": net/http: invalid header field value for "X"$'):
        http_target(action, CONTAINER, "10.0.0.1", "agent")


ASKED = HttpTarget("http", "10.0.0.1", 8080, "/a/b", (("Host", "named"),))


@pytest.mark.parametrize(
    ("status", "location", "url", "host"),
    [
        (301, "/x", "http://10.0.0.1:8080/x", "named"),
        (302, "x?y=1", "http://10.0.0.1:8080/a/x?y=1", "named"),
        (303, "http://10.0.0.1/", "http://10.0.0.1:80/", "10.0.0.1:80"),
        (307, "https://10.0.0.1:8443", "https://10.0.0.1:8443/", "10.0.0.1:8443"),
        (308, "//10.0.0.1:1/z", "http://10.0.0.1:1/z", "10.0.0.1:1"),
    ],
)
def test_a_redirect_to_the_same_host_is_followed(status: int, location: str, url: str, host: str) -> None:
    following = redirected(ASKED, status, location)

    assert following is not None
    assert (url, host) == (following.url, dict(following.headers)["Host"])


@pytest.mark.parametrize(
    ("status", "location"), [(200, "/x"), (304, "/x"), (300, "/x"), (302, ""), (302, "http://other/"), (404, "/x")]
)
def test_any_other_answer_is_the_last_word(status: int, location: str) -> None:
    assert redirected(ASKED, status, location) is None


@pytest.mark.parametrize("location", ["http://[::1", "http://10.0.0.1:99999/", "ftp://10.0.0.1/"])
def test_a_redirect_to_nowhere_is_a_failure(location: str) -> None:
    with pytest.raises(Unreachable):
        redirected(ASKED, 302, location)


def test_a_probes_command_knows_literal_variables_only() -> None:
    action = k8s.ExecAction(command=("echo", "$(WHO)", "$(IP)", "$$(WHO)"))

    assert ("echo", "me", "", "$(WHO)") == probe_command(action, CONTAINER)


def test_a_probes_command_that_its_variables_make_too_large_is_refused() -> None:
    one = k8s.Container(name="a", env=(k8s.EnvVar(name="A", value="x" * 100_000),))

    with pytest.raises(HandlerInvalid, match=r"^exec.command\[1\]: with it the container's variables, command"):
        probe_command(k8s.ExecAction(command=("echo", "$(A)" * 100)), one)


def test_a_pod_without_an_address_has_no_target_unless_the_handler_names_a_host() -> None:
    with pytest.raises(HandlerInvalid, match="no address"):
        http_target(k8s.HTTPGetAction(port=1), CONTAINER, "", "agent")

    assert "http://h:1/" == http_target(k8s.HTTPGetAction(port=1, host="h"), CONTAINER, "", "agent").url
