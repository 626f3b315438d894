"""Sets up the volumes of a pod concurrently: their errors are reported together, and one that hangs does not delay the
others.

    each volume ─► one of AT_ONCE_MAX places ─► all ready ─► their paths
                                           └──► else VolumeFailed, with a message for each that is not

A ready volume stays so, and the next sync finds it. A volume that hangs keeps its thread, so the places that such
threads still hold are subtracted: this bounds the number of hanging threads for all pods of a node.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.volume_plugins import plugin_name
from trikubelet.kit.threads import StillRunning
from trikubelet.model.errors import VolumeFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.model.volume_figures import VolumeFigures

AT_ONCE_MAX: Final = 4
"""Volumes of one pod set up at the same time, including those that an earlier sync left hanging."""
HANGING_PER_POD_MAX: Final = 2 * AT_ONCE_MAX
"""Threads that may hang on foreign file systems, for each pod of the node: those for its volumes, for mounting its
sub-paths, and for tearing it down. So no pod waits for another's."""
PATIENCE_SECONDS: Final = 123.0
"""Seconds for all volumes together, like upstream: a little more than one call to a driver."""
PATIENCE_AFTER_FAILURE_SECONDS: Final = 15.0
"""Seconds after a first failure. The sync has failed then: others may still get ready, but the failure must be reported
soon. Longer than the wait for a server's answer about a volume's content."""


async def set_up_all(
    pod: Pod,
    volumes: Collection[Volume],
    set_up: Callable[[Volume], Awaitable[str]],
    figures: VolumeFigures,
    hanging: Collection[str] = (),
) -> Mapping[str, str]:
    """Set up these volumes of the pod and return their host paths by name. ``set_up``: sets up one and raises OSError,
    ValueError or StillRunning, or VolumeFailed with the whole message; ``figures``: records the result of each;
    ``hanging``: those that an earlier sync still waits for. Raises VolumeFailed."""
    found: dict[str, str] = {}
    problems: dict[str, str] = {}
    places = trio.Semaphore(max(0, AT_ONCE_MAX - len(hanging)))
    began = trio.current_time()
    patience = trio.CancelScope(deadline=began + (PATIENCE_SECONDS if places.value else 0))

    async def one(volume: Volume) -> None:
        try:
            async with places:
                with _timed(pod, volume, figures):
                    found[volume.name] = await set_up(volume)
        except (OSError, ValueError, StillRunning, VolumeFailed) as error:
            said = error.message if isinstance(error, VolumeFailed) else _failed(volume.name, str(error))
            problems[volume.name] = said
            soon = trio.current_time() + PATIENCE_AFTER_FAILURE_SECONDS
            patience.deadline = min(patience.deadline, soon)

    with patience:
        async with trio.open_nursery() as nursery:
            for volume in volumes:
                nursery.start_soon(one, volume)
    late = f"not ready within {trio.current_time() - began:.0f}s"
    if hanging:
        late += f", because earlier work has not ended: {', '.join(sorted(hanging))}"
    names = [volume.name for volume in volumes if volume.name not in found]
    if names:
        raise VolumeFailed("FailedMount", *(problems.get(name) or _failed(name, late) for name in names))
    return found


@contextmanager
def _timed(pod: Pod, volume: Volume, figures: VolumeFigures) -> Iterator[None]:
    """Record the result, unless it was cancelled: then it is unknown."""
    began = trio.current_time()

    def record(*, succeeded: bool) -> None:
        took = trio.current_time() - began
        figures.tried(pod.metadata.uid, volume.name, plugin_name(volume), took, succeeded=succeeded)

    try:
        yield
    except Exception:
        record(succeeded=False)
        raise
    record(succeeded=True)


def _failed(name: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {why}'
