"""What is done for the node as a whole, and for no pod in particular.

    for itself      housekeeping ─► workers as they should be;  orphaned_pods, garbage, log_rotation ─► removal
    for a cluster   publisher, csi_node ─► its objects;  lease ─► it is there;  rotation, signing ─► its certificates
    runtime_state   whether it can do its work

It looks down on ``pods``: who decides that something may go asks their workers, and no worker knows who asks.
"""
