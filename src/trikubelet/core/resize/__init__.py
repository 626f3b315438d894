"""Resizing a pod in place: what it is allocated, what its containers were made with, and what is to become of both.

    spec ──verdict──► allocation ──plan, per container──► made ──the runtime──► what is reported as ``resources``

A resize is asked for by a change of the spec, and the node decides whether it can be had (``verdicts``). What a pod is
*allocated* (``allocation``) is what it counts with everywhere; what a container was *made* with, or was changed to
since, is what it has. Where the two differ a resize is in progress (``progress``), and ``core.actions`` plans what to
do about it. Rules, reasons and words are upstream's (KEP-1287; pkg/kubelet/allocation and kuberuntime of v1.36).
``pods.allocations`` keeps both, ``pods.resize_decisions`` decides in the turn that ``pods.resizes`` gives, and
``pods.resizing`` carries out.
"""
