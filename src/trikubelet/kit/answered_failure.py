"""A failure that the server itself reported; ``kit.outage`` logs it differently from an unreachable server."""


class AnsweredFailure(Exception):
    """The server answered with an error. The connection is healthy."""
