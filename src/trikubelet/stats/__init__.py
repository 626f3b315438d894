"""What the node, its pods and their containers use, found out when somebody asks.

``provider`` takes a snapshot of everything, ``disks`` measures what takes long and keeps it for a minute. Nothing is
read while nobody asks.
"""
