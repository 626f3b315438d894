"""What is remembered of an object that was written: whether a patch is the one before."""

from __future__ import annotations

import pytest

from trikubelet.core.pod_status import PodProgress
from trikubelet.status.written_object import WrittenObject

RUNS, ENDED = PodProgress(could_run=True, is_over=False), PodProgress(could_run=False, is_over=True)


@pytest.mark.parametrize(
    ("expected", "digest", "written_from"),
    [
        (True, 7, (1, RUNS, "100")),
        (True, 7, (2, RUNS, "101")),  # others undo what we write
        (True, 8, (1, RUNS, "100")),  # the informer never shows it, and each patch has another base
        (False, 8, (2, RUNS, "100")),
        (False, 8, (1, ENDED, "100")),
        (False, 8, (1, RUNS, "101")),
    ],
)
def test_what_is_the_patch_before_or_made_of_the_same_is_written_again(
    expected: bool, digest: int, written_from: tuple[int, PodProgress, str]
) -> None:
    known = WrittenObject("uid")

    assert not known.is_written_again(7, (1, RUNS, "100"))
    assert expected is known.is_written_again(digest, written_from)
    assert known.is_written_again(digest, written_from)
