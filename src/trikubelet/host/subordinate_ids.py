"""The ids that the administrator has reserved for pods with user namespaces.

Like upstream, they are the subordinate ids (subuid(5), subgid(5)) of a user named ``kubelet``, and ``getsubids`` prints
them, wherever they are stored. Without such a user or program, none are reserved. The composition root reads them once,
at start, for ``core.user_namespaces``. An unavailable directory service does not fail the start: the configuration is
valid, and only pods with user namespaces are concerned.

If none are reserved, pods get ids that no line of /etc/subuid and /etc/subgid has. Those lines are read each time a pod
gets a range, because ``useradd`` adds some while the agent runs.
"""

from __future__ import annotations

import logging
import pwd
import shutil
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.user_namespaces import Unsaid, subordinate_ranges
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.program import ProgramFailed, run_program
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.user_namespaces import SubordinateIds
    from trikubelet.model.runtime_config import IdRange

log = logging.getLogger(__name__)

USER: Final = "kubelet"
PROGRAM: Final = "getsubids"
FILES: Final = ("/etc/subuid", "/etc/subgid")
FILE_BYTES_MAX: Final = 1 << 20
"""About 30,000 users."""
ANSWER_SECONDS_MAX: Final = 10.0
"""Seconds for a directory service, which may be unavailable."""


async def read_subordinate_ids(environment: Mapping[str, str]) -> SubordinateIds:
    """Return the output of ``getsubids`` for the user's users and groups; Unsaid if it is not known in time whether the
    user exists. ``environment``: has the PATH for the program. Raises StartFailed if the program fails."""
    try:
        with trio.fail_after(ANSWER_SECONDS_MAX):
            await ThreadPool("user database", 1).run(partial(pwd.getpwnam, USER))
    except KeyError:
        return None
    except trio.TooSlowError:
        why = f"no answer within {ANSWER_SECONDS_MAX:g} s, when the agent started, whether there is a user {USER}"
        log.warning(
            "User namespaces are not available to pods: %s; start it again when the node's user database answers", why
        )
        return Unsaid(why)
    program = shutil.which(PROGRAM, path=environment.get("PATH"))
    if program is None:
        log.info("There is a user %s, and no %s to tell its subordinate ids: pods may have any", USER, PROGRAM)
        return None
    users = await _asked([program, USER], environment)
    return users, await _asked([program, "-g", USER], environment)


def read_ranges_of_users(files: Sequence[str] = FILES) -> Sequence[IdRange]:
    """Return the ids that users of the node may use for their own containers. A missing file has none. Raises
    OSError."""
    found: list[IdRange] = []
    for path in files:
        with suppress(FileNotFoundError):
            found += subordinate_ranges(read_plain(path, FILE_BYTES_MAX).decode(errors="replace"))
    return found


async def _asked(command: list[str], environment: Mapping[str, str]) -> str:
    try:
        output = await run_program(command, environment, run_seconds_max=ANSWER_SECONDS_MAX)
    except ProgramFailed as error:
        why = "is the user kubelet in /etc/subuid and /etc/subgid?"
        raise StartFailed(f"{' '.join(command)}: {error} ({why})") from error
    return output.decode(errors="replace")
