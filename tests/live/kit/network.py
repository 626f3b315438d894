"""What the live tests ask of, and leave out of, the machine's network: subnets, bridges, address translation rules.

Called by ``instance.py`` to choose a subnet nobody routes and to take away what a containerd's network plugins put on
the host. The bridge plugin leaves its bridge, and the portmap plugin its three shared chains, for ever: both are
written for machines that keep them. Rules that were there before the tests are never touched.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import shlex
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from . import places

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_SHARED = ("CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK")

_PORTS = range(20_000, 30_000)
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

_handed_out: set[int] = set()


def is_routed(subnet: str) -> bool:
    """Whether a route of this machine, other than the default one, touches ``subnet``."""
    wanted = ipaddress.ip_network(subnet)
    routes = json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    targets = (route["dst"] for route in routes if route["dst"] not in ("default", "0.0.0.0/0"))
    return any(ipaddress.ip_network(target, strict=False).overlaps(wanted) for target in targets)


def links() -> set[str]:
    """The names of the machine's network interfaces."""
    return {link["ifname"] for link in json.loads(_run("ip", "-json", "link", "show"))}


def remove_bridge(name: str) -> None:
    """Deletes a bridge, if it is there."""
    if name in links():
        _run("ip", "link", "delete", name)


def translation_rules() -> list[str]:
    """The nat table, one iptables command per line."""
    return _run("iptables", "-w", "-t", "nat", "-S").splitlines()


def has_shared_chains() -> bool:
    """Whether the portmap plugin's own chains exist, ours or another's."""
    return any(rule.startswith("-N CNI-HOSTPORT-") for rule in translation_rules())


def remove_port_rules(network: str) -> None:
    """Deletes the host port rules of one CNI network, as the plugin would have, had it been asked."""
    named = f'"{network}"'
    mine = [words for words in map(shlex.split, translation_rules()) if any(named in word for word in words)]
    chains = {words[words.index("-j") + 1] for words in mine if "-j" in words} | {words[1] for words in mine}
    for words in mine:
        _nat("-D", *words[1:])
    for chain in sorted(chain for chain in chains if chain.startswith("CNI-") and chain not in _SHARED):
        _nat("-F", chain)
        _nat("-X", chain)


def remove_shared_chains() -> None:
    """Deletes the portmap plugin's own chains and the jumps to them, unless a pod's rule still needs them."""
    rules = [shlex.split(rule) for rule in translation_rules()]
    if any(words[:2] == ["-A", "CNI-HOSTPORT-DNAT"] for words in rules):
        return
    for words in rules:
        if words[0] == "-A" and words[1] not in _SHARED and words[-1] in _SHARED:
            _nat("-D", *words[1:])
    for words in rules:
        if words[0] == "-N" and words[1] in _SHARED:
            _nat("-F", words[1])
    for words in rules:
        if words[0] == "-N" and words[1] in _SHARED:
            _nat("-X", words[1])


def ask(address: str, port: int, path: str = "/", seconds: float = 60) -> tuple[int, str]:
    """One HTTP GET from the host by bare socket: status and body. Raises OSError when nobody answers for so long: a
    container that runs need not listen yet."""
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    with _connected(address, port, seconds) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


def _connected(address: str, port: int, seconds: float) -> socket.socket:
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((address, port), timeout=seconds)
        except ConnectionRefusedError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.05)


def host_address() -> str:
    """An IPv4 address of this machine that is not loopback: where its own host ports can be reached."""
    addresses = json.loads(_run("ip", "-json", "-4", "address", "show", "up", "scope", "global"))
    usable = [
        a["local"] for link in addresses if link.get("ifname", "tklive").find("tklive") < 0 for a in link["addr_info"]
    ]
    if not usable:
        raise places.NotInstalled("this machine has no IPv4 address but loopback; host ports cannot be tested")
    return str(usable[0])


def free_port() -> int:
    """A TCP port nobody listens on just now, and which no other process of this test run is given, nor this one again:
    who asks for it does not listen yet. Below those the kernel gives to connections: an agent that is started again
    needs it again, and must not find a connection of somebody else's there. Raises RuntimeError when none is left."""
    ours = [port for port in _PORTS[_WORKER::_WORKERS] if port not in _handed_out]
    for port in random.sample(ours, len(ours)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            _handed_out.add(port)
            return port
    raise RuntimeError(f"every port from {_PORTS.start} to {_PORTS.stop} is taken")


def _nat(*words: str) -> None:
    _run("iptables", "-w", "-t", "nat", *words)


def _run(name: str, *words: str) -> str:
    done = subprocess.run([places.program(name), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {shlex.join(words)} failed: {done.stderr.strip()}")
    return done.stdout
