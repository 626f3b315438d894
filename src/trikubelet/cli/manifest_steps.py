"""The steps of ``apply``, ``delete`` and ``rollback`` in a directory of manifests: all are taken, or none.

No step destroys a file. A removed file is renamed to its copy. A replaced file gets a second name, and then the new
file is renamed over the first one, so the path always leads to a whole manifest. Every step can be undone by renaming,
which keeps owners and modes.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import msgspec

from trikubelet.cli.applied_record import RECORD_NAME, read_record
from trikubelet.core.kept_copies import APPLIED_COPIES_MAX, COPIES_MAX, copies_in, newest, surplus
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import lay_beside, sync_names
from trikubelet.model.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trikubelet.cli.applied_record import AppliedRecord
    from trikubelet.core.kept_copies import Copy


class Kept(msgspec.Struct, frozen=True):
    """The place of the present file of a step. ``by_hand``: ``apply`` did not write it."""

    path: Path
    by_hand: bool


class Unchanged(msgspec.Struct, frozen=True):
    """A manifest that is installed already. ``names``: the pods and objects of a step."""

    path: Path
    names: Sequence[str]


class Put(msgspec.Struct, frozen=True):
    """``text`` is put at ``path``; ``before``: the place for the present file, if there is one."""

    path: Path
    names: Sequence[str]
    text: bytes
    before: Kept | None


class Remove(msgspec.Struct, frozen=True):
    """The file is renamed to its copy."""

    path: Path
    names: Sequence[str]
    before: Kept


class BringBack(msgspec.Struct, frozen=True):
    """A kept version is renamed to ``path``, and the present file is kept."""

    path: Path
    names: Sequence[str]
    copy: Path
    before: Kept | None


Step = Unchanged | Put | Remove | BringBack


def carry_out(directory: Path, steps: Iterable[Step]) -> list[str]:
    """Take every step; afterwards the result is on the disk. New files are readable for their owner alone, because they
    may contain Secrets. Slow work that needs space is done before the first rename. Return warnings about kept versions
    that were removed because there were too many. Raises OSError, and then every file is as it was."""
    due = [step for step in steps if not isinstance(step, Unchanged)]
    if not due:
        return []
    with ExitStack() as undo:
        laid = {step.path: _laid(undo, step.path, step.text) for step in due if isinstance(step, Put)}
        record = directory / RECORD_NAME
        applied = read_record(directory)
        if written := {step.path.name: step.text for step in due if isinstance(step, Put)}:
            applied = applied.with_applied(written, os.listdir(directory))
            laid[record] = _laid(undo, record, applied.encoded())
        for step in due:
            _take(undo, step, laid)
        if record in laid:
            laid[record].replace(record)  # the last one, so nothing could undo it
        undo.pop_all()
    sync_names(directory)
    return _remove_surplus(directory, {step.path.name for step in due}, applied)


def _laid(undo: ExitStack, path: Path, text: bytes) -> Path:
    beside = lay_beside(path, text)
    undo.callback(beside.unlink, missing_ok=True)
    return beside


def _take(undo: ExitStack, step: Put | Remove | BringBack, laid: dict[Path, Path]) -> None:
    """Take one step. Its undoing is registered before it begins and checks how far it came, because Ctrl-C may
    interrupt it anywhere."""
    if step.before is not None:
        undo.callback(_put_back, step.before.path, step.path)
    if isinstance(step, Remove):
        step.path.replace(step.before.path)
        return
    if step.before is not None:
        _give_second_name(step.path, step.before.path)
    new = step.copy if isinstance(step, BringBack) else laid[step.path]
    if isinstance(step, BringBack) or step.before is None:
        undo.callback(_take_back, step.path, new)
    new.replace(step.path)


def _put_back(copy: Path, path: Path) -> None:
    if os.path.lexists(copy):
        copy.replace(path)
        copy.unlink(missing_ok=True)  # it still exists if both were names of one file: then a rename does nothing


def _take_back(path: Path, new: Path) -> None:
    if not os.path.lexists(new):
        path.replace(new)


def _give_second_name(path: Path, copy: Path) -> None:
    """Give the file the name of its copy as well; make a real copy if the file system has no hard links, or the kernel
    refuses one on a file of another owner."""
    with suppress(OSError):
        os.link(path, copy, follow_symlinks=False)
        return
    beside = lay_beside(copy, path.read_bytes())
    try:
        shutil.copystat(path, beside)
        with suppress(OSError):  # only root may change owners
            found = path.stat()
            os.chown(beside, found.st_uid, found.st_gid)
        beside.replace(copy)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _remove_surplus(directory: Path, manifests: set[str], applied: AppliedRecord) -> list[str]:
    """Remove the copies beyond the bounds; return a warning for each that a user may miss. A copy that cannot be
    removed stays: the next command retries."""
    copies = copies_in(os.listdir(directory))
    warnings = []
    for manifest in manifests:
        own = [copy for copy in copies if copy.manifest == manifest]
        if len(surplus(own, ())) == 0:
            continue
        ours = {copy.name for copy in own if _is_applied(directory, copy, applied)}
        for copy in surplus(own, ours):
            _unlink(directory, copy)
            copies.remove(copy)
            if copy.name not in ours:
                warnings.append(
                    f"{directory / copy.name}: removed the oldest version that was written by hand: only {COPIES_MAX} "
                    "versions of a manifest are kept (copy those that you need to another directory)"
                )
    if len(copies) > APPLIED_COPIES_MAX:
        gone = _remove_oldest(directory, copies, manifests, applied)
        warnings += [
            f"{directory / copy.name}: removed: only {APPLIED_COPIES_MAX} versions of manifests are kept in a directory"
            for copy in gone
        ]
    return warnings


def _remove_oldest(directory: Path, copies: Sequence[Copy], manifests: set[str], applied: AppliedRecord) -> list[Copy]:
    """Remove copies that ``apply`` wrote, oldest first, but the newest of each manifest last: it may be the only one.
    Those of ``manifests`` stay, because their names were just printed. Return the removed ones."""
    last = newest(copies)
    due = [copy for copy in copies if copy not in last or copy.manifest not in manifests]
    gone: list[Copy] = []
    for copy in sorted(due, key=lambda copy: (copy in last, _changed_ns(directory, copy))):
        if len(copies) - len(gone) <= APPLIED_COPIES_MAX:
            break
        if _is_applied(directory, copy, applied):
            _unlink(directory, copy)
            gone.append(copy)
    return gone


def _is_applied(directory: Path, copy: Copy, applied: AppliedRecord) -> bool:
    """True if ``apply`` wrote this very content. An unreadable file counts as written by hand."""
    if not applied.files.get(copy.manifest):
        return False
    try:
        return applied.wrote(copy.manifest, read_plain(directory / copy.name, Bounds().manifest_bytes_max))
    except OSError:
        return False


def _changed_ns(directory: Path, copy: Copy) -> int:
    try:
        return os.lstat(directory / copy.name).st_ctime_ns  # the time at which it got this name
    except OSError:
        return 0


def _unlink(directory: Path, copy: Copy) -> None:
    with suppress(OSError):
        (directory / copy.name).unlink(missing_ok=True)
