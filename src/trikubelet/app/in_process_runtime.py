"""The runtime in the agent's own process, embedded or fake, as a service of it: its containers end with the agent, and
the memory of their volumes is freed then."""

from __future__ import annotations

import logging
import os
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.app.endpoint import FAKE
from trikubelet.core.configuration.effect import without_effect_embedded
from trikubelet.cri.endpoint import endpoint_at, socket_path
from trikubelet.host import mounts
from trikubelet.host.user_tmpfs import UserTmpfs
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from trikubelet.app.services import Services
    from trikubelet.app.settings import Settings

log = logging.getLogger(__name__)

UNMOUNT_SECONDS_MAX: Final = 5.0
"""Seconds; together with the shutdown of the in-process runtime, less than ``Bounds.farewell_seconds_max``."""


async def start_in_process(services: Services, settings: Settings, stopping: trio.Event) -> str:
    """Start the in-process runtime and return its endpoint. ``stopping`` is set when the agent ends its pods because it
    stops. Both runtimes are imported here, because an agent on containerd needs none. Raises StartFailed, in groups
    too, if its socket cannot be made, or its directory cannot be written."""
    run_it: Callable[..., Awaitable[None]]
    if settings.runtime.endpoint == FAKE:
        from trikubelet.fake.runtime import Plan, run_fake  # noqa: PLC0415

        name, socket = "fake runtime", settings.run_dir / "fake.sock"
        run_it = partial(run_fake, Plan(), str(socket))
    else:
        from trikubelet.embedded.runtime import run_embedded  # noqa: PLC0415

        name, socket = "embedded runtime", settings.run_dir / "embedded.sock"
        run_it = partial(run_embedded, str(socket), settings.root_dir / "embedded", stopping)
        if idle := without_effect_embedded(settings.configuration):
            log.warning("These settings have no effect on the embedded runtime: %s", ", ".join(idle))

    async def run_with_volumes(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            await run_it(task_status=task_status)
        finally:
            with trio.move_on_after(UNMOUNT_SECONDS_MAX, shield=True):
                await _free_memory(settings.root_dir)

    endpoint = endpoint_at(str(socket))
    try:
        socket_path(endpoint)
    except ValueError as error:
        raise StartFailed(f"{error}; choose a shorter --root-dir") from error
    try:
        await services.start(name, run_with_volumes)
    except* OSError as errors:
        raise StartFailed(f"the {name} cannot start: {_first(errors)}") from errors
    return endpoint


def _first(errors: BaseException) -> str:
    """Return the text of the first of them, with the file if it names one."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    assert isinstance(errors, OSError)
    return f"{errors.filename}: {errors.strerror}" if errors.filename else errors.strerror or str(errors)


async def _free_memory(root_dir: Path) -> None:
    """Free the memory of volumes once the pods have ended with their runtime, as a reboot does."""
    threads = ThreadPool("volumes at the end", 1)
    if not mounts.is_allowed():
        try:
            await threads.run(lambda: UserTmpfs(root_dir.resolve(), os.environ).clear())
        except OSError as error:
            log.warning("Cannot free the memory of pods' volumes: %s", error)
        return
    found = mounts.mounted_below(str(root_dir / "pods"))
    # First make all private: a mount in a directory of the node must not be unmounted with a pod that mounts that.
    for work, path in product((mounts.make_private, mounts.unmount), found):
        try:
            await threads.run(partial(work, path))
        except OSError as error:
            log.warning("A volume stays mounted: %s", error)
