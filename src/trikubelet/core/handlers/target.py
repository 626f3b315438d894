"""The requests of handlers: the target and headers of an HTTP or TCP handler, and the command of a probe's exec.

The host is the handler's own or else the pod's address; a port may be the name of one of the container's. ``Host``,
``User-Agent`` and ``Accept`` are set unless the handler sets them; an empty ``Accept`` is left out. The connection is
closed after one answer, and compression is not accepted.

In a command ``$(VAR)`` stands for a variable of the container that has a literal value. Variables from other sources
are not looked up for a probe and stay unexpanded (upstream: ExpandContainerCommandOnlyStatic). The command of a hook is
not expanded at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.allowance import of_container
from trikubelet.core.containers.expansion import expand
from trikubelet.model import names
from trikubelet.model.handlers import HandlerInvalid, HttpTarget, Unreachable, authority
from trikubelet.model.upstream import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.k8s import Container, ExecAction, HTTPGetAction, HTTPHeader

PROBE_AGENT = f"kube-probe/{FOLLOWED}"
"""The user agent of probes, by which servers recognize them."""
HOOK_AGENT = f"kube-lifecycle/{FOLLOWED}"
DEFAULT_PORTS = {"http": 80, "https": 443}


def http_target(action: HTTPGetAction, container: Container, address: str, agent: str) -> HttpTarget:
    """Return the request; ``address`` is the pod's, ``agent`` the user agent. Raises HandlerInvalid, and Unreachable
    for a header that no request can have: upstream reports a failed request (net/http checks headers first)."""
    scheme = (action.scheme or "http").lower()
    host = host_of(action.host, address)
    port = port_number(action.port, container)
    path, _, _ = action.path.partition("#")  # a fragment is for clients, not for servers
    path = path if path.startswith("/") else f"/{path}"
    target = HttpTarget(scheme, host, port, path, _headers(action.http_headers, authority(host, port), agent))
    for header in action.http_headers:
        if any(ord(character) < 32 and character != "\t" for character in header.value) or "\x7f" in header.value:
            why = f'net/http: invalid header field value for "{header.name}"'
            raise Unreachable(f'Get "{target.url}": {why}')
    return target


def host_of(given: str, address: str) -> str:
    """Return the handler's own host, or else the pod's address. Raises HandlerInvalid if both are empty, because the
    kernel connects to this machine then."""
    if not (given or address):
        raise HandlerInvalid("the pod has no address")
    return given or address


def port_number(port: int | str, container: Container) -> int:
    """Return the number of a port that is given by number or by name. Raises HandlerInvalid."""
    number = port if isinstance(port, int) else _named(port, container)
    if problem := names.port_problem(number):
        raise HandlerInvalid(f"invalid port number: {number}: {problem}")
    return number


def _named(name: str, container: Container) -> int:
    for port in container.ports:
        if port.name == name:
            return port.container_port
    raise HandlerInvalid(f'port "{name}" not found')


def _headers(given: Iterable[HTTPHeader], host: str, agent: str) -> tuple[tuple[str, str], ...]:
    found = [(header.name, header.value.strip()) for header in given]
    set_ = {name.lower(): value for name, value in found}
    first = [("Host", set_.get("host") or host)]
    if "user-agent" not in set_:
        first.append(("User-Agent", agent))
    if "accept" not in set_:
        first.append(("Accept", "*/*"))
    empty_is_unset = ("accept", "user-agent")
    own = ("host", "connection", "content-length", "transfer-encoding")
    rest = [
        (name, value)
        for name, value in found
        if name.lower() not in own and (value or name.lower() not in empty_is_unset)
    ]
    return (*first, *rest, ("Connection", "close"))


def probe_command(action: ExecAction, container: Container) -> tuple[str, ...]:
    """Return the command to run in the container. Raises HandlerInvalid if its variables make it too large."""
    values, allowance = {variable.name: variable.value for variable in container.env}, of_container()
    try:
        return tuple(expand(word, values, allowance, f"exec.command[{n}]") for n, word in enumerate(action.command))
    except ValueError as error:
        raise HandlerInvalid(str(error)) from error
