"""Upstream's rules for the values of a configuration, alone and together; reports every rule that is broken.

``core.structure`` has checked types, enumerations and 32-bit numbers before. The users of a value check rules that
depend on the machine (does the file exist, is swap on).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from trikubelet.core.configuration import resources
from trikubelet.core.manifest.problem import Problem, Problems, duplicate, forbidden, invalid, one_of, required
from trikubelet.core.pull_rights import allowlist_problem
from trikubelet.model import names
from trikubelet.model.api_names import attributes
from trikubelet.model.duration import format_duration
from trikubelet.model.feature_gates import FeatureGates
from trikubelet.model.tls import SUITES_OF_1_2, SUITES_OF_1_3, TLS_VERSIONS

if TYPE_CHECKING:
    import msgspec

    from trikubelet.model.kubelet_configuration import KubeletConfiguration

_MANY: Final = 2**63 - 1
_FORMER_THROTTLING: Final = 0.9
"""The default of memoryThrottlingFactor before 1.37; many files have it, and it has no effect."""
_RANGES: Final = {
    "crashLoopBackOff.maxContainerRestartPeriod": (1, 300),
    "cpuCFSQuotaPeriod": (0.001, 1),
    "containerLogMaxFiles": (2, _MANY),
    "containerLogMaxWorkers": (1, _MANY),
    "containerLogMonitorInterval": (3, _MANY),
    "eventBurst": (0, _MANY),
    "eventRecordQPS": (0, _MANY),
    "evictionMaxPodGracePeriod": (0, _MANY),
    "healthzPort": (0, names.PORT_MAX),
    "imageGCHighThresholdPercent": (0, 100),
    "imageGCLowThresholdPercent": (0, 100),
    "iptablesDropBit": (0, 31),
    "iptablesMasqueradeBit": (0, 31),
    "kubeAPIBurst": (0, _MANY),
    "kubeAPIQPS": (0, _MANY),
    "logging.verbosity": (0, _MANY),
    "maxOpenFiles": (0, _MANY),
    "maxParallelImagePulls": (1, _MANY),
    "maxPods": (0, _MANY),
    "nodeLeaseDurationSeconds": (1, _MANY),
    "nodeStatusMaxImages": (-1, _MANY),
    "oomScoreAdj": (-1000, 1000),
    "podPidsLimit": (-1, _MANY),
    "podsPerCore": (0, _MANY),
    "port": (1, names.PORT_MAX),
    "readOnlyPort": (0, names.PORT_MAX),
    "registryBurst": (0, _MANY),
    "registryPullQPS": (0, _MANY),
    "tracing.samplingRatePerMillion": (0, 1_000_000),
}
"""The smallest and the largest value of a field; durations in seconds."""

_PERIODS: Final = (
    "authentication.webhook.cacheTTL",
    "authorization.webhook.cacheAuthorizedTTL",
    "authorization.webhook.cacheUnauthorizedTTL",
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "logging.flushFrequency",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
)
"""Durations that must not be negative."""

_IDS_PER_POD: Final = 65536


def problems(configuration: KubeletConfiguration) -> Iterator[Problem]:
    """Yield all faults of a configuration whose types are right."""
    return chain(
        _ranges(configuration),
        _addresses(configuration),
        _images(configuration),
        _node(configuration),
        _shutdown(configuration),
        _pods(configuration),
        _features(configuration),
        resources.problems(configuration),
    )


def value_at(record: Any, path: str) -> Any:
    """Return the value at a field path through records; None if one of them is None."""
    for name in path.split("."):
        if record is None:
            return None
        type_: type[msgspec.Struct] = type(record)
        record = getattr(record, attributes(type_)[name])
    return record


def _ranges(c: KubeletConfiguration) -> Problems:
    for path, (low, high) in _RANGES.items():
        value = value_at(c, path)
        if value is not None and not low <= value <= high:
            unit = " seconds" if type(value) is float else ""
            wanted = f"{low} or more" if high == _MANY else f"between {low} and {high}"
            yield _invalid_period(path, value, f"must be {wanted}{unit}")
    for path in _PERIODS:
        if (value := value_at(c, path)) < 0:
            yield _invalid_period(path, value, "must not be negative")
    if c.memory_throttling_factor is not None and not 0 < c.memory_throttling_factor <= 1:
        yield invalid("memoryThrottlingFactor", c.memory_throttling_factor, "must be more than 0 and at most 1")


def _invalid_period(path: str, value: Any, detail: str) -> Problem:
    """Return the fault; values in seconds are shown as durations, others as they are."""
    return invalid(path, format_duration(value) if type(value) is float else value, detail)


def _addresses(c: KubeletConfiguration) -> Problems:
    for path in ("address", "healthzBindAddress"):
        if problem := names.ip_problem(value_at(c, path)):
            yield invalid(path, value_at(c, path), problem)
    for n, address in enumerate(c.cluster_dns):
        if problem := names.ip_problem(address):
            yield invalid(f"clusterDNS[{n}]", address, problem)
    if c.cluster_domain and (problem := names.subdomain_problem(c.cluster_domain.removesuffix("."))):
        yield invalid("clusterDomain", c.cluster_domain, problem)
    if c.static_pod_url and (problem := names.url_problem(c.static_pod_url)):
        yield invalid("staticPodURL", c.static_pod_url, problem)
    for name in c.static_pod_url_header:
        if problem := names.header_problem(name):
            yield invalid(f"staticPodURLHeader[{name}]", name, problem)
    yield from one_of("tlsMinVersion", c.tls_min_version, TLS_VERSIONS)
    for n, suite in enumerate(c.tls_cipher_suites):
        yield from one_of(f"tlsCipherSuites[{n}]", suite, (*SUITES_OF_1_3, *SUITES_OF_1_2))
    if bool(c.tls_cert_file) != bool(c.tls_private_key_file):
        given, missing = "tlsCertFile", "tlsPrivateKeyFile"
        if c.tls_private_key_file:
            given, missing = missing, given
        yield required(missing, f"{given} is given, and a certificate and its key come together")


def _images(c: KubeletConfiguration) -> Problems:
    if c.image_gc_low_threshold_percent >= c.image_gc_high_threshold_percent:
        detail = f"must be less than imageGCHighThresholdPercent, {c.image_gc_high_threshold_percent}"
        yield invalid("imageGCLowThresholdPercent", c.image_gc_low_threshold_percent, detail)
    if 0 < c.image_maximum_gc_age <= c.image_minimum_gc_age:
        detail = f"must be more than imageMinimumGCAge, {format_duration(c.image_minimum_gc_age)}"
        yield _invalid_period("imageMaximumGCAge", c.image_maximum_gc_age, detail)
    if c.serialize_image_pulls and c.max_parallel_image_pulls is not None and c.max_parallel_image_pulls > 1:
        detail = "must be 1 unless serializeImagePulls is false"
        yield invalid("maxParallelImagePulls", c.max_parallel_image_pulls, detail)
    allows = c.image_pull_credentials_verification_policy == "NeverVerifyAllowlistedImages"
    if c.preloaded_images_verification_allowlist and not allows:
        detail = "needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages"
        yield forbidden("preloadedImagesVerificationAllowlist", detail)
    for index, pattern in enumerate(c.preloaded_images_verification_allowlist):
        if problem := allowlist_problem(pattern):
            yield invalid(f"preloadedImagesVerificationAllowlist[{index}]", pattern, problem)


def _node(c: KubeletConfiguration) -> Problems:
    if c.iptables_drop_bit == c.iptables_masquerade_bit:
        yield invalid("iptablesDropBit", c.iptables_drop_bit, "must differ from iptablesMasqueradeBit")
    seen = set()
    for n, taint in enumerate(c.register_with_taints):
        path = f"registerWithTaints[{n}]"
        if problem := names.qualified_name_problem(taint.key):
            yield invalid(f"{path}.key", taint.key, problem)
        if problem := names.label_value_problem(taint.value):
            yield invalid(f"{path}.value", taint.value, problem)
        yield from one_of(f"{path}.effect", taint.effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
        if (taint.key, taint.effect) in seen:
            yield duplicate(path, f"{taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))
    gates = FeatureGates(c.feature_gates)
    if c.server_tls_bootstrap and not gates.enabled("RotateKubeletServerCertificate"):
        yield forbidden("serverTLSBootstrap", "needs the feature gate RotateKubeletServerCertificate")
    for n, pattern in enumerate(c.logging.vmodule):
        if not pattern.file_pattern:
            yield required(f"logging.vmodule[{n}].filePattern")


def _shutdown(c: KubeletConfiguration) -> Problems:
    total, critical = c.shutdown_grace_period, c.shutdown_grace_period_critical_pods
    for path, value in (("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)):
        if 0 < value < 1:
            yield _invalid_period(path, value, "must be 0 or at least 1 second")
    if critical > total >= 0:  # a negative total was reported already
        detail = f"must be no more than shutdownGracePeriod, {format_duration(total)}"
        yield _invalid_period("shutdownGracePeriodCriticalPods", critical, detail)
    groups = c.shutdown_grace_period_by_pod_priority
    if groups and (total or critical):
        detail = "cannot stand beside shutdownGracePeriod and shutdownGracePeriodCriticalPods"
        yield forbidden("shutdownGracePeriodByPodPriority", detail)
    seen = set()
    for n, group in enumerate(groups):
        path = f"shutdownGracePeriodByPodPriority[{n}]"
        if group.shutdown_grace_period_seconds < 0:
            yield invalid(
                f"{path}.shutdownGracePeriodSeconds", group.shutdown_grace_period_seconds, "must be 0 or more"
            )
        if group.priority in seen:
            yield duplicate(f"{path}.priority", group.priority)
        seen.add(group.priority)


def _pods(c: KubeletConfiguration) -> Problems:
    parts = c.pod_logs_dir.removesuffix("/").split("/")
    if not c.pod_logs_dir.startswith("/"):
        yield invalid("podLogsDir", c.pod_logs_dir, "must be an absolute path")
    elif "" in parts[1:] or "." in parts or ".." in parts:
        yield invalid("podLogsDir", c.pod_logs_dir, "must not contain empty parts, '.' or '..'")
    if not c.pod_logs_dir.isascii():
        yield invalid("podLogsDir", c.pod_logs_dir, "must be ASCII: logs could not be found below it otherwise")
    for n, name in enumerate(c.allowed_unsafe_sysctls):
        if problem := names.sysctl_problem(name.removesuffix("*").rstrip("./")):
            yield invalid(f"allowedUnsafeSysctls[{n}]", name, f"{problem}, and may end in '*'")
    if c.user_namespaces is not None:
        ids = c.user_namespaces.ids_per_pod
        if ids < _IDS_PER_POD or ids % _IDS_PER_POD or ids > 2**32:
            yield invalid("userNamespaces.idsPerPod", ids, f"must be a multiple of {_IDS_PER_POD}, at most 2^32")


def _features(c: KubeletConfiguration) -> Problems:
    """Yield faults of fields that mean nothing while their feature is off."""
    gates = FeatureGates(c.feature_gates)
    backoff = c.crash_loop_back_off.max_container_restart_period
    if backoff is not None and not gates.enabled("KubeletCrashLoopBackOffMax"):
        yield forbidden(
            "crashLoopBackOff.maxContainerRestartPeriod", "needs the feature gate KubeletCrashLoopBackOffMax"
        )
    if c.shutdown_grace_period > 0 and not gates.enabled("GracefulNodeShutdown"):
        yield forbidden("shutdownGracePeriod", "needs the feature gate GracefulNodeShutdown")
    if c.shutdown_grace_period_by_pod_priority and not gates.enabled("GracefulNodeShutdownBasedOnPodPriority"):
        detail = "needs the feature gate GracefulNodeShutdownBasedOnPodPriority"
        yield forbidden("shutdownGracePeriodByPodPriority", detail)
    if c.qos_reserved and not gates.enabled("QOSReserved"):
        yield forbidden("qosReserved", "needs the feature gate QOSReserved")
    if c.memory_throttling_factor not in (None, _FORMER_THROTTLING) and not gates.enabled("MemoryQoS"):
        yield forbidden("memoryThrottlingFactor", "needs the feature gate MemoryQoS")
    if c.default_pod_sysctls and not gates.enabled("DefaultPodSysctls"):
        yield forbidden("defaultPodSysctls", "needs the feature gate DefaultPodSysctls")
    if c.memory_reservation_policy != "None" and not gates.enabled("MemoryQoS"):
        yield forbidden("memoryReservationPolicy", "needs the feature gate MemoryQoS")
