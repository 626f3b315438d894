"""Resource usage of node, pods and containers: parses the kernel's files, computes rates, and builds the summary.

``cgroup_files`` and ``proc_files`` parse texts of the kernel into ``model.usage``; ``rates`` computes CPU usage from
two readings; ``summary`` converts one snapshot of the node into the form of ``/stats/summary``.
"""
