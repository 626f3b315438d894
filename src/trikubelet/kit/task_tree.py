"""The tree of all Trio tasks by nursery, with the line at which each one waits, as text.

    main                                             waits at supervise.py:96 run
    └─ nursery
       ├─ serve_http                                 …

Shows where an agent that seems stuck is waiting. Takes one or two milliseconds per thousand tasks and changes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS_MAX: Final = 10_000
"""Further tasks are counted and not shown."""
_OWN: Final = "trikubelet"


def task_tree() -> str:
    """Return the tree, from the root task of the caller's run."""
    root = trio.lowlevel.current_root_task()
    assert root is not None, "called within a run of Trio"
    lines = []
    left = 0
    for number, line in enumerate(_lines(root, "")):
        if number < TASKS_MAX:
            lines.append(line)
        else:
            left += 1
    if left:
        lines.append(f"… and {left} more")
    return "\n".join(lines) + "\n"


def _lines(task: trio.lowlevel.Task, indent: str) -> Iterator[str]:
    yield f"{indent}{task.name}: {_place(task)}"
    for nursery in task.child_nurseries:
        for child in sorted(nursery.child_tasks, key=lambda one: one.name):
            yield from _lines(child, f"{indent}  ")


def _place(task: trio.lowlevel.Task) -> str:
    """Return where a task waits: the innermost line of the agent's code, followed by the library call."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    own = [place for place in frames if f"{os.sep}{_OWN}{os.sep}" in place[0].co_filename]
    shown = [*own[-1:], *(frames[-1:] if not own or frames[-1] != own[-1] else [])]
    return (
        " > ".join(f"{os.path.basename(code.co_filename)}:{line} {code.co_name}" for code, line in shown) or "running"
    )
