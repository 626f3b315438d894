"""The effective configuration: layers, defaults, provenance, and every fault at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trikubelet.core.configuration import Effective, FieldSetting, combine
from trikubelet.core.configuration.effect import without_effect_embedded, without_effect_in_version_1
from trikubelet.core.document import parse_documents
from trikubelet.core.support.configuration import HONOURED_GATES
from trikubelet.model.api_names import fields_of
from trikubelet.model.feature_gates import GATES
from trikubelet.model.kubelet_configuration import ZERO_IS_A_VALUE, KubeletConfiguration, MemorySwap

if TYPE_CHECKING:
    from trikubelet.core.document import Document

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

# Upstream's fields with their defaults, as its documentation has them; "" and [] and {} for none.
UPSTREAM = """
enableServer=true staticPodPath="" podLogsDir="/var/log/pods" syncFrequency=60.0 fileCheckFrequency=20.0
httpCheckFrequency=20.0 staticPodURL="" staticPodURLHeader={} address="0.0.0.0" port=10250 readOnlyPort=0 tlsCertFile=""
tlsPrivateKeyFile="" tlsCipherSuites=[] tlsCurvePreferences=[] tlsMinVersion="" rotateCertificates=false
serverTLSBootstrap=false registryPullQPS=5 registryBurst=10
imagePullCredentialsVerificationPolicy="NeverVerifyPreloadedImages" preloadedImagesVerificationAllowlist=[]
eventRecordQPS=50 eventBurst=100 enableDebuggingHandlers=true enableContentionProfiling=false healthzPort=10248
healthzBindAddress="127.0.0.1" oomScoreAdj=-999 clusterDomain="" clusterDNS=[] streamingConnectionIdleTimeout=14400.0
nodeStatusUpdateFrequency=10.0 nodeStatusReportFrequency=300.0 nodeLeaseDurationSeconds=40 imageMinimumGCAge=120.0
imageMaximumGCAge=0.0 imageGCHighThresholdPercent=85 imageGCLowThresholdPercent=80 volumeStatsAggPeriod=60.0
kubeletCgroups="" systemCgroups="" cgroupRoot="" cgroupsPerQOS=true cgroupDriver="cgroupfs" cpuManagerPolicy="none"
singleProcessOOMKill=null cpuManagerPolicyOptions={} cpuManagerReconcilePeriod=10.0 memoryManagerPolicy="None"
topologyManagerPolicy="none" topologyManagerScope="container" topologyManagerPolicyOptions={} qosReserved={}
runtimeRequestTimeout=120.0 hairpinMode="promiscuous-bridge" maxPods=110 podCIDR="" podPidsLimit=-1
resolvConf="/etc/resolv.conf" runOnce=false cpuCFSQuota=true cpuCFSQuotaPeriod=0.1 nodeStatusMaxImages=50
maxOpenFiles=1000000 contentType="application/vnd.kubernetes.protobuf" kubeAPIQPS=50 kubeAPIBurst=100
serializeImagePulls=true maxParallelImagePulls=null evictionSoft={} evictionSoftGracePeriod={}
evictionPressureTransitionPeriod=300.0 evictionMaxPodGracePeriod=0 evictionMinimumReclaim={}
mergeDefaultEvictionSettings=false podsPerCore=0 enableControllerAttachDetach=true protectKernelDefaults=false
makeIPTablesUtilChains=true iptablesMasqueradeBit=14 iptablesDropBit=15 featureGates={} failSwapOn=true
memorySwap={"swapBehavior":"NoSwap"} containerLogMaxSize="10Mi" containerLogMaxFiles=5 containerLogMaxWorkers=1
containerLogMonitorInterval=10.0 configMapAndSecretChangeDetectionStrategy="Watch" systemReserved={} kubeReserved={}
reservedSystemCPUs="" showHiddenMetricsForVersion="" systemReservedCgroup="" kubeReservedCgroup=""
enforceNodeAllocatable=["pods"] allowedUnsafeSysctls=[] defaultPodSysctls={}
volumePluginDir="/usr/libexec/kubernetes/kubelet-plugins/volume/exec/" providerID="" kernelMemcgNotification=false
enableSystemLogHandler=true enableSystemLogQuery=false shutdownGracePeriod=0.0 shutdownGracePeriodCriticalPods=0.0
shutdownGracePeriodByPodPriority=[] crashLoopBackOff={"maxContainerRestartPeriod":null} reservedMemory=[]
enableProfilingHandler=true enableDebugFlagsHandler=true seccompDefault=false memoryThrottlingFactor=null
memoryReservationPolicy="None" registerWithTaints=[] registerNode=true tracing=null localStorageCapacityIsolation=true
containerRuntimeEndpoint="" imageServiceEndpoint="" failCgroupV1=true userNamespaces=null
authentication={"x509":{"clientCAFile":""},"webhook":{"enabled":true,"cacheTTL":120.0},"anonymous":{"enabled":false}}
authorization={"mode":"Webhook","webhook":{"cacheAuthorizedTTL":300.0,"cacheUnauthorizedTTL":30.0}}
evictionHard={"memory.available":"100Mi","nodefs.available":"10%","nodefs.inodesFree":"5%","imagefs.available":"15%","imagefs.inodesFree":"5%"}
"""


def layer(text: str, source: str = "config.yaml") -> Document:
    documents, faults = parse_documents(HEAD + text, source)
    assert not faults
    return documents[0]


def effective(*texts: str, flags: tuple[FieldSetting, ...] = ()) -> Effective:
    layers = [layer(text, f"{n}.yaml") for n, text in enumerate(texts)]
    result, faults = combine(layers, flags)
    assert [] == faults
    assert result is not None
    return result


def faults_of(*texts: str, flags: tuple[FieldSetting, ...] = ()) -> list[str]:
    layers = [layer(text, f"{n}.yaml") for n, text in enumerate(texts)]
    result, faults = combine(layers, flags)
    assert result is None
    return [str(fault) for fault in faults]


def test_every_field_upstream_has_is_known_with_upstreams_default() -> None:
    wanted = dict(pair.split("=", 1) for pair in UPSTREAM.split())
    configuration = KubeletConfiguration()
    for name, default in wanted.items():
        field = fields_of(KubeletConfiguration)[name]
        assert json.loads(default) == json.loads(jsonable(getattr(configuration, field.name))), name

    assert {"apiVersion", "kind", "logging"} == set(fields_of(KubeletConfiguration)) - set(wanted)


def jsonable(value: object) -> str:
    return msgspec.json.encode(value).decode()


def test_the_gates_and_the_zeros_name_what_exists() -> None:
    for path in ZERO_IS_A_VALUE:
        type_: Any = KubeletConfiguration
        for name in path.split("."):
            type_ = fields_of(type_)[name].type
            type_ = next((t for t in getattr(type_, "__args__", ()) if hasattr(t, "__struct_fields__")), type_)
    assert {"AllAlpha", "AllBeta"} >= HONOURED_GATES - set(GATES)


def test_nothing_given_is_all_defaults() -> None:
    result, faults = combine([])

    assert [] == faults
    assert result is not None
    assert KubeletConfiguration() == result.configuration
    assert {} == result.provenance


def test_flags_beat_drop_ins_and_drop_ins_beat_the_file_and_each_value_knows_where_it_is_from() -> None:
    result = effective(
        "maxPods: 1\nport: 2\nclusterDomain: a\n",
        "maxPods: 3\nport: 4\n",
        flags=(FieldSetting(("maxPods",), 5, "--max-pods"),),
    )

    assert (5, 4, "a") == (
        result.configuration.max_pods,
        result.configuration.port,
        result.configuration.cluster_domain,
    )
    assert {"maxPods": "flag --max-pods", "port": "1.yaml:4", "clusterDomain": "0.yaml:5"} == result.provenance


def test_a_drop_in_merges_objects_replaces_lists_and_takes_away_with_null() -> None:
    result = effective(
        "clusterDNS: [10.0.0.1, 10.0.0.2]\nmaxPods: 5\nkubeReserved: {cpu: 100m, memory: 1Gi}\n"
        "authentication: {webhook: {enabled: false, cacheTTL: 1m}}\n",
        "clusterDNS: [10.0.0.3]\nmaxPods: null\nkubeReserved: {cpu: 200m}\nauthentication: {webhook: {cacheTTL: 5m}}\n",
    )

    assert ("10.0.0.3",) == result.configuration.cluster_dns
    assert 110 == result.configuration.max_pods
    assert {"cpu": "200m", "memory": "1Gi"} == result.configuration.kube_reserved
    assert (False, 300.0) == (
        result.configuration.authentication.webhook.enabled,
        result.configuration.authentication.webhook.cache_ttl,
    )
    assert "maxPods" not in result.provenance
    assert "1.yaml:6" == result.provenance["authentication.webhook.cacheTTL"]
    assert "0.yaml:6" == result.provenance["authentication.webhook.enabled"]


def test_feature_gates_are_settings_of_their_own_and_a_flag_wins_gate_by_gate() -> None:
    result = effective(
        "featureGates: {EventedPLEG: true, PodsAPI: true}\n",
        flags=(FieldSetting(("featureGates", "PodsAPI"), False, "--feature-gates"),),
    )

    assert True is result.gates.enabled("EventedPLEG")
    assert False is result.gates.enabled("PodsAPI")


def test_a_zero_means_the_default_unless_upstreams_field_is_a_pointer() -> None:
    result = effective(
        'maxPods: 0\nsyncFrequency: 0s\nclusterDomain: ""\ncgroupDriver: ""\nauthorization: {mode: ""}\n'
        "healthzPort: 0\noomScoreAdj: 0\nenableServer: false\nevictionHard: {}\nenforceNodeAllocatable: []\n"
        "logging: {flushFrequency: 0, verbosity: 0}\n"
    )
    configuration = result.configuration

    assert (110, 60.0, "cgroupfs", "Webhook") == (
        configuration.max_pods,
        configuration.sync_frequency,
        configuration.cgroup_driver,
        configuration.authorization.mode,
    )
    assert (0, 0, False) == (configuration.healthz_port, configuration.oom_score_adj, configuration.enable_server)
    assert ({}, ()) == (configuration.eviction_hard, configuration.enforce_node_allocatable)
    assert "maxPods" not in result.provenance


def test_defaults_that_hang_on_other_fields_follow_them() -> None:
    assert 300.0 == effective("").configuration.node_status_report_frequency
    assert 30.0 == effective("nodeStatusUpdateFrequency: 30s\n").configuration.node_status_report_frequency
    hard = effective("mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 5%}\n").configuration
    assert ("5%", "10%") == (hard.eviction_hard["memory.available"], hard.eviction_hard["nodefs.available"])


def test_all_faults_come_at_once_each_with_file_line_path_and_the_nearest_name() -> None:
    assert [
        '0.yaml:3: maxPod: unknown field (did you mean "maxPods"?)',
        "0.yaml:4: syncFrequency: Invalid value: \"1 minute\": '1 minute' is not a duration: write numbers with units "
        "such as 300ms, 20s or 1h30m",
        '0.yaml:5: port: Invalid value: "x": must be a whole number (write it without quotes)',
        '1.yaml:3: cgroupDriver: Unsupported value: "system": must be one of "cgroupfs", "systemd" '
        '(did you mean "systemd"?)',
        "1.yaml:4: healthzPort: Invalid value: 70000: must be between 0 and 65535",
        '1.yaml:5: featureGates[EventPLEG]: unrecognized feature gate: EventPLEG (did you mean "EventedPLEG"?)',
        "--max-pods: Invalid value: -3: must be 0 or more",
    ] == sorted(
        faults_of(
            "maxPod: 3\nsyncFrequency: 1 minute\nport: x\n",
            "cgroupDriver: system\nhealthzPort: 70000\nfeatureGates: {EventPLEG: true}\n",
            flags=(FieldSetting(("maxPods",), -3, "--max-pods"),),
        ),
        key=lambda text: (text.startswith("--"), text),
    )


def test_a_fault_is_told_even_where_a_later_layer_covers_it() -> None:
    assert ['0.yaml:3: maxPods: Invalid value: "many": must be a whole number (write it without quotes)'] == faults_of(
        "maxPods: many\n", "maxPods: 5\n"
    )


def test_a_value_a_flag_gives_in_the_wrong_form_is_a_fault_of_the_flag() -> None:
    [fault] = faults_of("", flags=(FieldSetting(("syncFrequency",), "soon", "--sync-frequency"),))

    assert fault.startswith('--sync-frequency: Invalid value: "soon": ')


def test_a_bad_gate_value_is_reported_once() -> None:
    assert 1 == len(faults_of('featureGates: {SidecarContainers: "no"}\n'))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "kind: Pod\napiVersion: v1\n",
            [
                'f:2: apiVersion: Unsupported value: "v1" (write "apiVersion: kubelet.config.k8s.io/v1beta1")',
                'f:1: kind: Unsupported value: "Pod" (write "kind: KubeletConfiguration")',
            ],
        ),
        (
            "maxPods: 3\n",
            [
                'f:1: apiVersion: Required value (write "apiVersion: kubelet.config.k8s.io/v1beta1")',
                'f:1: kind: Required value (write "kind: KubeletConfiguration")',
            ],
        ),
        ("- 1\n", ["f:1: a list where a KubeletConfiguration should stand"]),
    ],
)
def test_what_is_no_configuration_is_refused_with_the_words_to_write(text: str, faults: list[str]) -> None:
    documents, _ = parse_documents(text, "f")

    assert faults == [str(fault) for fault in combine(documents)[1]]


def test_fields_without_effect_are_named_once_and_defaults_are_not() -> None:
    result = effective(
        "enableServer: true\nstaticPodPath: /x\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"
        "authentication: {webhook: {enabled: false}}\nevictionHard: {memory.available: 5%, nodefs.available: 5%}\n"
        "logging: {verbosity: 3, flushFrequency: 1s}\nmaxOpenFiles: 0\n"
        "featureGates: {EventedPLEG: true, NodeSwap: true, AllAlpha: false}\n"
    )

    assert (
        "reservedMemory",
        "logging.flushFrequency",
        "featureGates.EventedPLEG",
    ) == result.without_effect


def test_a_conflict_with_a_field_that_was_not_given_stands_where_the_other_one_was() -> None:
    assert [
        "0.yaml:3: imageGCLowThresholdPercent: Invalid value: 80: must be less than imageGCHighThresholdPercent, 50",
        "--system-cgroups: cgroupRoot: Required value: systemCgroups needs it",
    ] == faults_of(
        "imageGCHighThresholdPercent: 50\n", flags=(FieldSetting(("systemCgroups",), "/system", "--system-cgroups"),)
    )


# What kubeadm writes to /var/lib/kubelet/config.yaml.
KUBEADM = """
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options:
    json: {infoBufferSize: "0"}
    text: {infoBufferSize: "0"}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""


