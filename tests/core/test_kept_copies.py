"""The names of kept versions of manifests, and which of them are removed."""

from __future__ import annotations

import pytest

from trikubelet.core.kept_copies import Copy, copies_in, copy_named, next_copy, surplus


@pytest.mark.parametrize(
    ("copy", "name"),
    [
        (Copy(".web.yaml.deleted", "web.yaml", 1), ".web.yaml.deleted"),
        (Copy(".web.yaml.deleted.12", "web.yaml", 12), ".web.yaml.deleted.12"),
        (Copy(".a.deleted.deleted", "a.deleted", 1), ".a.deleted.deleted"),
        (None, "web.yaml"),
        (None, "web.yaml.deleted"),
        (None, ".web.yaml.deleted.0"),
        (None, ".web.yaml.deleted.new"),
        (None, ".deleted"),
    ],
)
def test_only_hidden_names_with_the_ending_are_copies(copy: Copy | None, name: str) -> None:
    assert copy == copy_named(name)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        (".web.yaml.deleted", ["web.yaml", ".other.yaml.deleted.7"]),
        (".web.yaml.deleted.2", [".web.yaml.deleted"]),
        (".web.yaml.deleted.10", [".web.yaml.deleted.9", ".web.yaml.deleted.2"]),
    ],
)
def test_next_copy_has_a_number_above_all_others(name: str, there: list[str]) -> None:
    assert name == next_copy("web.yaml", there)


def test_sixth_copy_removes_the_oldest_that_apply_wrote() -> None:
    names = [next_copy("w", []), *(f".w.deleted.{number}" for number in range(2, 7))]
    copies = copies_in(names)

    assert [] == surplus(copies[:5], names)
    assert [".w.deleted.2"] == [copy.name for copy in surplus(copies, names[1:])]
    assert [".w.deleted"] == [copy.name for copy in surplus(copies, [])]
    assert [".w.deleted"] == [copy.name for copy in surplus(copies, [".w.deleted.6"])], "the newest one stays"
