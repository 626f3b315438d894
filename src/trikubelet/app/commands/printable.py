"""Text from elsewhere, made fit for a terminal.

A container chooses its termination message, and an image's author much of what events say. Such text must not be able
to move a reader's cursor, retitle their window or hide a line. Logs are what the container wrote and stay so.
"""

from __future__ import annotations

_CARET = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)}
_HIGH = {code: f"\\x{code:02x}" for code in range(128, 160)}
_LINES = {code: shown for code, shown in (_CARET | _HIGH).items() if chr(code) not in "\n\t"}
_CELL = (_CARET | _HIGH) | {ord("\n"): " ", ord("\t"): " "}


def in_lines(text: str) -> str:
    """The text with every control character but newline and tab spelt out."""
    return text.translate(_LINES)


def in_a_cell(text: str) -> str:
    """The text on one line: newlines and tabs are blanks, other control characters spelt out."""
    return text.strip().translate(_CELL)
