"""docs/simulation.md names every rule that is broken on purpose, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulation import test_member_seeds, test_seeds

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs/simulation.md"
HEAD = "| Broken on purpose | What a violation says |\n|---|---|\n"


@pytest.mark.parametrize(("place", "breaks"), [(1, test_seeds.BREAKS), (2, test_member_seeds.BREAKS)])
def test_the_page_has_all_that_is_broken_on_purpose(
    place: int, breaks: tuple[tuple[Callable[[pytest.MonkeyPatch], None], str], ...]
) -> None:
    table = PAGE.read_text().split(HEAD)[place].partition("\n\n")[0]

    assert [f"| {(plant.__doc__ or '').rstrip('.')} | {found.strip(' :')} |" for plant, found in breaks] == (
        table.splitlines()
    )
