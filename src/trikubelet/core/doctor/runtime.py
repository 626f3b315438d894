"""The container runtime and the network it gives pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.finding import error, good, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.model.finding import Finding
    from trikubelet.model.runtime import RuntimeInfo

RUNTIME: Final = "runtime"
NETWORK: Final = "network"
CONTAINERD_MIN: Final = (1, 6)
"""The oldest containerd the live tests run on."""
CNI_DIRECTORY: Final = "/etc/cni/net.d"


def judge_runtime(endpoint: str, info: RuntimeInfo | None, problem: str) -> Iterator[Finding]:
    """``info`` is what it said of itself; None with the ``problem`` where it said nothing."""
    if info is None:
        remedy = "start the runtime, or name its socket: --container-runtime-endpoint (containerRuntimeEndpoint)"
        yield error(RUNTIME, f"{endpoint}: {problem}", remedy)
        return
    named = f"{info.name} {info.version} at {endpoint}"
    ready = info.condition("RuntimeReady")
    if ready is not None and not ready.status:
        yield error(RUNTIME, f"{named} is not ready: {ready.reason}: {ready.message}", "read the runtime's own log")
    elif info.name == "containerd" and _version(info.version) < CONTAINERD_MIN:
        yield warning(RUNTIME, f"{named} is older than any it is tested with", "install containerd 1.6 or newer")
    else:
        yield good(RUNTIME, named)
    if info.list_warning:
        yield warning(RUNTIME, info.list_warning, "remove what has ended from the runtime, or raise its message limit")


def _version(text: str) -> tuple[int, ...]:
    numbers = text.removeprefix("v").split(".")[:2]
    return tuple(int(number) for number in numbers) if all(n.isdecimal() for n in numbers) else CONTAINERD_MIN


def judge_network(info: RuntimeInfo, networks: Sequence[str]) -> Iterator[Finding]:
    """``networks``: the names of the configurations in the usual directory."""
    ready = info.condition("NetworkReady")
    if ready is None or ready.status:
        yield good(NETWORK, f"ready{f', by {networks[0]}' if networks else ''}")
        return
    if networks:
        remedy = f"the runtime does not take {CNI_DIRECTORY}/{networks[0]}; are its plugins in /opt/cni/bin?"
    else:
        remedy = f"install a network plugin: {CNI_DIRECTORY} is empty; until then only host-network pods start"
    yield error(NETWORK, f"not ready: {ready.reason}: {ready.message}", remedy)