def test_the_file_kubeadm_writes_is_taken_and_its_zeros_are_not_named() -> None:
    result = effective(KUBEADM)

    assert () == result.without_effect
    assert KubeletConfiguration().logging == result.configuration.logging


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "0s", "1m", "x", "10%"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "webhook", "enabled", "memory.available"]), inner, max_size=2)
    ),
    max_leaves=4,
)
configurations = st.dictionaries(st.sampled_from(sorted(fields_of(KubeletConfiguration))), values, max_size=6)


@settings(deadline=None)
@given(st.lists(configurations, max_size=3))
def test_whatever_is_written_is_accepted_or_has_its_faults_placed(written: list[dict[str, Any]]) -> None:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    layers = []
    for n, value in enumerate(written):
        documents, _ = parse_documents(json.dumps(value | head, indent=1), f"{n}.yaml")
        layers += documents
    result, faults = combine(layers)

    assert (result is None) == bool(faults)
    assert all(fault.line is not None for fault in faults)


@pytest.mark.parametrize("alone", ["tlsCertFile", "tlsPrivateKeyFile"])
def test_half_a_pair_is_placed_where_the_given_half_stands(alone: str) -> None:
    documents, _ = parse_documents(f"{HEAD}{alone}: /pki/kubelet\n", "c.yaml")
    _, faults = combine(documents)

    assert [("c.yaml", 3)] == [(fault.source, fault.line) for fault in faults]


