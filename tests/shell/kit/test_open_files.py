"""How many open files a process gets, by what its kernel says."""

from __future__ import annotations

import resource
import sys

import pytest

from trikubelet.kit.open_files import allow_open_files, open_files_max

FOR_EVER = resource.RLIM_INFINITY


class Kernel:
    """Owns one process's limit. ``refuses_above``: what not even root is given."""

    def __init__(self, soft: int, hard: int, *, is_root: bool, refuses_above: int = 1 << 20) -> None:
        self.limits = (soft, hard)
        self._is_root = is_root
        self._refuses_above = refuses_above

    def getrlimit(self, _: int) -> tuple[int, int]:
        return self.limits

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        hard = self.limits[1]
        if limits[1] > self._refuses_above or (hard != FOR_EVER and limits[1] > hard and not self._is_root):
            raise ValueError("not allowed to raise maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("expected", "limits", "kernel"),
    [
        (5000, (5000, 20000), Kernel(1024, 20000, is_root=False)),
        (2000, (2000, 2000), Kernel(1024, 2000, is_root=False)),
        (5000, (5000, 5000), Kernel(1024, 2000, is_root=True)),
        (2000, (2000, 2000), Kernel(1024, 2000, is_root=True, refuses_above=3000)),
        (9000, (9000, 20000), Kernel(9000, 20000, is_root=False)),
        (5000, (5000, FOR_EVER), Kernel(1024, FOR_EVER, is_root=False)),
        (sys.maxsize, (FOR_EVER, FOR_EVER), Kernel(FOR_EVER, FOR_EVER, is_root=False)),
    ],
    ids=["below the hard limit", "up to it", "root beyond it", "not even root", "never fewer", "no hard limit", "none"],
)
def test_as_many_files_are_allowed_as_are_wanted_or_as_many_as_ever(
    expected: int, limits: tuple[int, int], kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", kernel.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", kernel.setrlimit)

    assert expected == allow_open_files(5000)
    assert limits == kernel.limits
    assert expected == open_files_max()
