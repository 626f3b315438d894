"""``python -m trikubelet`` is the same as ``trikubelet``; ``cli/main.py`` has it."""

from __future__ import annotations

import sys

from trikubelet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
