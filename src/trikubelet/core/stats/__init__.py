"""What node, pods and containers use: the kernel's files read, rates made, and the summary spelled out.

``cgroup_files`` and ``proc_files`` read texts of the kernel into ``model.usage``; ``rates`` makes a use of processors
out of two readings; ``summary`` puts one snapshot of the node into the form of ``/stats/summary``.
"""
