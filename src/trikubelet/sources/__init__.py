"""What pods this node should have: who says so, and what they come to together.

    file, url, api ── whole Snapshots ──► a Slot for each ──► mux (core.merge) ──► desired, objects
                                                               └─ changes of single pods ──► the sync loop

Each source tells all it has, whenever that is another; what several say is put together in one place. Nothing here
knows what becomes of a pod.
"""
