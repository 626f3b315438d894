"""Combines flags and files into ``Settings``: everything that the composition root needs, decided and typed.

    --config file ─┐
    --config-dir ──┼─► documents ─► core.configuration ─► Effective ─┐
    flags ─────────┘                                                 ├─► Settings
    user, environment, host name ────────────────────────────────────┘

They are read once, before anything runs. All faults are reported together, as one StartFailed with a line per fault.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trikubelet.app.credential_plugins import find_plugins
from trikubelet.app.endpoint import INSIDE, EndpointChoice, choose_endpoint
from trikubelet.app.flags import said_by_flags_alone
from trikubelet.app.paths import Places, places_for
from trikubelet.app.root_dir import runtime_record
from trikubelet.app.served import NOT_SERVED, api_port, obstacles
from trikubelet.core.configuration import Decoding, Effective, as_written, combine, sort_faults
from trikubelet.core.devices.inventory import GRACE_SECONDS
from trikubelet.core.document import Document, parse_documents
from trikubelet.core.node_addresses import ANY_IPV4, ANY_IPV6, node_ip_problem, node_ips_problem
from trikubelet.core.node_status.own_labels import label_faults
from trikubelet.core.unknown_pods import MEANS
from trikubelet.kit.named_file import read_named
from trikubelet.model.duration import format_duration, parse_span
from trikubelet.model.errors import StartFailed
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Frozen
from trikubelet.model.names import canonical_ip, ip_problem, subdomain_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trikubelet.app.endpoint import RuntimeRecord
    from trikubelet.app.flags import AgentFlags
    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.kubelet_configuration import KubeletConfiguration

_PATHS = (
    ("staticPodPath",),
    ("tlsCertFile",),
    ("tlsPrivateKeyFile",),
    ("authentication", "x509", "clientCAFile"),
)
"""Fields that hold a path, which is relative to the configuration file."""

EXTERNAL_CLOUD = "external"
"""The only cloud provider since upstream removed the built-in ones (1.31): others are rejected, like upstream."""

KUBECTL_ADDRESS = "127.0.0.1"
"""The address on which kubectl is served, with ``kubectl_port``: only for this machine's own users."""
_PORT_MAX = 65535
_MESSAGE_MIB = range(16, 257)
"""Upstream's limit, to that of a list with all its parts."""
_STOP_SECONDS_MAX = 3600
"""Seconds: a service manager and its operator wait no longer when they stop the agent."""


class Surroundings(Frozen):
    """The environment of the process: its user, its variables, the host's name."""

    uid: int
    environment: Mapping[str, str]
    hostname: str
    root: Path = Path("/")
    """The directory to search for sockets of runtimes and records of root directories."""


class Settings(Frozen):
    """The agent's settings, from start to end.

    ``runtime``: the container runtime to use and why; ``runtime_cgroups``: the cgroup of its processes, or empty;
    ``runtime_message_bytes_max``: the longest reply; ``embedded_stop_seconds``: the time for pods of the embedded one
    when the agent stops, 0: none; ``device_wait_seconds``: how long pods wait for a device plugin that is away;
    ``ends_unknown_pods``: also end orphans that the root directory does not know;
    ``unknown_pods_means``: how an operator has them ended; ``shares_runtime``: the agent starts next to another one;
    ``image_endpoint``: as configured, or empty. ``image_directory``: that of image archives, or None. ``node_ips``: the
    addresses of ``--node-ip``; ``node_ip_family``: ``0.0.0.0`` or ``::`` if it is that, or empty. ``manifest_path``: a
    directory or file of static pods, or None. ``run_dir``: for sockets. ``api_port``: the port of the node's API over
    HTTPS, ``kubectl_port``: that on the loopback for kubectl; 0 if not served. ``provenance``: for each given field
    (``maxPods``) and flag (``--root-dir``), where it was set; ``flags``: the values of flags that set no field.
    ``warnings`` and ``notes``: lines to log at start.
    """

    node_name: str
    node_ips: tuple[str, ...]
    node_ip_family: str
    node_labels: Mapping[str, str]
    external_cloud: bool
    standalone: bool
    kubeconfig: str
    bootstrap_kubeconfig: str
    runtime: EndpointChoice
    runtime_cgroups: str
    runtime_message_bytes_max: int
    embedded_stop_seconds: int
    device_wait_seconds: float
    ends_unknown_pods: bool
    unknown_pods_means: str
    shares_runtime: bool
    image_endpoint: str
    image_directory: Path | None
    root_dir: Path
    pod_logs_dir: Path
    container_logs_dir: Path
    cert_dir: Path
    credential_plugins: tuple[CredentialPlugin, ...]
    credential_plugin_dir: Path
    run_dir: Path
    manifest_path: str | None
    manifest_url: str
    manifest_url_headers: Mapping[str, tuple[str, ...]]
    api_port: int
    kubectl_port: int
    lock_file: Path | None
    exit_on_lock_contention: bool
    effective: Effective
    flags: Mapping[str, str]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def configuration(self) -> KubeletConfiguration:
        """Return the effective configuration."""
        return self.effective.configuration

    @property
    def provenance(self) -> Mapping[str, str]:
        """Return where each value was set, by field path or flag; values without an entry are defaults."""
        return {**self.effective.provenance, **{flag: f"flag {flag}" for flag in self.flags}}

    @property
    def kubectl_dir(self) -> Path:
        """Return the directory of certificate and token for the clients of ``--kubectl-port``."""
        return self.root_dir / "kubectl"

    @property
    def verbosity(self) -> int:
        """Return the level of ``-v``."""
        return self.configuration.logging.verbosity

    def gate(self, name: str) -> bool:
        """True if a feature gate is on. Raises KeyError for an unknown name."""
        return self.effective.gates.enabled(name)


