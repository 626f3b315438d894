"""Both ways to read frames: the compiled one, and the plain Python one for where it cannot be loaded."""

import functools

import pytest

from trikubelet.core.frames import Frames
from trikubelet.cri import wire


@pytest.fixture(params=["rust", "python"])
def either_reader(request, monkeypatch):
    """Both ends read frames in one of the two ways, then in the other."""
    monkeypatch.setattr(wire, "Frames", functools.partial(Frames, backend=request.param))
