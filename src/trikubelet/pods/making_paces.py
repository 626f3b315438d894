"""The paces at which pods' sandboxes and containers are made: asked before one is made, and told when it is.

How long one waits is ``core.making_pace``'s decision. A container's pace is that of its sandbox's life: in a new one it
waits for nothing, for the sandbox has waited already. An edited container is another one. Of one that was seen to run
or to have ended nobody asks: that is a matter of its crash back-off (``pods.crash_backoffs``).
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
"""Why a container waits, where nothing is known that kept the last one from starting."""

_Key = tuple[str, ...]
"""A pod's UID; for a container also its sandbox's id, and what its back-off belongs to."""


class MakingPaces:
    """Owns which sandboxes and containers were made lately, the longest ago first; what is too old to count goes with
    the next. They may be lost, as with the process: the worst is one made too soon."""

    def __init__(self) -> None:
        self._made: OrderedDict[_Key, Made] = OrderedDict()

    def confirm_sandbox(self, pod: Pod) -> None:
        """Raises RetryAt where it is too early for another sandbox."""
        if (at := self._not_before((pod.metadata.uid,))) is not None:
            raise RetryAt("FailedCreatePodSandBox", "its last sandboxes did not last; the next has to wait", at)

    def confirm_container(
        self, pod: Pod, container: Container, sandbox_id: str, because: tuple[str, str] = NOT_THERE
    ) -> None:
        """Raises RetryAt where it is too early for another of these containers in the sandbox; ``because``: with this
        reason and message."""
        if (at := self._not_before(_key(pod, container, sandbox_id))) is not None:
            raise RetryAt(*because, at, container.name)

    def sandbox_made(self, pod: Pod) -> None:
        """The runtime is asked for a sandbox now; one that it fails to make may be there all the same."""
        self._note((pod.metadata.uid,))

    def container_made(self, pod: Pod, container: Container, sandbox_id: str) -> None:
        """The runtime is asked for the container now."""
        self._note(_key(pod, container, sandbox_id))

    def start_over(self, pod: Pod) -> None:
        """The pod starts over in its sandbox: its containers are made as for the first time."""
        self._drop([key for key in self._made if key[0] == pod.metadata.uid and len(key) > 1])

    def forget(self, uid: str) -> None:
        """This instance of the pod is over: the next one has its own pace."""
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