def load_settings(flags: AgentFlags, surroundings: Surroundings) -> Settings:
    """Read the files that the flags name and combine all settings. Raises StartFailed with all faults, one line
    each."""
    if flags.show:  # the other flags were not parsed: these settings would be another agent's
        raise StartFailed(f"--{flags.show} only prints and starts no agent: leave it out")
    faults = list(flags.faults)
    notes: list[str] = []
    paths = _paths(flags, faults, notes)
    decoding = Decoding.STRICT if flags.strict_config else Decoding.LENIENT
    documents, unread = _documents(paths)
    unread, ignored = sort_faults(unread, decoding)
    effective, wrong = combine([*map(_with_absolute_paths, documents)], flags.settings, decoding)
    faults = as_written([*faults, *unread, *wrong], [*map(str, paths)])
    faults += _conflicts(flags)
    node_name = (flags.hostname_override.strip() or surroundings.hostname.strip()).lower()
    if problem := subdomain_problem(node_name):
        source = "--hostname-override" if flags.hostname_override else "the host's name"
        faults.append(Fault(source, None, "", f"{node_name!r} {problem}", "give the node a name: --hostname-override"))
    standalone = flags.standalone or not flags.kubeconfig
    faults += _node_ip_faults(flags, standalone=standalone)
    faults += [Fault("--node-labels", None, "", *fault) for fault in label_faults(flags.node_labels)]
    plugins, wrong = find_plugins(
        _absolute_or_none(flags.image_credential_provider_config),
        _absolute_or_none(flags.image_credential_provider_bin_dir),
    )
    faults += wrong
    if effective is not None:
        faults += obstacles(effective.configuration, effective.provenance, standalone=standalone)
    if effective is None or faults:
        raise StartFailed("\n".join(map(str, faults)))
    named = effective.configuration.container_runtime_endpoint
    root_dir = flags.root_dir and _absolute(flags.root_dir)
    places = partial(places_for, surroundings.uid, surroundings.environment, root_dir)
    records = [] if named or not flags.standalone else _records(places, surroundings.root)
    runtime = choose_endpoint(named, standalone=flags.standalone, records=records, root=surroundings.root)
    if flags.image_directory and runtime.inside:
        raise StartFailed(f"--image-directory: {runtime.endpoint} imports no images (use containerd or CRI-O)")
    ignored = as_written([*ignored, *effective.warnings], [*map(str, paths)])
    effective = replace(effective, warnings=tuple(ignored))
    return _settings(flags, effective, runtime, places(inside=runtime.inside), node_name, plugins, notes)


def _records(places: Callable[..., Places], root: Path) -> list[RuntimeRecord]:
    """Return the recorded runtimes of the root directories that this agent may have. Root has another directory on the
    embedded runtime; pods on a real one may still run, so its record comes first."""
    found = []
    for place in dict.fromkeys(places(inside=one) for one in (False, True)):
        record = runtime_record(root / place.root_dir.relative_to("/"))
        # An agent on that runtime must get the same root directory, or the record is of another agent.
        if record is not None and places(inside=record.endpoint in INSIDE) == place:
            found.append(record)
    return found


def _node_ip_faults(flags: AgentFlags, *, standalone: bool) -> Iterator[Fault]:
    """Yield faults of the form only. The machine may not have these addresses yet, because its network may come
    later."""
    problems = [ip_problem(one) or node_ip_problem(one, standalone=standalone) for one in flags.node_ip]
    for address, problem in zip(flags.node_ip, problems, strict=True):
        if problem:
            yield Fault("--node-ip", None, "", f"{address!r} {problem}")
    if not any(problems) and (problem := node_ips_problem([*map(canonical_ip, flags.node_ip)])):
        yield Fault("--node-ip", None, "", f"{','.join(flags.node_ip)!r} {problem}")


