"""The output of ``apply``, ``delete`` and ``rollback`` about their steps: kubectl's lines, and the places of kept
files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.manifest_steps import BringBack, Put, Remove, Unchanged

if TYPE_CHECKING:
    from trikubelet.cli.manifest_steps import Step


def outcome_lines(step: Step, *, dry_run: bool) -> list[str]:
    """Return a line for each pod and object of a step. The last one of a step names the files."""
    done, files = _outcome(step), _files_planned(step) if dry_run else _files(step)
    lines = [f"{_as_deleted(name) if isinstance(step, Remove) else name} {done}" for name in step.names]
    if dry_run:
        lines = [f"{line} (dry run)" for line in lines[:-1]] + [f"{lines[-1]} (dry run{files and ': '}{files})"]
    elif files:
        lines[-1] += f" ({files})"
    return lines


def _outcome(step: Step) -> str:
    match step:
        case Unchanged():
            return "unchanged"
        case Put():
            return "created" if step.before is None else "configured"
        case Remove():
            return "deleted"
        case BringBack():
            return "rolled back"


def _as_deleted(name: str) -> str:
    """Return ``pod "web"`` for ``pod/web``: kubectl's spelling of what it deletes."""
    kind, _, bare = name.partition("/")
    return f'{kind} "{bare}"'


def _files(step: Step) -> str:
    match step:
        case Put(before=before) if before is not None and before.by_hand:
            return f"the file that was there, which apply did not write, is kept as {before.path}"
        case Remove():
            return f"removed {step.path}; a copy is {step.before.path}"
        case BringBack():
            then = f"; the version before is {step.before.path}" if step.before is not None else ""
            return f"{step.path} has the content of {step.copy}{then}"
    return ""


def _files_planned(step: Step) -> str:
    match step:
        case Put(before=before) if before is not None and before.by_hand:
            return f"the file that is there, which apply did not write, would be kept as {before.path}"
        case Remove():
            return f"would remove {step.path} and keep a copy as {step.before.path}"
        case BringBack():
            return f"{step.path} would have the content of {step.copy}"
    return ""
