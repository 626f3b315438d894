"""What the churn test compares with is itself held to account: each way to tell something wrong is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from live.kit.events import parse
from live.kit.transitions import Kind, Transition, happened, invented, missing, published

if TYPE_CHECKING:
    from pathlib import Path

S, D, R = Kind.STARTED, Kind.DIED, Kind.REMOVED
LIFE = [(S, 10.0), (D, 20.0), (R, 80.0)]


def of(*told: tuple[Kind, float]) -> list[Transition]:
    return [Transition(kind, "c", when) for kind, when in told]


@pytest.mark.parametrize(
    ("real", "told", "blind_seconds", "is_missing", "is_invented"),
    [
        (LIFE, [S, D, R], 1.0, [], False),
        (LIFE, [D, R], 1.0, [S], False),
        (LIFE, [D, R], 11.0, [], False),  # it lived for ten seconds only
        (LIFE, [S, R], 11.0, [D], False),  # who was seen alive must be seen dead
        (LIFE, [S, D], 99.0, [R], False),
        (LIFE, [], 69.0, [D, R], False),
        (LIFE, [], 71.0, [], False),
        (LIFE[:1], [], 1e9, [S], False),  # it lives
        (LIFE, [S, D, D, R], 1.0, [], True),
        (LIFE, [D, S, R], 1.0, [], True),
        (LIFE[:1], [S, D], 1.0, [], True),
        ([], [S], 1.0, [], True),
    ],
)
def test_telling_less_is_found_where_it_may_not_be_and_telling_more_always(
    real: list[tuple[Kind, float]], told: list[Kind], blind_seconds: float, is_missing: list[Kind], is_invented: bool
) -> None:
    heard = of(*((kind, 0.0) for kind in told))
    assert [(kind, "c") for kind in is_missing] == missing(of(*real), heard, blind_seconds)
    assert is_invented is bool(invented(of(*real), heard))


def test_both_are_read_as_they_are_written(tmp_path: Path) -> None:
    event = '2026-11-21 13:04:05.25 +0000 UTC k8s.io /tasks/exit {"container_id":"c","id":"%s"}'
    exits = [parse(event % id_) for id_ in ("c", "an-exec")]
    assert [Transition(D, "c", 1795266245.25)] == happened(one for one in exits if one)
    removal = parse('2026-11-21 13:04:06 +0000 UTC k8s.io /containers/delete {"id":"c"}')
    assert removal is not None
    assert [D, R] == [one.kind for one in happened([removal])]
    log = tmp_path / "log"
    head = "I1121 13:04:05.123456    1234 pleg.py:1] SyncLoop (PLEG): event for pod default/web: "
    log.write_text(f"I1121 starting\n{head}ContainerStarted c\n{head}ContainerChanged c\n{head}ContainerDied c\n")
    assert [(S, "c"), (D, "c")] == [(one.kind, one.container) for one in published(log)]
