"""Asking containers over the network (``ports.Handlers``): HTTP, TCP, and gRPC's health protocol.

Each question has a connection of its own, so that what is measured is that a new one can be made. A node asks a
thousand of them each second, so a question is a few calls of the kernel and little else.
"""
