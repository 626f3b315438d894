"""The shipped test kit: a container runtime, a host and whole nodes in memory, on virtual time, from a seed.

Held to the same contract suites as the real adapters (``tests/contract``). No product module imports it.
"""
