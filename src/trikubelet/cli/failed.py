"""How a verb says that it cannot do what was asked. A module of its own, so that reporting imports nothing that asking
needs."""

from __future__ import annotations


class CommandFailed(Exception):
    """A verb cannot do what was asked. The message is for the person who asked; ``exit_code`` for the shell."""

    exit_code = 1


class Misunderstood(CommandFailed):
    """A verb's arguments say nothing that can be done."""

    exit_code = 2
