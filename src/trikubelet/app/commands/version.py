"""``trikubelet version``, which is also ``trikubelet --version``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Print it; ``argv`` is of no interest, as in ``kubelet --version``. Always 0."""
    print(f"trikubelet {__version__}")
    return 0
