"""The fields of a pod's spec that work here, each with its test, and those that are not for a node.

Fields that do not work yet, or not for every value, are in ``core.containers.unsupported``, those that the embedded
runtime ignores in ``core.containers.embedded``; the table joins the three. ``containers[]`` stands for init, regular
and ephemeral containers, unless one of those has an entry of its own.
"""

from __future__ import annotations

from typing import Final

from trikubelet.core.containers.embedded import NOT_MOUNTED, WITHOUT
from trikubelet.core.containers.embedded_refusals import REFUSED as REFUSED_EMBEDDED
from trikubelet.core.containers.unsupported import ROWS
from trikubelet.core.support.field import Table, Works

_LIVE = "tests/live/test_"
_AGENT = f"{_LIVE}agent_pods.py::test_"
_BATCH = f"{_LIVE}fields.py::test_"
_CLAIMS = f"{_LIVE}cluster_claims.py::test_"
_CLUSTER = f"{_LIVE}cluster_containers.py::test_"
_HOOKS = f"{_LIVE}lifecycle_hooks.py::test_"
_IDENTITY = f"{_LIVE}pod_identity.py::test_"
_MOUNTS = f"{_LIVE}volume_mounts.py::test_"
_ON_THE_WIRE = "tests/shell/cri/test_pods_on_the_wire.py::test_"
_PROBED = "tests/shell/pods/test_probed_pods.py::test_"
_PROBES = f"{_LIVE}probes.py::test_"
_SECURITY = f"{_LIVE}security.py::test_"
_VARIABLES = f"{_LIVE}variables.py::test_"
_WORDS = f"{_LIVE}cluster_words.py::test_"
_RESIZES = f"{_LIVE}cluster_resizes.py::test_"

_OWNED = "tests/shell/volumes/test_filled_volumes.py::test_files_are_given_to_the_users_that_the_volume_names"
_FROM_1_38 = "API servers before 1.38 drop it, because its feature is alpha there"

_OF_STATIC_PODS = "static pods may not have it: only an API server has it"


