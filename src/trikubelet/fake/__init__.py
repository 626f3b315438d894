"""The fake runtime: a CRI server with simulated pods.

It answers like a container runtime with as many pods as configured, changes some of them periodically, and allows
interventions: end a container, kill a sandbox, hang a pod. Agents are tested and measured on it.
"""
