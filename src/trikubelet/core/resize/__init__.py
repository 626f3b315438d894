"""Resizing a pod in place: its allocated resources, those its containers were created with, and the steps between.

    spec ──verdict──► allocation ──plan, per container──► made ──the runtime──► what is reported as ``resources``

A change of the spec requests a resize, and the node decides if it is possible (``verdicts``). The *allocated* resources
of a pod (``allocation``) count everywhere; a container's actual ones are those it was *made* with, or changed to since.
If the two differ a resize is in progress (``progress``), and ``core.actions`` plans its steps. Rules, reasons and texts
are upstream's (KEP-1287; pkg/kubelet/allocation and kuberuntime of v1.36). ``pods.allocations`` keeps both,
``pods.resize_decisions`` decides in the order of ``pods.resizes``, and ``pods.resizing`` carries out the steps.
"""
