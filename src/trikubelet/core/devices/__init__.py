"""Devices of plugins: which there are, which container gets which, and how that is written down.

    plugins' lists ──► inventory ─┐                        ┌─► met, or refused: nothing to do
    pod ──► needs ────────────────┼─► decide ──────────────┴─► open ──► (the plugin's advice) ──► chosen ──► holdings
    checkpoint ──► holdings ──────┘                                                                              │
        ▲────────────────────────────────────────────────────────────────────────────────────────────────────────┘

Rules, texts and the format of the file are upstream's (pkg/kubelet/cm/devicemanager of v1.36). The decision record
0044 has the reasons.
"""
