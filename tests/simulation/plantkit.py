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
    "plant_objects_that_never_come": (279,),
    "plant_volumes_that_stay_as_they_were": (188,),
    "plant_an_empty_reference": (10,),
    "plant_nothing_waits": (223, 273),
    "plant_the_terminating_return": (17, 24),
    "plant_a_hasty_end": (49, 93),
    "plant_an_impatient_housekeeping": (9,),
    "plant_a_forgotten_count": (113,),
    "plant_a_jealous_agent": (149, 1),
    "plant_a_deaf_worker": (175,),
    "plant_a_kept_ghost": (76,),
    "plant_a_homeless_container": (204, 218),
    "plant_a_back_off_that_probes_evade": (14, 23),
    "plant_a_restart_of_all_that_stops_half_way": (4, 7),
    "plant_a_restart_of_all_that_waits_for_a_resync": (7, 29),
    "plant_a_restart_of_all_without_a_pause": (11,),
    "plant_a_restart_of_all_for_any_exit": (215, 531),
    "plant_no_back_off": (257,),
    "plant_a_hasty_verdict": (1, 397),
    "plant_an_inherited_readiness": (549, 46),
    "plant_a_hasty_container": (41,),
    "plant_volumes_that_go_first": (67,),
    "plant_a_hook_that_nobody_waits_for": (60, 6),
    "plant_a_sync_without_a_pause": (44, 40),
    "plant_a_writer_that_names_no_uid": (96, 100),
    "plant_a_hasty_removal": (28,),
    "plant_an_old_status": (257,),
    "plant_old_conditions": (257, 46),
    "plant_an_old_phase": (257, 1),
    "plant_agents_that_repeat_the_first_word": (100,),
    "plant_a_debugger_s_return": (46, 240),
    "plant_a_debugger_s_verdict": (47,),
    "plant_a_forgetful_informer": (12,),
    "plant_trust_in_any_list": (188,),
    "plant_a_first_word_that_stays": (157,),
    "plant_trust_in_silence": (111, 156),
    "plant_a_mirror_that_rules": (1, 7),
    "plant_a_rash_report": (12,),
    "plant_greed": (59,),
    "plant_impatience": (57,),
    "plant_a_phase_that_returns": (6,),
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
