"""Judges the container runtime and the pod network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.finding import error, good, warning
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model.finding import Finding
    from trikubelet.model.runtime import RuntimeInfo

RUNTIME: Final = "runtime"
NETWORK: Final = "network"
CONTAINERD_MIN: Final = (1, 6)
"""The oldest containerd that the live tests cover."""
CNI_DIRECTORY: Final = "/etc/cni/net.d"
CNI_PLUGINS: Final = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
"""The places of CNI plugins: upstream's, which runtimes use by default, Debian's and Fedora's."""
START_IT: Final = "start the runtime, or name its socket: --container-runtime-endpoint (containerRuntimeEndpoint)"


class PodNetwork(Frozen):
    """The machine's part of the pod network. ``missing``: the plugins that are in none of the runtime's directories;
    ``elsewhere``: another well-known directory that has them all, or ""."""

    configurations: tuple[str, ...] = ()
    configuration_dir: str = CNI_DIRECTORY
    plugin_dirs: tuple[str, ...] = CNI_PLUGINS[:1]
    missing: tuple[str, ...] = ()
    elsewhere: str = ""


def judge_runtime(
    endpoint: str, info: RuntimeInfo | None, problem: str = "", remedy: str = START_IT
) -> Iterator[Finding]:
    """Judge the runtime's report on itself; None if it did not answer, with ``problem`` and ``remedy``."""
    if info is None:
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
        yield warning(RUNTIME, info.list_warning, "remove ended containers from it, or raise its message limit")


def _version(text: str) -> tuple[int, ...]:
    numbers = text.removeprefix("v").split(".")[:2]
    return tuple(int(number) for number in numbers) if all(n.isdecimal() for n in numbers) else CONTAINERD_MIN


def judge_network(info: RuntimeInfo, network: PodNetwork) -> Iterator[Finding]:
    """Judge if pods get a network, which needs a CNI configuration and the plugins that it names."""
    ready = info.condition("NetworkReady")
    if network.missing:
        yield _missing_plugins(info, network)
    if ready is not None and not ready.status:
        yield error(NETWORK, f"not ready: {ready.reason}: {ready.message}", _without_network(network))
    elif not network.missing:
        yield good(NETWORK, f"ready{f', by {network.configurations[0]}' if network.configurations else ''}")


def _without_network(network: PodNetwork) -> str:
    if network.configurations:
        first = f"{network.configuration_dir}/{network.configurations[0]}"
        return f"the runtime does not accept {first}: its own log says why"
    return (
        f"install a network plugin, or write a configuration such as {network.configuration_dir}/10-bridge.conflist"
        " (docs/from-nothing.md has one): there is none, and until then only pods on the host's network start"
    )


def _missing_plugins(info: RuntimeInfo, network: PodNetwork) -> Finding:
    """Report plugins that the configuration names and the runtime cannot find; it may still report a ready network."""
    missing, dirs = ", ".join(network.missing), " or ".join(network.plugin_dirs)
    found = f"no pod with a network of its own starts: the CNI plugins {missing} are not in {dirs}"
    there = network.elsewhere
    if not there:
        return error(NETWORK, found, "install them (Debian, Ubuntu: apt install containernetworking-plugins)")
    link = f"mkdir -p {network.plugin_dirs[0]} && ln -s {there}/* {network.plugin_dirs[0]}"
    line, table = f'bin_dir = "{there}"', "io.containerd.grpc.v1.cri"
    if info.name == "containerd" and _version(info.version) >= (2, 0):
        line, table = f'bin_dirs = ["{there}"]', "io.containerd.cri.v1.runtime"
    written = f'write {line} below [plugins."{table}".cni] in /etc/containerd/config.toml and restart containerd'
    return error(NETWORK, f"{found}; they are in {there}", f"run `{link}`, or {written}")
