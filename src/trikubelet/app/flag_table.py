"""Every flag of the agent: its name, its form, the field its value sets, and its help.

The names are upstream's. A flag with a ``field`` sets that field of the configuration and overrides every file; a file
is the better place for most of them, and ``--help`` lists them last. A flag without ``effect`` is accepted, because
units and kubeadm pass it, and named in the warning at start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Form(Enum):
    """The form of a flag's value. The enum's value is the placeholder in the help."""

    TEXT = "TEXT"
    PATH = "PATH"
    BOOL = "true|false"
    INT = "N"
    FLOAT = "N.N"
    DURATION = "1m30s"
    LIST = "A,B"
    MAP = "K=V,K=V"
    THRESHOLDS = "SIGNAL<AMOUNT,…"
    HEADERS = "NAME:VALUE,…"
    TAINTS = "KEY=VALUE:EFFECT,…"
    MODULES = "PATTERN=N,…"
    MEMORY = "NODE:TYPE=AMOUNT,…;…"
    GATES = "NAME=true|false,…"


class Group(Enum):
    """The sections of the help, in order."""

    PODS = "pods"
    NODE = "node"
    RUNTIME = "container runtime"
    API = "API server"
    PLACES = "files and directories"
    LOGS = "logging"
    PROCESS = "process"
    FIELDS = "fields of the configuration (prefer a file)"
    IGNORED = "accepted for compatibility, without effect"


@dataclass(frozen=True, slots=True)  # no struct: the single file shows help without anything compiled
class Flag:
    """One flag. ``field``: the field of KubeletConfiguration that it sets, empty for a setting that only a flag has."""

    name: str
    form: Form
    group: Group
    help: str
    field: str = ""

    @property
    def effect(self) -> bool:
        """True if it is more than accepted. For a flag with a field, the field decides."""
        return self.group is not Group.IGNORED


def _own() -> list[Flag]:
    t, b, i, ls, p = Form.TEXT, Form.BOOL, Form.INT, Form.LIST, Form.PATH
    g = Group
    return [
        Flag("pod-manifest-path", p, g.PODS, "directory or file with manifests of static pods", "staticPodPath"),
        Flag("manifest-url", t, g.PODS, "URL of a manifest of static pods", "staticPodURL"),
        Flag(
            "manifest-url-header",
            Form.HEADERS,
            g.PODS,
            "HTTP headers for --manifest-url; may be repeated",
            "staticPodURLHeader",
        ),
        Flag("standalone", b, g.PODS, "run static pods only, without an API server; excludes --kubeconfig"),
        Flag("hostname-override", t, g.NODE, "name of the node (default: the host's name in lower case)"),
        Flag(
            "node-ip",
            ls,
            g.NODE,
            "addresses of the node, one of each IP family, or :: (default: found by DNS or routes)",
        ),
        Flag("cluster-dns", ls, g.NODE, "name servers for pods", "clusterDNS"),
        Flag("cluster-domain", t, g.NODE, "DNS domain of the cluster", "clusterDomain"),
        Flag("resolv-conf", p, g.NODE, "resolv.conf that pods inherit; empty for none", "resolvConf"),
        Flag("cgroup-driver", t, g.NODE, "cgroupfs or systemd", "cgroupDriver"),
        Flag(
            "container-runtime-endpoint",
            t,
            g.RUNTIME,
            "unix:///path/to.sock; or embedded: or fake: for a runtime inside the agent",
            "containerRuntimeEndpoint",
        ),
        Flag(
            "image-service-endpoint",
            t,
            g.RUNTIME,
            "endpoint of the image service (default: the container runtime)",
            "imageServiceEndpoint",
        ),
        Flag(
            "image-directory",
            p,
            g.RUNTIME,
            "directory with archives of images (docker save, OCI layouts), imported before an image is pulled",
        ),
        Flag(
            "runtime-cgroups",
            t,
            g.RUNTIME,
            "cgroup of the container runtime, such as /system.slice/containerd.service; /stats/summary shows its usage",
        ),
        Flag(
            "runtime-request-timeout",
            Form.DURATION,
            g.RUNTIME,
            "timeout of calls to the runtime",
            "runtimeRequestTimeout",
        ),
        Flag(
            "runtime-message-mib",
            i,
            g.RUNTIME,
            "longest message from the runtime in MiB, 16 (the default) to 256; the runtime has a limit of its own",
        ),
        Flag(
            "embedded-stop-grace-period",
            Form.DURATION,
            g.RUNTIME,
            "how long pods of the embedded runtime may take to end when the agent stops (default: 30s; 0s: none)",
        ),
        Flag(
            "device-plugin-wait",
            Form.DURATION,
            g.RUNTIME,
            "how long pods wait for a device plugin that is away, up to 5m (the default); 0s: they are rejected",
        ),
        Flag(
            "end-unknown-pods",
            b,
            g.RUNTIME,
            "also end pods on the runtime that this root directory does not know (default: they are left alone)",
        ),
        Flag(
            "share-runtime",
            b,
            g.RUNTIME,
            "start next to another node agent on the same runtime; an upstream kubelet would end this agent's pods",
        ),
        Flag("kubeconfig", p, g.API, "kubeconfig of the API server; without it the agent runs standalone"),
        Flag(
            "bootstrap-kubeconfig",
            p,
            g.API,
            "kubeconfig with a token, from which --kubeconfig is created if it does not exist",
        ),
        Flag(
            "cloud-provider",
            t,
            g.API,
            "external: a cloud controller initialises the node and sets its addresses; empty: no cloud",
        ),
        Flag("node-labels", Form.MAP, g.API, "labels of the node when it registers"),
        Flag(
            "kubectl-port", i, g.API, "without an API server: port on 127.0.0.1 from which kubectl can read; 0 for none"
        ),
        Flag("config", p, g.PLACES, "KubeletConfiguration file"),
        Flag("config-dir", p, g.PLACES, "directory of drop-in files (*.conf), applied in the order of their names"),
        Flag(
            "strict-config",
            b,
            g.PLACES,
            "refuse configuration files with an unknown field or a duplicate key (default: a warning)",
        ),
        Flag("root-dir", p, g.PLACES, "directory for the state of the agent and its pods"),
        Flag("cert-dir", p, g.PLACES, "directory for certificates (default: pki in the root directory)"),
        Flag(
            "image-credential-provider-config",
            p,
            g.PLACES,
            "configuration of credential plugins for images: a file or a directory",
        ),
        Flag("image-credential-provider-bin-dir", p, g.PLACES, "directory of these plugins"),
        Flag("v", i, g.LOGS, "log verbosity: 2 for operators, 4 for debugging", "logging.verbosity"),
        Flag("vmodule", Form.MODULES, g.LOGS, "log verbosity by source file", "logging.vmodule"),
        Flag("logging-format", t, g.LOGS, "log format: text or json", "logging.format"),
        Flag("feature-gates", Form.GATES, g.PROCESS, "feature gates; added to those in files", "featureGates"),
        Flag("healthz-port", i, g.PROCESS, "port of /healthz; 0 for none", "healthzPort"),
        Flag("healthz-bind-address", t, g.PROCESS, "address of /healthz", "healthzBindAddress"),
        Flag("lock-file", p, g.PROCESS, "lock to wait for before starting, in addition to that of the root directory"),
        Flag("exit-on-lock-contention", b, g.PROCESS, "exit when another process opens --lock-file"),
        Flag("version", b, g.PROCESS, "print the version and exit"),
        Flag("help", b, g.PROCESS, "print this help and exit"),
    ]


_FIELDS: Final = """
address TEXT address
allowed-unsafe-sysctls LIST allowedUnsafeSysctls
anonymous-auth BOOL authentication.anonymous.enabled
authentication-token-webhook BOOL authentication.webhook.enabled
authentication-token-webhook-cache-ttl DURATION authentication.webhook.cacheTTL
authorization-mode TEXT authorization.mode
authorization-webhook-cache-authorized-ttl DURATION authorization.webhook.cacheAuthorizedTTL
authorization-webhook-cache-unauthorized-ttl DURATION authorization.webhook.cacheUnauthorizedTTL
cgroup-root TEXT cgroupRoot
cgroups-per-qos BOOL cgroupsPerQOS
client-ca-file PATH authentication.x509.clientCAFile
container-log-max-files INT containerLogMaxFiles
container-log-max-size TEXT containerLogMaxSize
contention-profiling BOOL enableContentionProfiling
cpu-cfs-quota BOOL cpuCFSQuota
cpu-cfs-quota-period DURATION cpuCFSQuotaPeriod
cpu-manager-policy TEXT cpuManagerPolicy
cpu-manager-policy-options MAP cpuManagerPolicyOptions
cpu-manager-reconcile-period DURATION cpuManagerReconcilePeriod
enable-controller-attach-detach BOOL enableControllerAttachDetach
enable-debugging-handlers BOOL enableDebuggingHandlers
enable-server BOOL enableServer
enforce-node-allocatable LIST enforceNodeAllocatable
event-burst INT eventBurst
event-qps INT eventRecordQPS
eviction-hard THRESHOLDS evictionHard
eviction-max-pod-grace-period INT evictionMaxPodGracePeriod
eviction-minimum-reclaim MAP evictionMinimumReclaim
eviction-pressure-transition-period DURATION evictionPressureTransitionPeriod
eviction-soft THRESHOLDS evictionSoft
eviction-soft-grace-period MAP evictionSoftGracePeriod
fail-cgroupv1 BOOL failCgroupV1
fail-swap-on BOOL failSwapOn
file-check-frequency DURATION fileCheckFrequency
hairpin-mode TEXT hairpinMode
http-check-frequency DURATION httpCheckFrequency
image-gc-high-threshold INT imageGCHighThresholdPercent
image-gc-low-threshold INT imageGCLowThresholdPercent
iptables-drop-bit INT iptablesDropBit
iptables-masquerade-bit INT iptablesMasqueradeBit
kernel-memcg-notification BOOL kernelMemcgNotification
kube-api-burst INT kubeAPIBurst
kube-api-content-type TEXT contentType
kube-api-qps INT kubeAPIQPS
kube-reserved MAP kubeReserved
kube-reserved-cgroup TEXT kubeReservedCgroup
kubelet-cgroups TEXT kubeletCgroups
local-storage-capacity-isolation BOOL localStorageCapacityIsolation
log-flush-frequency DURATION logging.flushFrequency
log-json-info-buffer-size TEXT logging.options.json.infoBufferSize
log-json-split-stream BOOL logging.options.json.splitStream
log-text-info-buffer-size TEXT logging.options.text.infoBufferSize
log-text-split-stream BOOL logging.options.text.splitStream
make-iptables-util-chains BOOL makeIPTablesUtilChains
max-open-files INT maxOpenFiles
max-pods INT maxPods
memory-manager-policy TEXT memoryManagerPolicy
minimum-image-ttl-duration DURATION imageMinimumGCAge
node-status-max-images INT nodeStatusMaxImages
node-status-update-frequency DURATION nodeStatusUpdateFrequency
oom-score-adj INT oomScoreAdj
pod-cidr TEXT podCIDR
pod-max-pids INT podPidsLimit
pods-per-core INT podsPerCore
port INT port
protect-kernel-defaults BOOL protectKernelDefaults
provider-id TEXT providerID
qos-reserved MAP qosReserved
read-only-port INT readOnlyPort
register-node BOOL registerNode
register-with-taints TAINTS registerWithTaints
registry-burst INT registryBurst
registry-qps INT registryPullQPS
reserved-cpus TEXT reservedSystemCPUs
reserved-memory MEMORY reservedMemory
rotate-certificates BOOL rotateCertificates
rotate-server-certificates BOOL serverTLSBootstrap
runonce BOOL runOnce
seccomp-default BOOL seccompDefault
serialize-image-pulls BOOL serializeImagePulls
show-hidden-metrics-for-version TEXT showHiddenMetricsForVersion
streaming-connection-idle-timeout DURATION streamingConnectionIdleTimeout
sync-frequency DURATION syncFrequency
system-cgroups TEXT systemCgroups
system-reserved MAP systemReserved
system-reserved-cgroup TEXT systemReservedCgroup
tls-cert-file PATH tlsCertFile
tls-cipher-suites LIST tlsCipherSuites
tls-min-version TEXT tlsMinVersion
tls-private-key-file PATH tlsPrivateKeyFile
topology-manager-policy TEXT topologyManagerPolicy
topology-manager-policy-options MAP topologyManagerPolicyOptions
topology-manager-scope TEXT topologyManagerScope
volume-plugin-dir PATH volumePluginDir
volume-stats-agg-period DURATION volumeStatsAggPeriod
"""

_IGNORED: Final = """
cloud-config TEXT
experimental-allocatable-ignore-eviction BOOL
experimental-mounter-path TEXT
housekeeping-interval DURATION
keep-terminated-pod-volumes BOOL
maximum-dead-containers INT
maximum-dead-containers-per-container INT
minimum-container-ttl-duration DURATION
pod-infra-container-image TEXT
register-schedulable BOOL
"""


def _table() -> dict[str, Flag]:
    flags = _own()
    for line in _FIELDS.split("\n")[1:-1]:
        name, form, field = line.split()
        flags.append(Flag(name, Form[form], Group.FIELDS, field, field))
    for line in _IGNORED.split("\n")[1:-1]:
        name, form = line.split()
        flags.append(Flag(name, Form[form], Group.IGNORED, ""))
    return {flag.name: flag for flag in flags}


FLAGS: Final = _table()
"""Every flag by its name, without dashes."""
