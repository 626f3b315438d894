"""The hash that shows whether a running container still is what the spec asks for.

Written into the container's annotations when it is created and compared at every sync. Only the fields that a pod's
author may change on a live pod count (upstream: pickFieldsToHash), so that an upgrade of the agent, which may add
defaults to other fields, does not restart the world.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trikubelet.core.fnv import fnv1a_32

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, EphemeralContainer


def container_hash(container: Container | EphemeralContainer) -> str:
    """Hexadecimal FNV-1a (32 bits) over the name and the image."""
    picked = {"image": container.image, "name": container.name}
    return f"{fnv1a_32(json.dumps(picked, separators=(',', ':'), sort_keys=True, ensure_ascii=False).encode()):x}"
