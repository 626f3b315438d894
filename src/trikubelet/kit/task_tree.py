"""Every task there is, by the nurseries they live in, and where each of them waits: Trio's own picture, as text.

    main                                             waits at supervise.py:96 run
    └─ nursery
       ├─ serve_http                                 …

Shows what an agent does that seems to do nothing. Takes a millisecond or two for each thousand tasks and changes
nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS_MAX: Final = 10_000
"""More are counted and not shown."""
_OWN: Final = "trikubelet"


def task_tree() -> str:
    """The tree, from the root of the run that the caller is in."""
    root = trio.lowlevel.current_root_task()
    assert root is not None, "a caller is asking, so there is a run"
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
    """Where a task waits: the innermost line of the agent's own, and behind it what that waits for."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    own = [place for place in frames if f"{os.sep}{_OWN}{os.sep}" in place[0].co_filename]
    shown = [*own[-1:], *(frames[-1:] if not own or frames[-1] != own[-1] else [])]
    return (
        " > ".join(f"{os.path.basename(code.co_filename)}:{line} {code.co_name}" for code, line in shown) or "running"
    )