def _settings(
    flags: AgentFlags,
    effective: Effective,
    runtime: EndpointChoice,
    places: Places,
    node_name: str,
    plugins: tuple[CredentialPlugin, ...],
    notes: list[str],
) -> Settings:
    configuration, node_ips = effective.configuration, [*map(canonical_ip, flags.node_ip)]
    logs = Path(configuration.pod_logs_dir) if "podLogsDir" in effective.provenance else places.pod_logs_dir
    standalone = flags.standalone or not flags.kubeconfig
    if standalone and not flags.standalone:
        notes.append("No --kubeconfig is given: running standalone, with static pods only")
    manifests = configuration.static_pod_path or None
    if manifests is not None:
        manifests = _absolute(manifests)
    elif standalone and not configuration.static_pod_url:
        manifests = str(places.manifests)
        notes.append(f"Neither staticPodPath nor staticPodURL is given: static pods are looked for in {manifests}")
    port = api_port(configuration, standalone=standalone)
    if configuration.enable_server and not port:
        notes.append(NOT_SERVED)
    return Settings(
        node_name=node_name,
        node_ips=tuple(one for one in node_ips if one not in (ANY_IPV4, ANY_IPV6)),
        node_ip_family=next((one for one in node_ips if one in (ANY_IPV4, ANY_IPV6)), ""),
        node_labels=flags.node_labels,
        external_cloud=flags.cloud_provider == EXTERNAL_CLOUD,
        standalone=standalone,
        kubeconfig=flags.kubeconfig and _absolute(flags.kubeconfig),
        bootstrap_kubeconfig=flags.bootstrap_kubeconfig and _absolute(flags.bootstrap_kubeconfig),
        runtime=runtime,
        runtime_cgroups=flags.runtime_cgroups,
        runtime_message_bytes_max=flags.runtime_message_mib * 2**20,
        embedded_stop_seconds=_stop_seconds(flags.embedded_stop_grace_period),
        device_wait_seconds=_device_wait_seconds(flags.device_plugin_wait),
        ends_unknown_pods=flags.end_unknown_pods,
        unknown_pods_means=MEANS,
        shares_runtime=flags.share_runtime,
        image_endpoint=configuration.image_service_endpoint,
        image_directory=_absolute_or_none(flags.image_directory),
        root_dir=places.root_dir,
        pod_logs_dir=logs,
        container_logs_dir=places.container_logs_dir,
        cert_dir=Path(_absolute(flags.cert_dir)) if flags.cert_dir else places.root_dir / "pki",
        credential_plugins=plugins,
        credential_plugin_dir=_absolute_or_none(flags.image_credential_provider_bin_dir) or Path(),
        run_dir=places.run_dir,
        manifest_path=manifests,
        manifest_url=configuration.static_pod_url,
        manifest_url_headers=configuration.static_pod_url_header,
        api_port=port,
        kubectl_port=flags.kubectl_port,
        lock_file=Path(_absolute(flags.lock_file)) if flags.lock_file else None,
        exit_on_lock_contention=flags.exit_on_lock_contention,
        effective=effective,
        flags=said_by_flags_alone(flags),
        warnings=tuple(_warnings(flags, effective)),
        notes=tuple(notes),
    )


def _paths(flags: AgentFlags, faults: list[Fault], notes: list[str]) -> list[Path]:
    """Return the configuration file and its drop-ins, in order."""
    paths = [Path(_absolute(flags.config))] if flags.config else []
    if flags.config_dir:
        paths += _drop_ins(Path(_absolute(flags.config_dir)), faults, notes)
    return paths


def _documents(paths: Sequence[Path]) -> tuple[list[Document], list[Fault]]:
    """Return the documents of the files, and the faults of their text."""
    documents: list[Document] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            found, wrong = parse_documents(read_named(path), str(path))
        except OSError as error:
            faults.append(Fault(str(path), None, "", f"cannot be read: {error.strerror}"))
            continue
        if not found and not wrong:
            wrong = [Fault(str(path), 1, "", "the file is empty", "write a KubeletConfiguration or remove it")]
        wrong += [
            Fault(str(path), more.line(""), "", "a second document", "put one KubeletConfiguration into one file")
            for more in found[1:]
        ]
        faults += wrong
        documents += found[:1]
    return documents, faults


