"""The fake runtime: a CRI server with pods that nobody runs.

It answers like a container runtime with as many pods as one asks for, changes some of them as time goes by, and lets a
hand reach in: end a container, kill a sandbox, hang a pod. Agents are tried and measured on it.
"""
