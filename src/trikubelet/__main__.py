"""``python -m trikubelet`` is the same as ``trikubelet``; ``cli/main.py`` has it."""

from __future__ import annotations

from trikubelet.cli.main import program

if __name__ == "__main__":
    program()
