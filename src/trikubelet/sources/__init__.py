"""The sources of the pods that this node should run, and their merge.

    file, url, api ── whole Snapshots ──► a Slot for each ──► mux (core.merge) ──► desired, objects
                                                               └─ changes of single pods ──► the sync loop

Each source publishes its whole state when it changes; the mux merges them. Nothing here depends on what happens to a
pod afterwards.
"""
