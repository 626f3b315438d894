"""A node's object and status for the cluster, and the requests to send when they change.

    report (machine, runtime, images, problem) ─► status.build ─► patch.status_patch ─► PATCH nodes/<name>/status
                                               └► registration ─► POST nodes, or a patch of an existing node

Pure; the tasks that gather a report and send the result are in ``node``.
"""

from trikubelet.core.node_status.amounts import Reserved, allocatable, capacity, shared_limit
from trikubelet.core.node_status.patch import differs, status_patch
from trikubelet.core.node_status.registration import Identity, emptied, new_node, reconciliation, self_described
from trikubelet.core.node_status.report import NodeReport, Pressures
from trikubelet.core.node_status.status import build, rebooted

__all__ = [
    "Identity",
    "NodeReport",
    "Pressures",
    "Reserved",
    "allocatable",
    "build",
    "capacity",
    "differs",
    "emptied",
    "new_node",
    "rebooted",
    "reconciliation",
    "self_described",
    "shared_limit",
    "status_patch",
]
