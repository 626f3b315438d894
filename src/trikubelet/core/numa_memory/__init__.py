"""Memory of NUMA nodes: which nodes a container's memory and huge pages come from, and how that is written down.

    machine, reservedMemory ──► supply ─┐
    state (blocks) ─────────────────────┼─► usage ──► hints, allocate ──► state
    pod ──► needs ──────────────────────┘

The state is the blocks of containers alone. Free memory and groups of nodes follow from the supply and the blocks, so
they cannot contradict them. Rules and texts are upstream's (pkg/kubelet/cm/memorymanager of v1.37); decision record
0047 has the reasons and the differences.
"""
