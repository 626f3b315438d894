"""Finds faults of a node before its pods suffer, with remedies: ``trikubelet doctor`` and the warnings at start.

    app/doctor.py reads (host/examination.py, the runtime, the API server) ─► a judgement here ─► Findings

Pure. Each function judges one subject from plain data and returns faults and remedies in an operator's words. A healthy
subject is a finding too, so that the operator sees that it was checked.
"""

from trikubelet.core.doctor.cluster import RIGHTS, Renewal, Right, judge_certificate, judge_rights
from trikubelet.core.doctor.machine import (
    SYSCTLS,
    SYSCTLS_INSIDE,
    Disk,
    judge_backend,
    judge_cgroups,
    judge_clock,
    judge_disk,
    judge_memory,
    judge_port,
    judge_processes,
    judge_swap,
    judge_sysctls,
)
from trikubelet.core.doctor.manifests import judge_manifests
from trikubelet.core.doctor.pods import judge_unknown_pods
from trikubelet.core.doctor.runtime import CNI_DIRECTORY, CNI_PLUGINS, PodNetwork, judge_network, judge_runtime
from trikubelet.model.finding import Finding, Severity, worst

__all__ = [
    "CNI_DIRECTORY",
    "CNI_PLUGINS",
    "RIGHTS",
    "SYSCTLS",
    "SYSCTLS_INSIDE",
    "Disk",
    "Finding",
    "PodNetwork",
    "Renewal",
    "Right",
    "Severity",
    "judge_backend",
    "judge_certificate",
    "judge_cgroups",
    "judge_clock",
    "judge_disk",
    "judge_manifests",
    "judge_network",
    "judge_memory",
    "judge_port",
    "judge_processes",
    "judge_rights",
    "judge_runtime",
    "judge_swap",
    "judge_sysctls",
    "judge_unknown_pods",
    "worst",
]
