"""The node's own logins to image registries (``ports.NodeLogins``): docker's configuration files, and plugins.

The first file that can be read counts, at upstream's places: ``config.json`` in the root directory, the working one,
``$HOME/.docker`` and ``/.docker``, then ``.dockercfg`` in the root directory, the working one, ``$HOME`` and ``/``. It
is read for each image pull, so a change needs no notification.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.keyring import config_json_logins, dockercfg_logins
from trikubelet.kit.disk import DISK_SECONDS_MAX, disk_in_time
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.program import ProgramFailed, run_program
from trikubelet.model.errors import LoginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.registry import Login

log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a file: logins to ten thousand registries."""
PLUGIN_SECONDS_MAX: Final = 60.0
"""Seconds for one run, which calls a cloud's service over the network (upstream: 1 min)."""


class HostLogins:
    """Reads files and runs programs; owns no state. ``plugins``: the directory of the programs."""

    def __init__(self, root: Path, plugins: Path, environment: Mapping[str, str], threads: ThreadPool) -> None:
        home = Path(environment.get("HOME", "/"))
        json = [root, Path(), home / ".docker", Path("/.docker")]
        older = [root, Path(), home, Path("/")]
        self._files: list[tuple[Path, Callable[[bytes], dict[str, Login]]]] = [
            *((place / "config.json", config_json_logins) for place in json),
            *((place / ".dockercfg", dockercfg_logins) for place in older),
        ]
        self._plugins = plugins
        self._environment = environment
        self._threads = threads

    async def configured(self) -> Mapping[str, Login]:
        """See ``ports.NodeLogins``; so for the other."""
        try:
            reading = partial(self._threads.run, partial(_first_that_reads, self._files))
            return await disk_in_time(DISK_SECONDS_MAX, reading)
        except OSError as error:
            log.warning("Cannot read docker's configuration files, so no login is used: %s", error.strerror)
            return {}

    async def ask(self, plugin: CredentialPlugin, request: bytes) -> bytes:
        command = [str(self._plugins / plugin.name), *plugin.args]
        environment = {**self._environment, **{one.name: one.value for one in plugin.env}}
        try:
            return await run_program(command, environment, request, run_seconds_max=PLUGIN_SECONDS_MAX)
        except ProgramFailed as error:
            raise LoginUnavailable(str(error)) from error


def _first_that_reads(files: Sequence[tuple[Path, Callable[[bytes], dict[str, Login]]]]) -> Mapping[str, Login]:
    for path, read in files:
        try:
            return read(read_plain(path, FILE_BYTES_MAX))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            log.warning("Ignoring %s, so no login of it is used: %s", path, why)
    return {}