def _drop_ins(directory: Path, faults: list[Fault], notes: list[str]) -> list[Path]:
    """Return the ``*.conf`` files below a directory, in lexical order."""
    try:
        found = sorted(directory.iterdir())
    except OSError as error:
        faults.append(Fault("--config-dir", None, "", f"{directory} cannot be read: {error.strerror}"))
        return []
    paths = []
    for path in found:
        if path.is_dir():
            paths += _drop_ins(path, faults, notes)
        elif path.suffix == ".conf":
            paths.append(path)
        else:
            notes.append(f"{path} is not a drop-in, because its name does not end in .conf: ignored")
    return paths


def _conflicts(flags: AgentFlags) -> list[Fault]:
    """Return faults for flags that exclude each other, or that have an unsupported value."""
    faults = []
    if flags.standalone and (flags.kubeconfig or flags.bootstrap_kubeconfig):
        remedy = "leave one of the two out"
        faults.append(Fault("--standalone", None, "", "it means no API server, but --kubeconfig names one", remedy))
    if flags.bootstrap_kubeconfig and not flags.kubeconfig:
        faults.append(Fault("--bootstrap-kubeconfig", None, "", "needs --kubeconfig, to which its result is written"))
    if flags.cloud_provider not in ("", EXTERNAL_CLOUD):
        problem = f"{flags.cloud_provider!r} is unknown: no cloud provider is built in"
        remedy = "write --cloud-provider=external and run the cloud's own controller"
        faults.append(Fault("--cloud-provider", None, "", problem, remedy))
    if not 0 <= flags.kubectl_port <= _PORT_MAX:
        faults.append(Fault("--kubectl-port", None, "", f"{flags.kubectl_port} is not a port", f"0 to {_PORT_MAX}"))
    if flags.kubectl_port and flags.kubeconfig:
        remedy = "leave one of the two out: in a cluster kubectl uses the API server"
        faults.append(Fault("--kubectl-port", None, "", "is for a node without a cluster", remedy))
    if flags.runtime_message_mib not in _MESSAGE_MIB:
        problem = f"{flags.runtime_message_mib} MiB is not a valid limit of a message"
        faults.append(Fault("--runtime-message-mib", None, "", problem, f"{_MESSAGE_MIB[0]} to {_MESSAGE_MIB[-1]}"))
    try:
        _stop_seconds(flags.embedded_stop_grace_period)
    except ValueError as error:
        faults.append(Fault("--embedded-stop-grace-period", None, "", str(error), "write it as in 30s or 2m"))
    try:
        _device_wait_seconds(flags.device_plugin_wait)
    except ValueError as error:
        faults.append(Fault("--device-plugin-wait", None, "", str(error), "write it as in 30s or 2m"))
    if flags.exit_on_lock_contention and not flags.lock_file:
        faults.append(Fault("--exit-on-lock-contention", None, "", "needs --lock-file"))
    return faults


def _stop_seconds(text: str) -> int:
    """Return whole seconds, rounded up, because containers are stopped with such. Raises ValueError."""
    seconds = math.ceil(parse_span(text))
    if seconds > _STOP_SECONDS_MAX:
        raise ValueError(f"{text!r} is longer than {format_duration(_STOP_SECONDS_MAX)}")
    return seconds


def _device_wait_seconds(text: str) -> float:
    """Return the time that pods wait for a device plugin. Raises ValueError."""
    seconds = parse_span(text)
    if seconds > GRACE_SECONDS:
        raise ValueError(f"{text!r} is longer than {format_duration(GRACE_SECONDS)}")
    return seconds


def _warnings(flags: AgentFlags, effective: Effective) -> Iterator[str]:
    """Yield a warning for each field that is ignored, and one about all settings without effect."""
    yield from map(str, effective.warnings)
    if idle := (*flags.without_effect, *effective.without_effect):
        places = [f"{name} ({effective.provenance[name]})" if name in effective.provenance else name for name in idle]
        yield f"These settings have no effect in this version of the agent: {', '.join(places)}"


def _with_absolute_paths(document: Document) -> Document:
    """Return the document with its relative paths made absolute, relative to the file's directory."""
    value: Any = document.value
    for place in _PATHS:
        value = _resolved(value, place, Path(document.source).parent)
    return replace(document, value=value)


def _resolved(value: Any, place: tuple[str, ...], directory: Path) -> Any:
    name, *rest = place
    if not isinstance(value, dict) or name not in value:
        return value
    inner = value[name]
    if rest:
        return {**value, name: _resolved(inner, tuple(rest), directory)}
    return {**value, name: str(directory / inner)} if isinstance(inner, str) and inner else value


def _absolute(path: str) -> str:
    """Raises StartFailed for a relative path whose base directory is unknown."""
    try:
        return str(Path(path).absolute())
    except FileNotFoundError as error:
        raise StartFailed(f"{path}: the working directory is gone: write an absolute path") from error


def _absolute_or_none(path: str) -> Path | None:
    return Path(_absolute(path)) if path else None
