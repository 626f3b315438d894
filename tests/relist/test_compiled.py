"""The compiled module, and whether it is the one that these sources go with."""

from __future__ import annotations

import hashlib
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import trikubelet
from trikubelet.core import compiled


def test_a_binary_of_other_sources_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = ModuleType("trikubelet._relist")
    stale.__file__ = "/somewhere/_relist.abi3.so"
    monkeypatch.setattr(trikubelet, "_relist", stale)

    with pytest.raises(RuntimeError, match=r"/somewhere/_relist.abi3.so was built from other sources"):
        runpy.run_path(compiled.__file__)


def test_interface_number_changes_with_the_interface() -> None:
    stub = Path(trikubelet.__path__[0], "_relist.pyi").read_bytes()

    assert (6, "762ebc12ae380a25") == (compiled.INTERFACE, hashlib.sha256(stub).hexdigest()[:16])
