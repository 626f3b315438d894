"""The innermost error: libraries wrap the system's message in messages of their own."""

from __future__ import annotations


def first_cause(error: BaseException) -> BaseException:
    """The error from which, one raised out of another, this one came; itself where it came from none."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
