"""The pace at which pods' sandboxes and containers are created: checked before each creation, and updated by it.

``core.making_pace`` decides the delays. A container's pace lasts as long as its sandbox: in a new one it does not wait,
because the sandbox has waited already. An edited container counts as another one. The pace does not apply to a
container that was observed running or ended: its crash back-off does (``pods.crash_backoffs``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.making_pace import is_forgotten, made_again, may_be_made_at
from trikubelet.core.restarts import backoff_key
from trikubelet.model.errors import RetryAt

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.core.making_pace import Made
    from trikubelet.model.k8s import Container, Pod

NOT_THERE: Final = ("CreateContainerError", "it was created more than once and is not there; the next has to wait")
"""Why a container waits, if the reason for the last one's failure is unknown."""

_Key = tuple[str, ...]
"""A pod's UID; for a container also its sandbox's id, and its back-off key."""


class MakingPaces:
    """Owns the recent creations of sandboxes and containers, the oldest first; outdated ones are dropped with the next
    one. They may be lost with the process: the worst result is one early creation."""

    def __init__(self) -> None:
        self._made: OrderedDict[_Key, Made] = OrderedDict()

    def confirm_sandbox(self, pod: Pod) -> None:
        """Raise RetryAt if it is too early for another sandbox."""
        if (at := self._not_before((pod.metadata.uid,))) is not None:
            raise RetryAt("FailedCreatePodSandBox", "its last sandboxes did not last; the next has to wait", at)

    def confirm_container(
        self, pod: Pod, container: Container, sandbox_id: str, because: tuple[str, str] = NOT_THERE
    ) -> None:
        """Raise RetryAt, with the reason and message of ``because``, if it is too early to create the container again
        in the sandbox."""
        if (at := self._not_before(_key(pod, container, sandbox_id))) is not None:
            raise RetryAt(*because, at, container.name)

    def sandbox_made(self, pod: Pod) -> None:
        """Record a request for a sandbox; it may exist even if the request fails."""
        self._note((pod.metadata.uid,))

    def container_made(self, pod: Pod, container: Container, sandbox_id: str) -> None:
        """Record a request for the container."""
        self._note(_key(pod, container, sandbox_id))

    def start_over(self, pod: Pod) -> None:
        """Reset the pace of the pod's containers, because it starts over in its sandbox."""
        self._drop([key for key in self._made if key[0] == pod.metadata.uid and len(key) > 1])

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod: the next one has its own pace."""
        self._drop([key for key in self._made if key[0] == uid])

    def _drop(self, keys: Collection[_Key]) -> None:
        for key in keys:
            del self._made[key]

    def _not_before(self, key: _Key) -> float | None:
        return may_be_made_at(self._made.get(key), trio.current_time())

    def _note(self, key: _Key) -> None:
        now = trio.current_time()
        self._made[key] = made_again(self._made.get(key), now)
        self._made.move_to_end(key)
        while is_forgotten(next(iter(self._made.values())), now):
            self._made.popitem(last=False)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"<MakingPaces {len(self)} made lately>"


def _key(pod: Pod, container: Container, sandbox_id: str) -> _Key:
    return pod.metadata.uid, sandbox_id, backoff_key(pod, container)
