"""The failures of a call to a container runtime, one class per decision of the caller.

The CRI adapter maps gRPC statuses to these at the seam and nowhere else; the memory runtime raises them directly, and
a handler of our own gRPC server may raise them to answer with the matching status. Ask again later: RuntimeUnavailable,
RuntimeTimeout, ResourceExhausted, RuntimeFailure. It is gone: NotFound. Do without: NotImplementedByRuntime. Ask in
smaller pieces: MessageTooLarge. Tell the user: InvalidArgument, AlreadyExists, NoCriService.
"""

from __future__ import annotations

from typing import ClassVar


class RuntimeCallError(Exception):
    """A call to the container runtime failed. The message is the runtime's own, for a user to read."""


class RuntimeUnavailable(RuntimeCallError):
    """No server answers at the runtime's socket, or the runtime reports that it is not ready. The call had no
    effect."""


class RuntimeLost(RuntimeUnavailable):
    """The connection was lost before the answer: what was asked may have been done or not. Look before repeating."""


class RuntimeTimeout(RuntimeCallError):
    """The runtime gave up by its own deadline, or by the one sent with the call."""


class NotFound(RuntimeCallError):
    """The runtime does not know that id or image."""


class AlreadyExists(RuntimeCallError):
    """The name is taken."""


class InvalidArgument(RuntimeCallError):
    """The runtime refuses what it was asked for; asking again will not help."""


class NotImplementedByRuntime(RuntimeCallError):
    """This runtime does not have that method. Do without it; it is no reason to fail."""


class NoCriService(NotImplementedByRuntime):
    """The server at the socket has no CRI v1 service at all, so only an operator can help: see ``remedy``."""

    remedy: ClassVar[str] = (
        "write disabled_plugins = [] in /etc/containerd/config.toml and restart containerd (1.6 or newer):"
        " Docker's package containerd.io comes with its CRI plugin disabled"
    )

    def __init__(self, answer: str) -> None:
        self.found = f"no CRI service answers there ({answer})"
        super().__init__(f"{self.found}: write disabled_plugins = [] in /etc/containerd/config.toml")


class ResourceExhausted(RuntimeCallError):
    """The runtime is out of something (disk, memory, its own limits) and may have it again later."""


class MessageTooLarge(RuntimeCallError):
    """A request or an answer is larger than the message limit of either side."""


class RuntimeFailure(RuntimeCallError):
    """Anything else; ``code`` is the gRPC status' name."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code
