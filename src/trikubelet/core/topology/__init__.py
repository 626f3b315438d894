"""NUMA topology: CPU lists, sets of NUMA nodes, and the choice of the nodes that a container's resources come from.

The record of the machine is ``model.machine``; ``host/machine.py`` reads it. Decision record 0047 has the reasons.
"""
