"""A failure of the local machine; ``kit.outage`` does not count it as an outage of the server."""


class LocalFailure(Exception):
    """A failure of this process or its machine: the server was not involved."""
