"""Tasks for the node as a whole.

    for itself      housekeeping ─► the right workers;  orphaned_pods, garbage, log_rotation ─► removal
    for a cluster   publisher, csi_node ─► its objects;  lease ─► heartbeats;  rotation, signing ─► its certificates
    runtime_state   the health of the runtime

It is above ``pods``: its tasks consult the pod workers before they remove anything, and no worker depends on them.
"""
