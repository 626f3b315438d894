"""An agent that logs an error has a bug: it is reported to the witness."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.testing.witness import Witness
    from trikubelet.testing.world import World


class _BugReports(logging.Handler):
    """Blames the agent for each error; in a trace every line it logs is kept."""

    def __init__(self, world: World, witness: Witness) -> None:
        super().__init__()
        self._world = world
        self._witness = witness

    def emit(self, record: logging.LogRecord) -> None:
        self._world.note(f"   {record.getMessage()}")
        if record.levelno >= logging.ERROR:
            cause = record.exc_info[1] if record.exc_info else None
            self._witness.blame(f"{record.getMessage()}: {cause!r}")


@contextmanager
def errors_blamed(world: World, witness: Witness) -> Iterator[None]:
    """Log messages of the agent in the block go to the trace, its errors to the witness, and nothing anywhere else."""
    handler = _BugReports(world, witness)
    logger = logging.getLogger("trikubelet")
    level, spreads = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if world.keeps_trace else logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = spreads
