"""A failure that came as an answer, for those who say in the log how something is: see ``kit.outage``."""


class AnsweredFailure(Exception):
    """What was asked is there and has answered, but not with what it was asked for. Its connection is sound."""
