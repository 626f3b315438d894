"""``python -m trikubelet`` is the same as ``trikubelet``; ``app/cli.py`` has it."""

from __future__ import annotations

import sys

from trikubelet.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
