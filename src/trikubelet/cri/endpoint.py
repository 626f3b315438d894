"""The endpoint of a runtime: a Unix socket, written ``unix:///run/containerd/containerd.sock`` or as a bare path.

The only module that parses ``--container-runtime-endpoint``, makes an endpoint from a path, and formats a failed
connect for operators.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import unquote

# sun_path has 108 bytes on Linux, the last of them zero.
_PATH_BYTES_MAX: Final = 107


def socket_path(endpoint: str) -> str:
    """Return the file system path of ``endpoint``. Raises ValueError, with a remedy, if it is invalid."""
    scheme, colon, rest = endpoint.partition(":")
    if colon and "/" not in scheme:
        if scheme != "unix":
            raise ValueError(f"{endpoint}: only Unix sockets are supported; write unix:///path/to/runtime.sock")
        path = unquote(rest.removeprefix("//"))
    else:
        path = endpoint
    if path == "embedded":
        raise ValueError("embedded: the name of the runtime inside the agent ends in a colon; write embedded:")
    if not path.startswith("/"):
        raise ValueError(f"{endpoint}: the socket's path must be absolute; write unix:///path/to/runtime.sock")
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise ValueError(f"{endpoint}: longer than the {_PATH_BYTES_MAX} bytes a Unix socket's path may have")
    return path


def endpoint_at(path: str) -> str:
    """Return the endpoint of a socket at ``path``, percent-encoded as ``socket_path`` expects."""
    return f"unix://{path.replace('%', '%25')}"


def connect_failure(path: str, error: OSError) -> str:
    """Return why a connect to ``path`` failed, for operators."""
    if isinstance(error, FileNotFoundError):
        return f"no socket at {path}: the runtime is not running, or listens elsewhere"
    if isinstance(error, ConnectionRefusedError):
        return f"no process listens at {path}: the runtime has ended and left its socket behind"
    if isinstance(error, PermissionError):
        return f"no permission for {path}: run as a user who may open it"
    return f"cannot connect to {path}: {error.strerror or error}"
