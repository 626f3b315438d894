"""The fields of a KubeletConfiguration that have an effect, each with its test, and those without.

A field that is set and has no effect is named in one warning at start, so that operators do not rely on it. An entry
covers everything below it.
"""

from __future__ import annotations

from typing import Final

from trikubelet.core.support.field import Row, Table, Works

_BATCH = "tests/live/test_configuration_fields.py::test_"
_JOIN = "tests/live/test_cluster_join.py::test_"
_NODE_API = "tests/live/test_cluster_node_api.py::test_"
_IN_MEMORY = "tests/shell/app/test_node_api_of_an_agent.py::test_"
_SERVING = "tests/shell/server/test_serving_tls.py::test_"
_ASKED = "tests/shell/server/test_node_api.py::test_"
_TRANSLATED = "tests/shell/app/test_translated_settings.py::test_"
_EVICTED = "tests/live/test_evictions.py::test_"
_WORDS = "tests/live/test_cluster_words.py::test_"

HONOURED_GATES: Final = frozenset(
    {
        *("AllAlpha", "AllBeta", "ContainerCheckpoint", "KubeletCrashLoopBackOffMax"),
        *("KubeletEnsureSecretPulledImages", "MemoryQoS", "ReduceDefaultCrashLoopBackOffDecay"),
        *("GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "ResourceHealthStatus"),
    }
)
"""Feature gates that have an effect. Groups of gates only set others, which are listed themselves where they matter."""

_WORKS: Final = (
    Works(
        f"{_BATCH}a_node_is_as_its_configuration_says",
        (
            *("kubeReserved", "nodeStatusMaxImages"),
            *("podsPerCore", "providerID", "systemReserved"),
        ),
    ),
    Works(
        f"{_TRANSLATED}a_node_says_that_controllers_attach_its_volumes_unless_they_are_not_to",
        ("enableControllerAttachDetach",),
    ),
    Works(
        f"{_TRANSLATED}pods_are_held_to_what_is_allocatable_only_where_that_is_enforced",
        ("enforceNodeAllocatable",),
    ),
    Works(
        "tests/shell/host/test_kernel_defaults.py"
        "::test_machine_with_swap_or_old_cgroups_is_refused_where_that_is_configured",
        ("failCgroupV1", "failSwapOn"),
        "where they are configured: their default refuses nothing",
    ),
    Works(
        f"{_TRANSLATED}reserved_resources_are_enforced_on_the_cgroups_that_are_named",
        ("systemReservedCgroup", "kubeReservedCgroup"),
    ),
    Works(
        f"{_TRANSLATED}a_limit_of_processors_is_a_quota_unless_the_configuration_wants_none",
        ("cpuCFSQuota",),
    ),
    Works(
        "tests/live/test_pod_cgroups.py::test_the_kernel_takes_every_value_and_a_second_time_nothing_changes",
        ("cgroupRoot",),
        by=("cgroup_root",),
    ),
    Works(
        "tests/shell/host/test_cgroups.py::test_the_choice_says_why_pods_have_no_cgroups_of_their_own",
        ("cgroupsPerQOS",),
    ),
    Works(
        f"{_BATCH}pods_are_as_the_configuration_says",
        (
            *("allowedUnsafeSysctls", "cpuCFSQuotaPeriod", "crashLoopBackOff.maxContainerRestartPeriod"),
            *("podLogsDir", "podPidsLimit", "resolvConf", "seccompDefault"),
        ),
    ),
    Works(
        "tests/live/test_log_rotation.py::test_a_log_stays_small_and_no_line_of_it_is_lost_or_doubled",
        ("containerLogMaxSize", "containerLogMaxFiles", "containerLogMonitorInterval"),
    ),
    Works(
        "tests/shell/node/test_log_rotation.py"
        "::test_no_more_logs_are_rotated_at_once_than_there_are_workers_and_none_twice",
        ("containerLogMaxWorkers",),
    ),
    Works(f"{_NODE_API}unauthenticated_clients_get_no_data_in_either_mode", ("authorization.mode",)),
    Works(
        f"{_ASKED}reviews_are_remembered_as_long_as_the_configuration_says",
        ("authentication.webhook.cacheTTL", "authorization.webhook"),
    ),
    Works(
        f"{_NODE_API}each_route_wants_one_of_its_rights_from_certificates_and_tokens_alike",
        ("authentication.x509", "authentication.webhook"),
        by=("by_certificate", "by_token"),
    ),
    Works(
        f"{_ASKED}anonymous_clients_have_their_own_rights_and_invalid_credentials_are_not_anonymous",
        ("authentication.anonymous",),
    ),
    Works(
        f"{_IN_MEMORY}node_without_a_cluster_serves_the_configured_clients",
        ("address", "port", "readOnlyPort"),
    ),
    Works(f"{_IN_MEMORY}in_a_cluster_there_is_one_unless_it_is_not_wanted", ("enableServer",)),
    Works(
        f"{_IN_MEMORY}member_serves_with_its_certificate_and_rejects_tokens_while_its_cluster_is_away",
        ("tlsCertFile", "tlsPrivateKeyFile"),
    ),
    Works(f"{_SERVING}of_curves_the_first_there_is_is_spoken", ("tlsCurvePreferences",), by=("curves",)),
    Works(f"{_SERVING}of_suites_only_those_asked_for_are_spoken", ("tlsCipherSuites",), by=("suites",)),
    Works(f"{_SERVING}the_version_is_at_least_the_one_asked_for", ("tlsMinVersion",), by=("TlsRules",)),
    Works(f"{_JOIN}a_certificate_is_replaced_before_it_ends_and_no_heartbeat_is_missed", ("rotateCertificates",)),
    Works(
        f"{_NODE_API}a_certificate_the_cluster_signed_is_shown_as_soon_as_it_is_there",
        ("serverTLSBootstrap",),
    ),
    Works(
        "tests/shell/server/test_node_api.py::test_without_debugging_handlers_their_paths_say_so",
        ("enableDebuggingHandlers",),
    ),
    Works(
        "tests/shell/server/test_streams.py::test_a_conversation_in_which_nothing_is_said_is_ended",
        ("streamingConnectionIdleTimeout",),
        by=("idle",),
    ),
    Works(
        "tests/shell/server/test_node_pages.py::test_what_is_switched_off_says_so",
        ("enableProfilingHandler", "enableSystemLogHandler", "enableDebugFlagsHandler"),
    ),
    Works(
        "tests/shell/server/test_node_logs.py::test_a_query_that_is_wrong_is_refused_and_where_they_are_off_all_are",
        ("enableSystemLogQuery",),
        by=("queries",),
    ),
    Works(
        f"{_TRANSLATED}settings_of_memory_reach_what_version_2_is_told_of_a_container",
        ("memoryReservationPolicy", "memorySwap", "memoryThrottlingFactor", "singleProcessOOMKill"),
        "on version 2 of cgroups; in version 1 nothing is swapped",
    ),
    Works(
        "tests/shell/app/test_cgroup_driver.py::test_the_runtimes_word_counts_before_the_configurations",
        ("cgroupDriver",),
        "where the runtime does not say which it has",
        by=("configured",),
    ),
    Works(
        "tests/live/test_pod_identity.py::test_where_a_pod_asks_for_names_is_its_policys_and_its_own_word",
        ("clusterDNS", "clusterDomain"),
    ),
    Works(
        "tests/live/test_fields.py::test_a_pod_with_users_of_its_own_has_none_of_the_nodes",
        ("userNamespaces",),
    ),
    Works(
        "tests/live/test_agent_pods.py::test_a_pod_comes_up_and_answers",
        ("containerRuntimeEndpoint", "staticPodPath"),
        by=("Agent",),
    ),
    Works(
        "tests/shell/images/test_puller.py::test_only_so_many_pulls_begin_in_a_second_and_the_others_wait",
        ("registryBurst", "registryPullQPS"),
        by=("burst", "per_second"),
    ),
    Works(
        "tests/shell/images/test_rights.py::test_the_policy_says_of_which_images_a_right_must_be_shown",
        ("imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"),
        by=("VerificationPolicy",),
    ),
    Works(
        "tests/shell/app/test_image_endpoint_of_an_agent.py"
        "::test_images_come_from_the_image_service_endpoint_and_containers_from_the_runtimes",
        ("imageServiceEndpoint",),
        by=("--image-service-endpoint",),
    ),
    Works(
        "tests/shell/status/test_event_writer.py::test_requests_keep_to_the_rate",
        ("eventBurst", "eventRecordQPS"),
        by=("EventRate", "burst", "per_second"),
    ),
    Works(
        "tests/shell/sources/test_manifest_directory.py::test_unnoticed_change_is_found_by_the_next_regular_look",
        ("fileCheckFrequency",),
        by=("file_check_seconds",),
    ),
    Works(
        "tests/shell/sources/test_http_source.py::test_a_url_is_asked_every_twenty_seconds_and_says_something_only_when_it_changed",
        ("httpCheckFrequency", "staticPodURL"),
        by=("http_check_seconds",),
    ),
    Works(
        "tests/shell/sources/test_manifest_adapters.py::test_a_url_is_fetched_with_its_headers_each_time",
        ("staticPodURLHeader",),
        by=("ManifestUrl",),
    ),
    Works(
        "tests/shell/server/test_health_server.py::test_it_is_served_over_tcp",
        ("healthzBindAddress", "healthzPort"),
        by=("serve_health", "port"),
    ),
    Works(
        "tests/shell/kit/test_logs.py::test_json_is_one_object_per_line_as_component_base_has_it",
        ("logging.format",),
        by=("json",),
    ),
    Works(
        "tests/shell/kit/test_logs.py::test_the_first_module_pattern_that_fits_counts",
        ("logging.verbosity", "logging.vmodule"),
        by=("Verbosity",),
    ),
    Works(
        "tests/shell/kit/test_open_files.py::test_as_many_files_are_allowed_as_are_wanted_or_as_many_as_ever",
        ("maxOpenFiles",),
        by=("allow_open_files",),
    ),
    Works(
        "tests/shell/images/test_puller.py::test_no_more_images_are_pulled_at_a_time_than_the_bound_allows",
        ("maxParallelImagePulls", "serializeImagePulls"),
        by=("pulls_max",),
    ),
    Works(
        "tests/shell/host/test_kernel_defaults.py::test_a_node_that_protects_them_starts_on_no_other_kernel",
        ("protectKernelDefaults",),
        "without it the doctor reports settings that differ, and changes none",
    ),
    Works(f"{_WORDS}a_critical_pod_gets_the_place_of_a_lesser_one", ("maxPods",)),
    Works(
        "tests/shell/node/test_lease.py::test_a_lease_is_made_and_renewed_every_quarter_of_its_duration",
        ("nodeLeaseDurationSeconds",),
        by=("lease_duration_seconds",),
    ),
    Works(
        "tests/shell/node/test_publisher.py::test_a_status_that_stays_is_told_every_five_minutes_and_no_more",
        ("nodeStatusReportFrequency", "nodeStatusUpdateFrequency"),
        by=("compute_seconds", "report_seconds"),
    ),
    Works(f"{_JOIN}an_agent_that_may_not_register_waits_for_its_operator", ("registerNode",), by=("--register-node",)),
    Works(
        "tests/otel/test_collected_traces.py::test_a_pods_life_and_the_lists_are_reported_under_upstreams_names",
        ("tracing",),
        "OTLP over HTTP, with the wheel's extra `otel`",
    ),
    Works(
        f"{_JOIN}a_token_makes_a_ready_node_with_its_labels_and_taints",
        ("registerWithTaints",),
        by=("--register-with-taints",),
    ),
    Works(
        "tests/shell/images/test_puller.py::test_a_runtime_that_hangs_is_given_up_after_the_time_of_a_call",
        ("runtimeRequestTimeout",),
    ),
    Works(
        "tests/shell/pods/test_worker.py::test_a_pod_that_is_well_is_synced_as_often_as_the_configuration_says",
        ("syncFrequency",),
    ),
    Works(
        f"{_BATCH}pods_are_as_the_configuration_says",
        ("featureGates",),
        f"only {', '.join(sorted(HONOURED_GATES))}; others that differ from their default are warned of",
    ),
    Works(
        f"{_IN_MEMORY}a_measurement_is_believed_for_the_time_of_the_configuration",
        ("volumeStatsAggPeriod",),
    ),
    Works(
        f"{_EVICTED}a_node_short_of_memory_evicts_what_is_not_critical_and_takes_no_best_effort_pod",
        (*("evictionSoft", "evictionSoftGracePeriod", "evictionMaxPodGracePeriod"),),
    ),
    Works(
        "tests/shell/node/test_eviction.py"
        "::test_a_shortage_is_over_beyond_the_reclaim_and_its_condition_after_the_period_of_the_configuration",
        ("evictionMinimumReclaim", "evictionPressureTransitionPeriod"),
    ),
    Works(
        "tests/shell/node/test_eviction.py::test_the_pod_furthest_beyond_its_request_ends_first_and_one_at_a_time",
        ("evictionHard",),
        "thresholds of containerfs are ignored, as upstream ignores them",
        by=("Threshold",),
    ),
    Works(
        "tests/shell/app/test_settings.py::test_thresholds_of_eviction_and_rules_for_images_are_the_configurations",
        ("mergeDefaultEvictionSettings",),
    ),
    Works(
        "tests/shell/node/test_eviction.py::test_no_storage_limit_applies_without_its_isolation",
        ("localStorageCapacityIsolation",),
        by=("local_limits",),
    ),
    Works(
        "tests/shell/node/test_image_garbage.py::test_only_as_many_go_as_are_needed_the_longest_unused_first",
        ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent"),
        by=("high_percent", "low_percent"),
    ),
    Works(
        "tests/shell/node/test_image_garbage.py::test_an_image_that_is_old_goes_from_a_disk_with_room",
        ("imageMaximumGCAge",),
        by=("unused_seconds_max",),
    ),
    Works(
        "tests/shell/node/test_image_garbage.py::test_an_image_just_pulled_is_kept_until_it_is_old_enough",
        ("imageMinimumGCAge",),
        by=("age_seconds_min",),
    ),
    Works(
        "tests/live/test_node_shutdown.py::test_pods_end_in_order_before_the_machine_does",
        ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority"),
        "where systemd-logind shuts the machine down",
    ),
    Works(
        "tests/shell/host/test_part_cgroups.py::test_the_agent_moves_to_its_cgroup_in_every_tree_that_accounts_for_usage",
        ("kubeletCgroups",),
        by=("PartCgroups", "enter"),
    ),
    Works(
        "tests/shell/host/test_part_cgroups.py::test_processes_leave_the_root_cgroup_but_for_init_and_kernel_threads",
        ("systemCgroups",),
        by=("PartCgroups", "gather"),
    ),
    Works(
        "tests/shell/app/test_settings.py::test_drop_ins_are_laid_over_the_file_in_the_order_of_their_names",
        ("apiVersion", "kind"),
    ),
)

_IDLE: Final = {
    "memory is measured every ten seconds, without notifications of the kernel": ("kernelMemcgNotification",),
    "processors and memory are not managed yet": (
        *("cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "memoryManagerPolicy"),
        *("topologyManagerPolicy", "topologyManagerScope", "topologyManagerPolicyOptions", "reservedSystemCPUs"),
        *("reservedMemory", "qosReserved"),
    ),
    "not served yet": (*("enableContentionProfiling", "showHiddenMetricsForVersion"),),
    "the API server is asked in JSON, and by each purpose at its own pace": (
        *("contentType", "kubeAPIQPS", "kubeAPIBurst", "configMapAndSecretChangeDetectionStrategy"),
    ),
    "programs that mount volumes (flexVolume) are not supported": ("volumePluginDir",),
    "the agent's own process is left as it was started": ("oomScoreAdj",),
    "the runtime's own affair": ("podCIDR", "hairpinMode"),
    "iptables are left to others": ("makeIPTablesUtilChains", "iptablesMasqueradeBit", "iptablesDropBit"),
    "the agent does not run once": ("runOnce",),
    "an alpha feature of 1.37, which is not there yet": ("defaultPodSysctls",),
    "the log is written at once": ("logging.flushFrequency", "logging.options"),
}
"""Fields without an effect, by the reason."""

CONFIGURATION: Final = Table(_WORKS, tuple(Row(path, why) for why, paths in _IDLE.items() for path in paths))
"""Every field of a KubeletConfiguration."""