def test_what_version_1_of_cgroups_cannot_be_told_is_named_where_it_is_asked_for() -> None:
    asked = KubeletConfiguration(
        memory_reservation_policy="TieredReservation",
        memory_swap=MemorySwap(swap_behavior="LimitedSwap"),
        memory_throttling_factor=0.5,
        single_process_oom_kill=False,
    )
    same = KubeletConfiguration(memory_swap=MemorySwap(swap_behavior="NoSwap"), single_process_oom_kill=True)

    assert () == without_effect_in_version_1(same)
    assert (
        *("memoryReservationPolicy", "memorySwap.swapBehavior", "memoryThrottlingFactor", "singleProcessOOMKill"),
    ) == without_effect_in_version_1(asked)


def test_what_the_embedded_runtime_does_without_is_named_where_it_is_asked_for() -> None:
    asked = KubeletConfiguration(
        cluster_dns=("192.0.2.53",),
        memory_reservation_policy="TieredReservation",
        memory_swap=MemorySwap(swap_behavior="LimitedSwap"),
        pod_pids_limit=100,
        seccomp_default=True,
    )

    assert () == without_effect_embedded(KubeletConfiguration())
    assert (
        *("clusterDNS", "memoryReservationPolicy", "memorySwap.swapBehavior", "podPidsLimit", "seccompDefault"),
    ) == without_effect_embedded(asked)
