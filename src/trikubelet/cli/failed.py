"""The errors of verbs. It is a module of its own so that reporting imports nothing that sending requests needs."""

from __future__ import annotations


class CommandFailed(Exception):
    """A verb failed. The message is for the user; ``exit_code`` for the shell."""

    exit_code = 1


class NotExecutable(CommandFailed):
    """A command in a container cannot be executed. The exit code is that of a shell, as with Docker and Podman."""

    exit_code = 126


class CommandNotFound(CommandFailed):
    """A command in a container does not exist. The exit code is that of a shell, as with Docker and Podman."""

    exit_code = 127


class Misunderstood(CommandFailed):
    """A verb's arguments are invalid."""

    exit_code = 2
