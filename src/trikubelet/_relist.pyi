from collections.abc import Sequence
from typing import final

__all__ = ["Relist", "RelistDecodeError"]

_Event = tuple[int, str, bool]
_Change = tuple[str, str, str, list[_Event], list[str], list[str]]
_Record = tuple[str, str, str, list[tuple[str, int, int]], list[tuple[str, str, int, int, str]]]

class RelistDecodeError(ValueError):
    offset: int

@final
class Relist:
    def __init__(self) -> None: ...
    def observe(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], reinspect: set[str]
    ) -> list[_Change]: ...
    def observe_pod(
        self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], force: bool
    ) -> _Change | None: ...
    def advance(self, uid: str) -> None: ...
    def pods(self) -> list[_Record]: ...
    def pod(self, uid: str) -> _Record | None: ...
    def counts(self) -> tuple[int, tuple[int, int, int, int], int]: ...
