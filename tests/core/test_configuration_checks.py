"""The rules a configuration's values must keep, one row each."""

from __future__ import annotations

import pytest

from trikubelet.core.configuration import combine
from trikubelet.core.document import parse_documents

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def problems(text: str) -> list[str]:
    """Return the faults of a configuration with lines separated by "|"."""
    documents, faults = parse_documents(HEAD + text.replace("|", "\n"), "f")
    assert not faults
    return [f"{fault.path}: {fault.problem}" for fault in combine(documents)[1]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("address: localhost", "address: Invalid value: "),
        ("clusterDNS: [10.0.0.1, x]", "clusterDNS[1]: Invalid value: "),
        ("clusterDomain: Cluster.Local", "clusterDomain: Invalid value: "),
        ("staticPodURL: ftp://x", "staticPodURL: Invalid value: "),
        ("staticPodURL: http://", "staticPodURL: Invalid value: "),
        ('staticPodURLHeader: {"a b": [c]}', "staticPodURLHeader[a b]: Invalid value: "),
        ("tlsMinVersion: TLS12", "tlsMinVersion: Unsupported value: "),
        ("tlsCipherSuites: [TLS_AES_128_GCM_SHA256, TLS_RSA]", "tlsCipherSuites[1]: Unsupported value: "),
        ("tlsCertFile: /c", "tlsPrivateKeyFile: Required value: "),
        ("tlsPrivateKeyFile: /c", "tlsCertFile: Required value: "),
        ("syncFrequency: -1s", 'syncFrequency: Invalid value: "-1s": must not be negative'),
        (
            "syncFrequency: 10",
            "syncFrequency: Invalid value: 10: a duration has a unit: write 10s for seconds, or 1m30s",
        ),
        ("memoryThrottlingFactor: 1.5", "memoryThrottlingFactor: Invalid value: 1.5: "),
        ("cpuCFSQuotaPeriod: 2s", 'cpuCFSQuotaPeriod: Invalid value: "2s": must be between 0.001 and 1 seconds'),
        ("oomScoreAdj: 1001", "oomScoreAdj: Invalid value: 1001: must be between -1000 and 1000"),
        ("nodeLeaseDurationSeconds: -1", "nodeLeaseDurationSeconds: Invalid value: -1: must be 1 or more"),
        ("containerLogMonitorInterval: 2s", 'containerLogMonitorInterval: Invalid value: "2s": '),
        ("tracing: {samplingRatePerMillion: 1000001}", "tracing.samplingRatePerMillion: Invalid value: "),
        ("imageGCLowThresholdPercent: 85", "imageGCLowThresholdPercent: Invalid value: 85: "),
        ("imageMaximumGCAge: 2m", 'imageMaximumGCAge: Invalid value: "2m0s": must be more than imageMinimumGCAge'),
        ("maxParallelImagePulls: 2", "maxParallelImagePulls: Invalid value: 2: "),
        ("maxParallelImagePulls: 0", "maxParallelImagePulls: Invalid value: 0: "),
        ("preloadedImagesVerificationAllowlist: [a]", "preloadedImagesVerificationAllowlist: Forbidden: "),
        ("iptablesDropBit: 14", "iptablesDropBit: Invalid value: 14: "),
        ("registerWithTaints: [{key: a/b/c, effect: NoExecute}]", "registerWithTaints[0].key: Invalid value: "),
        ("registerWithTaints: [{key: a, effect: Never}]", "registerWithTaints[0].effect: Unsupported value: "),
        ("registerWithTaints: [{key: a, value: ' ', effect: NoExecute}]", "registerWithTaints[0].value: Invalid"),
        (
            "registerWithTaints: [{key: a, effect: NoExecute}, {key: a, value: b, effect: NoExecute}]",
            "registerWithTaints[1]: Duplicate value: ",
        ),
        ("serverTLSBootstrap: true|featureGates: {RotateKubeletServerCertificate: false}", "serverTLSBootstrap: F"),
        ("logging: {vmodule: [{filePattern: '', verbosity: 1}]}", "logging.vmodule[0].filePattern: Required value"),
        ("shutdownGracePeriod: 500ms", 'shutdownGracePeriod: Invalid value: "500ms": '),
        ("shutdownGracePeriodCriticalPods: 5s", 'shutdownGracePeriodCriticalPods: Invalid value: "5s": '),
        ("shutdownGracePeriod: -5s", 'shutdownGracePeriod: Invalid value: "-5s": must not be negative'),
        (
            "shutdownGracePeriod: 5s|shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]",
            "shutdownGracePeriodByPodPriority: Forbidden: ",
        ),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: -1}]",
            "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: Invalid value: -1: ",
        ),
        ("podLogsDir: logs", "podLogsDir: Invalid value: "),
        ("podLogsDir: /var/../logs", "podLogsDir: Invalid value: "),
        ("podLogsDir: /var/logé", "podLogsDir: Invalid value: "),
        ("allowedUnsafeSysctls: ['kernel.*', 'No!']", "allowedUnsafeSysctls[1]: Invalid value: "),
        ("userNamespaces: {idsPerPod: 65537}", "userNamespaces.idsPerPod: Invalid value: 65537: "),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 500ms}", "crashLoopBackOff.maxContainerRestartPeriod: Invalid"),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5s}|featureGates: {KubeletCrashLoopBackOffMax: false}",
            "crashLoopBackOff.maxContainerRestartPeriod: Forbidden: ",
        ),
        ("qosReserved: {memory: 50%}", "qosReserved: Forbidden: "),
        ("qosReserved: {cpu: 50%}|featureGates: {QOSReserved: true}", "qosReserved[cpu]: Unsupported value: "),
        (
            "memoryReservationPolicy: TieredReservation|featureGates: {MemoryQoS: false}",
            "memoryReservationPolicy: Forbidden: ",
        ),
        ("containerLogMaxSize: much", "containerLogMaxSize: Invalid value: "),
        ("containerLogMaxSize: 0", "containerLogMaxSize: Invalid value: "),
        ("containerLogMaxWorkers: 0", "containerLogMaxWorkers: Invalid value: 0: "),
        ("containerLogMaxFiles: 1", "containerLogMaxFiles: Invalid value: 1: "),
        ("kubeReserved: {gpu: '1'}", "kubeReserved[gpu]: Unsupported value: "),
        ("systemReserved: {memory: -1Gi}", "systemReserved[memory]: Invalid value: "),
        ("reservedSystemCPUs: 3-1", "reservedSystemCPUs: Invalid value: "),
        ("reservedSystemCPUs: all", "reservedSystemCPUs: Invalid value: "),
        ("reservedMemory: [{numaNode: -1, limits: {memory: 1Gi}}]", "reservedMemory[0].numaNode: Invalid value: "),
        ("reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]", "reservedMemory[0].limits[cpu]: Unsupported value: "),
        ("enforceNodeAllocatable: [pods, none]", "enforceNodeAllocatable: Forbidden: "),
        ("enforceNodeAllocatable: [pods, pods]", "enforceNodeAllocatable[1]: Duplicate value: "),
        ("enforceNodeAllocatable: [pod]", "enforceNodeAllocatable[0]: Unsupported value: "),
        ("enforceNodeAllocatable: [kube-reserved]", "kubeReservedCgroup: Required value: "),
        (
            "enforceNodeAllocatable: [kube-reserved]|kubeReservedCgroup: /",
            'kubeReservedCgroup: Invalid value: "/": must be a cgroup\'s path below the root',
        ),
        (
            "enforceNodeAllocatable: [system-reserved]|systemReservedCgroup: /../a",
            'systemReservedCgroup: Invalid value: "/../a": must be a cgroup\'s path below the root',
        ),
        ("cgroupsPerQOS: false", "enforceNodeAllocatable: Forbidden: "),
        ("evictionHard: {memory: 5%}", "evictionHard[memory]: Unsupported value: "),
        ("evictionHard: {memory.available: '0'}", "evictionHard[memory.available]: Invalid value: "),
        (
            "evictionSoft: {memory.available: 0Mi}|evictionSoftGracePeriod: {memory.available: 1m}",
            "evictionSoft[memory.available]: Invalid value: ",
        ),
        ("evictionMinimumReclaim: {memory.available: 0%}", "evictionMinimumReclaim[memory.available]: Invalid value: "),
        ("evictionHard: {memory.available: 101%}", "evictionHard[memory.available]: Invalid value: "),
        ("evictionSoft: {memory.available: 5%}", "evictionSoftGracePeriod[memory.available]: Required value: "),
        (
            "evictionSoft: {memory.available: 5%}|evictionSoftGracePeriod: {memory.available: soon}",
            "evictionSoftGracePeriod[memory.available]: Invalid value: ",
        ),
    ],
)
def test_a_broken_rule_is_one_fault_of_its_field(text: str, said: str) -> None:
    [problem] = problems(text)

    assert problem.startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "clusterDomain: cluster.local.",
        "podLogsDir: /var/log/pods",
        "serializeImagePulls: false|maxParallelImagePulls: 8",
        "cgroupsPerQOS: false|enforceNodeAllocatable: []",
        "shutdownGracePeriod: 30s|shutdownGracePeriodCriticalPods: 10s",
        "crashLoopBackOff: {maxContainerRestartPeriod: 300s}",
        "evictionSoft: {memory.available: 300Mi}|evictionSoftGracePeriod: {memory.available: 1m30s}",
        "enforceNodeAllocatable: [pods, kube-reserved]|kubeReservedCgroup: /kube|kubeReserved: {cpu: 100m}",
        "reservedSystemCPUs: 0-1,4",
        "healthzPort: 0",
        "volumeStatsAggPeriod: -1s",
        "containerLogMaxSize: 1048576",
        "containerLogMaxSize: '-1'",
        "registerWithTaints: [{key: a, effect: NoExecute}, {key: a, effect: NoSchedule}]",
    ],
)
def test_what_keeps_the_rules_is_taken(text: str) -> None:
    assert [] == problems(text)