def _below(path: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{path}.{name}" for name in names)


_WORKS: Final = (
    # ---- the pod ----
    Works(f"{_CLUSTER}a_pod_is_failed_when_its_deadline_is_over_and_is_told_so", ("activeDeadlineSeconds",)),
    Works(
        f"{_WORDS}pods_the_scheduler_was_not_asked_about_are_refused_with_their_reasons",
        ("nodeName", "nodeSelector", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    ),
    Works(f"{_WORDS}a_critical_pod_gets_the_place_of_a_lesser_one", ("priority", "priorityClassName")),
    Works(f"{_IDENTITY}where_a_pod_asks_for_names_is_its_policys_and_its_own_word", ("dnsConfig", "dnsPolicy")),
    Works(
        f"{_IDENTITY}a_pods_names_and_hosts_are_as_it_asks",
        ("hostAliases", "hostname", "hostnameOverride", "setHostnameAsFQDN", "subdomain"),
    ),
    Works(f"{_VARIABLES}a_container_is_told_of_the_clusters_services", ("enableServiceLinks",)),
    Works(
        f"{_BATCH}pods_share_the_namespaces_they_ask_for",
        ("hostIPC", "hostPID", "shareProcessNamespace"),
    ),
    Works(
        f"{_BATCH}a_pod_with_users_of_its_own_has_none_of_the_nodes",
        ("hostUsers",),
        "the runtime must say that it can, as containerd since 2.0 and CRI-O, and the file systems of all mounts must "
        "map ids",
    ),
    Works(f"{_AGENT}a_pod_on_the_hosts_network_has_the_hosts_address", ("hostNetwork",)),
    Works(
        f"{_CLUSTER}a_pod_of_another_system_is_refused_and_a_gated_one_waits_for_its_gate",
        ("os.name",),
    ),
    Works(
        f"{_CLUSTER}a_pod_runs_in_the_class_it_names_and_waits_for_one_that_is_not_there",
        ("overhead", "runtimeClassName"),
    ),
    Works(
        f"{_LIVE}cluster_pods.py::test_a_readiness_gate_holds_and_what_others_say_of_a_pod_stays", ("readinessGates",)
    ),
    Works(
        f"{_RESIZES}a_pods_own_resources_are_resized_for_its_cgroup_and_for_containers_without",
        ("resources.limits",),
    ),
    Works(
        f"{_WORDS}pods_the_scheduler_was_not_asked_about_are_refused_with_their_reasons",
        ("resources.requests",),
    ),
    Works(
        "tests/shell/app/test_node_in_memory.py::test_whether_an_ended_container_is_restarted_is_its_pods_restart_policy",
        ("restartPolicy",),
        by=("restart_policy", "OnFailure"),
    ),
    Works(
        f"{_AGENT}init_containers_run_one_after_another_and_a_sidecar_before_the_rest",
        ("initContainers[].restartPolicy",),
    ),
    Works(
        f"{_LIVE}cluster_volumes.py::test_a_pods_token_is_good_for_as_long_as_the_pod",
        ("serviceAccountName",),
        _OF_STATIC_PODS,
    ),
    Works(
        f"{_AGENT}a_container_deaf_to_sigterm_is_killed_when_its_grace_is_over",
        ("terminationGracePeriodSeconds",),
    ),
    Works(
        f"{_BATCH}container_runs_as_the_user_of_its_security_contexts",
        _below("securityContext", "fsGroup", "runAsGroup", "runAsUser", "supplementalGroups", "sysctls"),
    ),
    Works(
        f"{_SECURITY}a_profile_of_the_nodes_own_forbids_what_it_says_and_a_missing_one_is_waited_for",
        ("securityContext.seccompProfile", "containers[].securityContext.seccompProfile"),
    ),
    Works(
        f"{_BATCH}run_as_non_root_container_is_not_started_as_root",
        ("securityContext.runAsNonRoot", "containers[].securityContext.runAsNonRoot"),
    ),
    Works(
        "tests/shell/volumes/test_persistent_volumes.py::test_a_local_directorys_files_get_the_pods_group",
        ("securityContext.fsGroupChangePolicy",),
    ),
    Works(
        f"{_SECURITY}a_pod_that_could_not_be_as_safe_as_it_asks_for_is_refused",
        ("securityContext.supplementalGroupsPolicy",),
        "where the runtime can, as containerd since 2.0 and CRI-O; else the pod is refused",
    ),
    Works(
        f"{_SECURITY}a_pod_that_could_not_be_as_safe_as_it_asks_for_is_refused",
        ("securityContext.appArmorProfile", "containers[].securityContext.appArmorProfile"),
        "where the kernel has AppArmor; else the pod is refused",
    ),
    Works(
        f"{_SECURITY}a_pod_that_could_not_be_as_safe_as_it_asks_for_is_refused",
        (
            "securityContext.appArmorProfile.localhostProfile",
            "containers[].securityContext.appArmorProfile.localhostProfile",
        ),
        "where the kernel has AppArmor; else the pod is refused",
        beside=True,
    ),
    Works(
        f"{_ON_THE_WIRE}containers_have_the_selinux_label_of_their_pod_or_their_own_and_the_pods_volumes_are_relabelled",
        ("securityContext.seLinuxOptions", "containers[].securityContext.seLinuxOptions"),
        "passed on: the runtime and the kernel must have it",
    ),
    Works(
        f"{_ON_THE_WIRE}containers_have_the_selinux_label_of_their_pod_or_their_own_and_the_pods_volumes_are_relabelled",
        ("securityContext.seLinuxChangePolicy",),
        "the runtime is asked to relabel a pod's own volumes, as with Recursive; none is mounted with a label",
        by=("selinux_relabel",),
    ),
    # ---- containers ----
    Works(
        f"{_BATCH}a_container_runs_what_it_is_told_where_it_is_told",
        _below("containers[]", "args", "command", "image", "name", "terminationMessagePath", "workingDir"),
    ),
    Works(f"{_AGENT}an_image_is_asked_for_as_often_as_its_policy_says", ("containers[].imagePullPolicy",)),
    Works(
        f"{_LIVE}private_images.py::test_secrets_and_accounts_of_the_cluster_open_a_private_image_for_their_pods_alone",
        ("imagePullSecrets",),
    ),
    Works(
        f"{_VARIABLES}a_container_waits_for_its_objects_and_has_the_variables_its_spec_asks_for",
        ("containers[].env", "containers[].envFrom"),
    ),
    Works(
        f"{_VARIABLES}a_container_has_variables_that_another_left_in_a_file",
        ("containers[].env[].valueFrom.fileKeyRef",),
    ),
    Works(
        f"{_HOOKS}a_command_runs_after_the_start_before_the_next_container_and_one_before_the_end",
        ("containers[].lifecycle.postStart.exec", "containers[].lifecycle.preStop.exec"),
    ),
    Works(
        f"{_HOOKS}a_get_before_the_end_reaches_a_server_without_tls_that_was_asked_with_it",
        ("containers[].lifecycle.preStop.httpGet",),
    ),
    Works(
        f"{_HOOKS}a_container_that_sleeps_before_its_end_does_not_end_before",
        ("containers[].lifecycle.preStop.sleep",),
    ),
    Works(
        f"{_HOOKS}a_hook_sleeps_or_asks_the_host_it_names_with_its_headers",
        (
            *_below("containers[].lifecycle.postStart", "httpGet", "sleep"),
            *_below("containers[].lifecycle.preStop.httpGet", "host", "httpHeaders"),
        ),
    ),
    Works(
        "tests/shell/embedded/test_embedded_processes.py::test_a_container_is_stopped_by_the_signal_it_asks_for",
        ("containers[].lifecycle.stopSignal",),
        "passed on: the runtime must know stop signals, as the agent's own does, and containerd up to 2.2 does not",
        by=("stop_signal",),
    ),
    Works(f"{_PROBES}liveness_by_http_kills_and_the_container_comes_back", ("containers[].livenessProbe",)),
    Works(f"{_PROBES}readiness_by_http_goes_and_comes_back_and_restarts_nothing", ("containers[].readinessProbe",)),
    Works(f"{_PROBES}nothing_else_is_asked_before_the_startup_probe_is_well", ("containers[].startupProbe",)),
    Works(
        f"{_PROBES}each_probe_asks_the_host_it_names_with_all_it_was_given",
        tuple(
            f"containers[].{kind}Probe.{how}"
            for kind in ("liveness", "readiness", "startup")
            for how in ("httpGet", "successThreshold", "tcpSocket")
        ),
    ),
    Works(
        f"{_PROBED}the_initial_delay_counts_from_the_containers_start",
        tuple(f"containers[].{kind}Probe.initialDelaySeconds" for kind in ("liveness", "readiness", "startup")),
    ),
    Works(
        f"{_PROBED}an_answer_is_waited_for_as_long_as_the_probe_says",
        tuple(f"containers[].{kind}Probe.timeoutSeconds" for kind in ("liveness", "readiness", "startup")),
    ),
    Works(
        f"{_PROBES}grpc_asks_a_real_server_for_its_services_and_tells_one_that_is_none",
        tuple(f"containers[].{kind}Probe.grpc" for kind in ("liveness", "readiness", "startup")),
    ),
    Works(
        f"{_PROBES}a_command_that_takes_too_long_fails_as_upstream_says_it",
        ("containers[].livenessProbe.exec",),
    ),
    Works(f"{_PROBES}readiness_by_a_command_follows_a_file", ("containers[].readinessProbe.exec",)),
    Works(
        f"{_PROBES}failed_startup_or_liveness_kills_with_the_probes_grace",
        tuple(f"containers[].{kind}Probe.terminationGracePeriodSeconds" for kind in ("liveness", "startup")),
    ),
    Works(f"{_AGENT}a_host_port_leads_to_the_pod", ("containers[].ports",)),
    Works(f"{_AGENT}a_container_that_takes_too_much_memory_is_oom_killed", ("containers[].resources.limits",)),
    Works(
        f"{_WORDS}pods_the_scheduler_was_not_asked_about_are_refused_with_their_reasons",
        ("containers[].resources.requests",),
    ),
    Works(
        f"{_RESIZES}containers_are_changed_as_they_run_or_recreated_as_their_resize_policy_says",
        ("containers[].resizePolicy[].resourceName", "containers[].resizePolicy[].restartPolicy"),
    ),
    Works(
        f"{_CLUSTER}a_rule_restarts_a_container_that_is_never_restarted_otherwise",
        ("containers[].restartPolicy", "containers[].restartPolicyRules"),
    ),
    Works(
        f"{_BATCH}container_runs_as_the_user_of_its_security_contexts",
        _below(
            "containers[].securityContext",
            *("allowPrivilegeEscalation", "capabilities", "privileged", "readOnlyRootFilesystem"),
            *("runAsGroup", "runAsUser"),
        ),
    ),
    Works(
        f"{_SECURITY}masked_paths_are_hidden_from_unprivileged_containers",
        ("containers[].securityContext.procMount",),
        "Unmasked needs hostUsers: false, and what that needs",
    ),
    Works(
        f"{_IDENTITY}a_container_has_a_terminal_and_an_open_input_only_where_it_asks_for_them",
        _below("containers[]", "stdin", "tty"),
    ),
    Works(
        f"{_LIVE}cluster_streams.py::test_an_input_that_is_for_one_client_ends_with_him_and_another_stays_open",
        ("containers[].stdinOnce",),
    ),
    Works(
        f"{_CLUSTER}a_failed_containers_last_words_are_its_message_where_it_wishes_so",
        ("containers[].terminationMessagePolicy",),
    ),
    Works(f"{_CLAIMS}a_device_behind_a_claim_is_a_device_in_the_container", ("containers[].volumeDevices",)),
    Works(
        f"{_AGENT}containers_share_an_empty_dir",
        ("containers[].volumeMounts[].mountPath", "containers[].volumeMounts[].name"),
    ),
    Works(
        f"{_MOUNTS}what_is_mounted_later_on_the_node_is_seen_where_it_was_asked_for_in_parts_of_volumes_too",
        ("containers[].volumeMounts[].mountPropagation",),
    ),
    Works(
        f"{_MOUNTS}a_volume_is_read_only_with_all_that_is_mounted_in_it_only_where_that_is_asked_for",
        ("containers[].volumeMounts[].readOnly", "containers[].volumeMounts[].recursiveReadOnly"),
    ),
    Works(
        f"{_LIVE}sub_paths.py::test_containers_share_parts_of_a_volume_and_their_mounts_go_with_the_pod",
        ("containers[].volumeMounts[].subPath", "containers[].volumeMounts[].subPathExpr"),
    ),
    Works(
        f"{_CLUSTER}a_debugging_container_joins_a_running_pod_and_sees_its_targets_processes",
        (
            "ephemeralContainers[].targetContainerName",
            *_below("ephemeralContainers[]", "command", "image", "name"),
        ),
    ),
    Works(
        f"{_CLUSTER}a_debugging_container_joins_a_running_pod_and_sees_its_targets_processes",
        ("ephemeralContainers[].args",),
        by=("--arguments-only",),
    ),
    # ---- volumes ----
    Works(f"{_AGENT}containers_share_an_empty_dir", ("volumes[].name", "volumes[].emptyDir")),
    Works(
        f"{_LIVE}memory_volumes.py::test_a_tmpfs_comes_with_size_mode_and_group_and_goes_with_its_pod",
        ("volumes[].emptyDir.medium",),
    ),
    Works(
        f"{_LIVE}evictions.py::test_a_pod_beyond_a_limit_of_its_own_is_evicted_and_no_other",
        ("volumes[].emptyDir.sizeLimit",),
        "a static pod is never evicted: on a disk it is not held to it",
    ),
    Works(f"{_AGENT}a_host_path_is_seen_and_a_missing_one_is_told", ("volumes[].hostPath",)),
    Works(
        f"{_BATCH}files_of_volumes_are_what_their_sources_name_with_the_modes_asked_for",
        (
            *_below("volumes[]", "configMap", "downwardAPI", "secret", "projected.defaultMode"),
            *_below("volumes[].projected.sources[]", "configMap", "downwardAPI", "secret"),
        ),
    ),
    Works(
        _OWNED,
        tuple(f"volumes[].{kind}.defaultUser" for kind in ("configMap", "downwardAPI", "projected", "secret")),
        _FROM_1_38,
        by=("default_user",),
    ),
    Works(
        _OWNED,
        tuple(
            f"volumes[].{place}{kind}.items[].user"
            for place in ("", "projected.sources[].")
            for kind in ("configMap", "downwardAPI", "secret")
        ),
        _FROM_1_38,
    ),
    Works(
        _OWNED,
        tuple(f"volumes[].projected.sources[].{kind}.user" for kind in ("podCertificate", "serviceAccountToken")),
        _FROM_1_38,
    ),
    Works(_OWNED, ("volumes[].projected.sources[].clusterTrustBundle.user",), _FROM_1_38, beside=True),
    Works(
        f"{_LIVE}cluster_volumes.py::test_a_pods_token_is_good_for_as_long_as_the_pod",
        ("volumes[].projected.sources[].serviceAccountToken",),
        _OF_STATIC_PODS,
    ),
    Works(
        f"{_LIVE}cluster_trust_bundles.py::test_a_pod_gets_the_trust_anchors_it_asks_for_and_sees_them_change",
        ("volumes[].projected.sources[].clusterTrustBundle",),
        f"where the cluster serves v1 (1.37 and later) or v1beta1; {_OF_STATIC_PODS}",
    ),
    Works(
        f"{_LIVE}cluster_trust_bundles.py::test_a_pod_gets_a_key_and_the_certificate_that_a_signer_makes_for_it",
        ("volumes[].projected.sources[].podCertificate",),
        f"where the cluster serves v1 (1.37 and later) or v1beta1; {_OF_STATIC_PODS}",
    ),
    Works(
        f"{_CLAIMS}a_pod_waits_until_its_claim_is_bound_and_gets_its_files_for_its_group",
        ("volumes[].persistentVolumeClaim",),
        f"local, hostPath, nfs and CSI volumes; {_OF_STATIC_PODS}",
    ),
    Works(
        f"{_CLAIMS}a_host_path_behind_a_claim_that_is_read_only_cannot_be_written",
        ("volumes[].persistentVolumeClaim.readOnly",),
        _OF_STATIC_PODS,
    ),
    Works(
        f"{_CLAIMS}an_ephemeral_volume_is_a_claim_that_goes_with_its_pod",
        ("volumes[].ephemeral",),
        _OF_STATIC_PODS,
    ),
    Works(
        f"{_CLAIMS}an_ephemeral_volume_is_a_claim_that_goes_with_its_pod",
        ("volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode",),
        _OF_STATIC_PODS,
        beside=True,
    ),
    Works(
        f"{_MOUNTS}a_servers_directory_is_mounted_as_asked_for_and_left_with_all_that_is_in_it",
        ("volumes[].nfs",),
    ),
    Works(
        f"{_LIVE}cluster_csi.py::test_volumes_of_a_driver_outlive_the_agent_and_go_with_their_pods",
        ("volumes[].csi",),
        "in a cluster only",
    ),
    Works(
        "tests/shell/volumes/test_csi_volumes.py::test_a_volume_of_the_pod_alone_is_published_with_what_its_driver_asks_for",
        ("volumes[].csi.fsType", "volumes[].csi.nodePublishSecretRef"),
        "in a cluster only",
    ),
    Works(
        f"{_LIVE}image_volumes.py::test_an_image_is_mounted_read_only_whole_or_in_part",
        ("volumes[].image",),
        "the runtime must have image volumes",
    ),
)

_SCHEDULER = "the scheduler's"
_ELSEWHERE: Final = {
    "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": _SCHEDULER,
    "affinity.podAffinity": _SCHEDULER,
    "affinity.podAntiAffinity": _SCHEDULER,
    "evictionResponders": "the eviction API's, whose controllers read it",
    "automountServiceAccountToken": "the API server's, which adds the volume",
    **dict.fromkeys(
        (
            *_below("volumes[].ephemeral.volumeClaimTemplate.metadata", "annotations", "labels"),
            *_below(
                "volumes[].ephemeral.volumeClaimTemplate.spec",
                *("dataSource", "dataSourceRef", "resources.limits", "selector", "volumeAttributesClassName"),
            ),
        ),
        "the controllers', which make the claim of it and find it a volume",
    ),
    "preemptionPolicy": _SCHEDULER,
    "schedulerName": _SCHEDULER,
    "schedulingGates": "the scheduler's; a static pod, which is on its node already, is refused with one",
    "schedulingGroup": _SCHEDULER,
    "serviceAccount": "the old name of serviceAccountName, which is always set beside it",
    "tolerations": "the scheduler's, and of nodes that have taints",
    "topologySpreadConstraints": _SCHEDULER,
}

_NOT_IN_EPHEMERAL = "the API server refuses it: an ephemeral container comes late, with no claim to anything"
_REFUSED: Final = {
    "containers[].readinessProbe.terminationGracePeriodSeconds": "a failed readiness probe ends nothing",
    "volumes[].ephemeral.volumeClaimTemplate.metadata": "the API server takes labels and annotations alone",
} | {
    f"ephemeralContainers[].{name}": _NOT_IN_EPHEMERAL
    for name in (
        *("lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy", "resources"),
        *("restartPolicy", "restartPolicyRules", "startupProbe"),
    )
}

_LIMITS: Final = {
    "containers[].livenessProbe.successThreshold": "only 1: the API server refuses others",
    "containers[].startupProbe.successThreshold": "only 1: the API server refuses others",
} | {
    f"initContainers[].{name}": "only of sidecars, restartPolicy Always: refused with others"
    for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
}
_EMBEDDED: Final = (
    *((row.path, row.why) for row in (*WITHOUT, *NOT_MOUNTED)),
    *((row.path, f"refused: {row.why}") for row in REFUSED_EMBEDDED),
)
_LIMITS_EMBEDDED: Final = {
    path: f"on the embedded runtime: {'; '.join(why for other, why in _EMBEDDED if other == path)}"
    for path, _ in _EMBEDDED
}

PODS: Final = Table(
    _WORKS,
    ROWS,
    _REFUSED,
    _ELSEWHERE,
    {"initContainers[]": "containers[]", "ephemeralContainers[]": "containers[]"},
    _LIMITS | _LIMITS_EMBEDDED,
)
"""Every field of a pod's spec."""
