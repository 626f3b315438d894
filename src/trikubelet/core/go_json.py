"""JSON as Go's encoder writes it, for texts that upstream's kubelet writes, too, and that are compared as texts.

Go writes the fields of a struct in the order of its declaration and escapes some characters that JSON leaves alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import ContainerPort, LifecycleHandler

# Go escapes these inside strings so that JSON can stand in HTML and JavaScript; Python does not.
_ESCAPES: Final = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"})
FIELDS: Final = (
    *("name", "value"),
    *("exec", "command"),
    *("httpGet", "tcpSocket", "sleep", "seconds"),
    *("path", "port", "host", "scheme", "httpHeaders"),
    *("hostPort", "containerPort", "protocol", "hostIP"),
)
"""The fields of ports and handlers. Each of Go's structs has some of them, in this order."""
_PLACES: Final = {name: place for place, name in enumerate(FIELDS)}


def go_text(value: object) -> str:
    """Return builtin values as JSON, with the keys of objects in the order that they have."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


def go_json(value: Sequence[ContainerPort] | LifecycleHandler) -> str:
    """Return the ports or the handler of a container as upstream's kubelet writes them into annotations."""
    return go_text(_ordered(msgspec.to_builtins(value)))


def _ordered(value: Any) -> Any:
    match value:
        case dict():
            return {key: _ordered(value[key]) for key in sorted(value, key=_PLACES.__getitem__)}
        case list() | tuple():
            return [_ordered(one) for one in value]
    return value
