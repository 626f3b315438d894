"""The resource usage of the node, its pods and their containers, measured on request.

``provider`` takes a snapshot of everything, ``disks`` makes slow measurements and caches them for a minute. Without
requests nothing is read.
"""
