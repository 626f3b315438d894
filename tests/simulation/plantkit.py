"""Looks for a seed that finds a rule broken on purpose."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.testing.simulation import Outcome

SEEDS_MAX = 120
"""Within so many seeds a planted break must show."""
RARE = [76, 46, 188, 257, 549, 149, 218, 187, 210, 240, 28, 25, 797, 201, 60, 96, 139, 397, 631]
"""Seeds that have found what few find, tried first: an agent's first word is that of one before it; a pod that failed
is brought back while a mirror shows its end (149, 218 and 797 too); a name is used again while a status of its last
bearer is on its way (210 and 240); an object goes while its containers run; an old list is believed (188, 257 and 549);
what could not be stopped runs on when its pod counts as over; a probe kills the same container again and again (60, 96,
397 and 631); a sandbox dies between init containers."""


def assert_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    found: str,
    run: Callable[[int], Outcome],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plant the break and fail unless a seed's violations say ``found``."""
    plant(monkeypatch)
    logging.getLogger("trikubelet").disabled = False
    others: set[str] = set()  # a plant that no longer fits what it replaces breaks things of its own: let it be seen
    for seed in [*RARE, *range(SEEDS_MAX)]:
        violations = run(seed).violations
        if any(found in violation for violation in violations):
            return
        others.update(violations)
    pytest.fail(
        f"no violation of {SEEDS_MAX} seeds says {found!r} although {plant.__doc__}\n" + "\n".join(sorted(others)[:5])
    )
