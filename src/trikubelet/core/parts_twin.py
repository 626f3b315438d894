"""Lists that came in parts, in plain Python: the oracle of ``rust/relist/src/parts.rs``, and its fallback without a
binary. Written for clarity, like ``relist_twin``, which it uses.
"""

from __future__ import annotations

from trikubelet.core.relist_twin import ITEMS_MAX, listed, place
from trikubelet.core.wire_twin import BYTES, Fault, Field, expect, fields, inside, text


class Joiner:
    """Owns the ids that were found so far, the last part first."""

    def __init__(self, is_sandbox: bool) -> None:
        self._is_sandbox = is_sandbox
        self._later: set[str] = set()
        self._here: set[str] = set()
        self._items = 0

    def begin_part(self) -> None:
        """Begin the part before: chunks that are added from now on belong to it."""
        self._later |= self._here
        self._here = set()

    def add(self, chunk: bytes, number: int) -> bytes:
        """Return the chunk without items of later parts. Raises TwinDecodeError, which names ``number``."""
        kept, begin, at = b"", 0, 0
        try:
            for entry in fields(chunk, 0, len(chunk)):
                if entry.number == 1 and self._is_in_later(chunk, entry):
                    kept += chunk[begin:at]
                    begin = entry.end
                at = entry.end
        except Fault as fault:
            raise fault.located(place(self._is_sandbox, number)) from None
        return kept + chunk[begin:]

    def _is_in_later(self, chunk: bytes, item: Field) -> bool:
        expect(item, BYTES)
        ids = [text(chunk, entry) for entry in inside(chunk, item) if entry.number == 1]
        id_ = ids[-1] if ids else ""
        self._items += 1
        if self._items > ITEMS_MAX:
            raise Fault(item.start, f"the list has more than {ITEMS_MAX} items")
        self._here.add(id_)
        return id_ in self._later


def pods_of(chunk: bytes) -> dict[str, list[str]]:
    """See ``core.parts.pods_of``."""
    found = {(view.pod_namespace, view.uid) for view in listed([chunk], ()) if view.uid}
    pods: dict[str, list[str]] = {}
    for namespace, uid in sorted(found, key=lambda pod: (pod[0].encode(), pod[1].encode())):
        pods.setdefault(namespace, []).append(uid)
    return pods
