"""A live test that says nothing of its timeout has one for a slow machine, and no other test is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from live import conftest

TESTS = Path(conftest.__file__).parent.parent


class Item:
    """As much of a collected test as is asked."""

    def __init__(self, path: str, *marks: pytest.MarkDecorator) -> None:
        self.path = TESTS / path
        self.marks = list(marks)

    def get_closest_marker(self, name: str) -> pytest.MarkDecorator | None:
        """The last mark of that name."""
        return next((mark for mark in reversed(self.marks) if mark.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        """One more."""
        self.marks.append(mark)


def test_a_live_test_has_a_timeout_for_a_slow_machine_unless_it_says_another() -> None:
    silent = Item("live/test_pod_cgroups.py", pytest.mark.slow)
    says = Item("live/test_churn.py", pytest.mark.timeout(1800))
    other = Item("shell/app/test_supervise.py")

    conftest.pytest_collection_modifyitems([silent, says, other])

    found = [item.get_closest_marker("timeout") for item in (silent, says, other)]
    assert [(300,), (1800,), None] == [mark and mark.args for mark in found]
