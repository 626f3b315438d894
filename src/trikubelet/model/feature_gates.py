"""Feature gates: which there are, what they are by default, and what an operator made of them.

The names and defaults are Kubernetes v1.36's, as far as they touch a node. A gate that has no effect in this agent is
accepted all the same, so that a node's configuration can be carried over; a name Kubernetes never had is refused with
the nearest known one, and so is turning a finished (GA) feature off. ``AllAlpha`` and ``AllBeta`` switch a whole stage;
a gate named beside them keeps what it was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stage(Enum):
    """How far a feature has come."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature. ``locked``: its default cannot be changed."""

    name: str
    stage: Stage
    default: bool

    @property
    def locked(self) -> bool:
        """Whether it can no longer be switched."""
        return self.stage is Stage.GA


def _gates(words: str, stage: Stage, *, default: bool) -> dict[str, Gate]:
    return {name: Gate(name, stage, default) for name in words.split()}


GATES: Final[dict[str, Gate]] = {
    **_gates(
        """
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ContainerStopSignals DRAListTypeAttributes
        DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG
        ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        KubeletInUserNamespace MemoryQoS PodAndContainerStatsFromCRI PodLevelResourceManagers
        PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriAPI
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
        VolumeLimitScaling
        """,
        Stage.ALPHA,
        default=False,
    ),
    **_gates(
        """
        CPUManagerPolicyBetaOptions ContainerCheckpoint ContainerRestartRules DRAConsumableCapacity
        DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
        DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout EnvFiles
        ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HostnameOverride
        InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        NodeDeclaredFeatures PLEGOnDemandRelist PodLevelResources PodReadyToStartContainersCondition
        PortForwardWebsockets PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate TopologyManagerPolicyBetaOptions
        TranslateStreamCloseWebsocketRequests
        """,
        Stage.BETA,
        default=True,
    ),
    **_gates(
        """
        ClusterTrustBundle ClusterTrustBundleProjection DRADeviceTaintRules
        LocalStorageCapacityIsolationFSQuotaMonitoring PodCertificateRequest SELinuxMount
        """,
        Stage.BETA,
        default=False,
    ),
    **_gates(
        """
        CustomCPUCFSQuotaPeriod CPUManagerPolicyOptions CSIServiceAccountTokenSecrets DRAAdminAccess DRAPrioritizedList
        DynamicResourceAllocation ExecProbeTimeout ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling
        KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing MutableCSINodeAllocatableCount NodeLogQuery NodeSwap
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking ProcMountType
        RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SidecarContainers SupplementalGroupsPolicy SystemdWatchdog
        TopologyManagerPolicyOptions UserNamespacesSupport
        """,
        Stage.GA,
        default=True,
    ),
    **_gates(
        """
        DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion KubeletPodResourcesListUseActivePods
        """,
        Stage.DEPRECATED,
        default=True,
    ),
    **_gates(
        """
        ChangeContainerStatusOnKubeletRestart KubeletRegistrationGetOnExistsOnly
        """,
        Stage.DEPRECATED,
        default=False,
    ),
}
"""Every gate by its name."""

_ALL: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """What each feature is on this node. ``given`` is what the operator said, by gate."""

    given: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, name: str) -> bool:
        """Whether a feature is on. Raises KeyError for a name that is none, for that is a slip in the agent."""
        gate = GATES[name]
        if name in self.given:
            return self.given[name]
        for group, stage in _ALL.items():
            if gate.stage is stage and group in self.given:
                return self.given[group]
        return gate.default

    def states(self) -> dict[tuple[str, str], bool]:
        """Each gate with its stage, as upstream's metric has it (``ALPHA``, nothing for a finished one), and whether it
        is on."""
        return {
            (gate.name, "" if gate.stage is Stage.GA else gate.stage.value.upper()): self.enabled(gate.name)
            for gate in GATES.values()
        }


def gate_problem(name: str, value: bool) -> tuple[str, str]:
    """What is wrong with setting this gate so, and the remedy; two empty strings when nothing is."""
    if name in _ALL:
        return "", ""
    gate = GATES.get(name)
    if gate is None:
        return f"unrecognized feature gate: {name}", nearest(name, (*GATES, *_ALL)) or "remove it"
    if gate.locked and value is not gate.default:
        return f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(gate.default)}", "remove it"
    return "", ""


def parse_gates(text: str) -> dict[str, bool]:
    """``A=true,B=false`` as a mapping. Raises ValueError saying everything that is wrong; names are judged only then,
    for otherwise whoever takes the mapping does that."""
    gates: dict[str, bool] = {}
    wrong: list[str] = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not equals:
            wrong.append(f"missing bool value for {name}: write {name}=true or {name}=false")
        elif value.lower() not in _BOOLS:
            wrong.append(f"invalid value of {name}: {value!r}: write true or false")
        else:
            gates[name] = _BOOLS[value.lower()]
    if wrong:
        raise ValueError("; ".join(wrong + [problem for gate in gates.items() if (problem := gate_problem(*gate)[0])]))
    return gates


_BOOLS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _go(value: bool) -> str:
    return "true" if value else "false"
