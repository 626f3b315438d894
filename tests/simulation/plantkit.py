"""Looks for a seed that finds a rule broken on purpose."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.testing.simulation import Outcome

SEEDS_MAX = 120
"""Within so many seeds, and those below, a planted break must show."""
LIKELY = {
    "plant_objects_that_never_come": (8, 10),
    "plant_volumes_that_stay_as_they_were": (7, 8),
    "plant_an_empty_reference": (18, 52),
    "plant_nothing_waits": (0, 1),
    "plant_the_terminating_return": (15, 44),
    "plant_a_hasty_end": (1, 46),
    "plant_an_impatient_housekeeping": (3, 10),
    "plant_a_forgotten_count": (0, 1),
    "plant_a_jealous_agent": (1, 16),
    "plant_a_deaf_worker": (21, 22),
    "plant_a_kept_ghost": (6, 8),
    "plant_a_homeless_container": (153, 219),
    "plant_a_back_off_that_probes_evade": (9, 33),
    "plant_a_restart_of_all_that_stops_half_way": (4, 1),
    "plant_a_restart_of_all_that_waits_for_a_resync": (29, 1),
    "plant_a_restart_of_all_without_a_pause": (38, 46),
    "plant_a_restart_of_all_for_any_exit": (1136, 1480),
    "plant_no_back_off": (6, 9),
    "plant_a_hasty_verdict": (1, 7),
    "plant_an_inherited_readiness": (0, 3),
    "plant_a_hasty_container": (41, 8),
    "plant_volumes_that_go_first": (9, 44),
    "plant_a_hook_that_nobody_waits_for": (9, 12),
    "plant_a_sync_without_a_pause": (44, 40),
    "plant_a_writer_that_names_no_uid": (1, 16),
    "plant_a_hasty_removal": (53, 77),
    "plant_an_old_status": (6, 7),
    "plant_old_conditions": (1, 7),
    "plant_an_old_phase": (0, 13),
    "plant_agents_that_repeat_the_first_word": (162, 258),
    "plant_a_debugger_s_return": (33, 47),
    "plant_a_debugger_s_verdict": (47, 46),
    "plant_a_forgetful_informer": (4, 5),
    "plant_trust_in_any_list": (59, 162),
    "plant_a_first_word_that_stays": (18,),
    "plant_trust_in_silence": (11, 31),
    "plant_a_mirror_that_rules": (1, 7),
    "plant_a_rash_report": (12, 4),
    "plant_greed": (50, 59),
    "plant_impatience": (57, 106),
    "plant_a_phase_that_returns": (7, 16),
    "plant_a_worker_of_two_names": (7,),
}
"""Seeds that have found a break, tried before all others, by the name of what plants it. What they find shifts with the
code: then others are tried, and the test takes longer until it is told of a better one."""


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
    known = {seed for seeds in LIKELY.values() for seed in seeds}
    for seed in [*LIKELY.get(plant.__name__, ()), *range(SEEDS_MAX), *sorted(known)]:
        violations = run(seed).violations
        if any(found in violation for violation in violations):
            return
        others.update(violations)
    pytest.fail(
        f"no violation of {SEEDS_MAX} seeds says {found!r} although {plant.__doc__}\n" + "\n".join(sorted(others)[:5])
    )
