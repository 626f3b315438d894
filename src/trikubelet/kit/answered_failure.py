"""A failure that came as an answer, for those who say in the log how something is: see ``kit.outage``."""


class AnsweredFailure(Exception):
    """The server is there and has answered, but without a result. The connection is sound."""
