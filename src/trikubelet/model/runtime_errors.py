"""What can go wrong when a container runtime is asked, one class per decision of the caller.

The CRI adapter maps gRPC statuses to these at the seam and nowhere else; the memory runtime raises them directly.
Retry later: RuntimeUnavailable, RuntimeTimeout, RuntimeFailure. It is gone: NotFound. Do without:
NotImplementedByRuntime. Ask in smaller pieces: MessageTooLarge. Tell the user: InvalidArgument, AlreadyExists.
"""

from __future__ import annotations


class RuntimeCallError(Exception):
    """A call to the container runtime failed. The message is the runtime's own, for a user to read."""


class RuntimeUnavailable(RuntimeCallError):
    """Nobody answers at the runtime's socket, or the connection was lost before the answer."""


class RuntimeTimeout(RuntimeCallError):
    """The runtime gave up by its own deadline, or by the one sent with the call."""


class NotFound(RuntimeCallError):
    """The runtime does not know that id or image."""


class AlreadyExists(RuntimeCallError):
    """The name is taken."""


class InvalidArgument(RuntimeCallError):
    """The runtime refuses what it was asked for; asking again will not help."""


class NotImplementedByRuntime(RuntimeCallError):
    """This runtime does not have that method."""


class MessageTooLarge(RuntimeCallError):
    """The answer is larger than the message limit of either side."""


class RuntimeFailure(RuntimeCallError):
    """Anything else; ``code`` is the gRPC status' name."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code
