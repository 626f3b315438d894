"""Whose fault a failure is, for those who say in the log that something is away: see ``kit.outage``."""


class LocalFailure(Exception):
    """A failure of this process or its machine: what was to be asked has no part in it."""
