"""CPUs of containers' own: which ones a container gets, what the shared pool keeps, and how that is written down.

    machine ──► layout ─┐
    policy, options ────┼─► rules ─┐
    reserved CPUs ──────┘          ├─► take (packed, distributed) ──► allocated, or refused
    state, pod, NUMA nodes ────────┘                                      │
        ▲─────────────────────────────────────────────────────────────────┘

Rules and texts are upstream's (pkg/kubelet/cm/cpumanager of v1.37); decision record 0047 has the reasons and the
differences.
"""
