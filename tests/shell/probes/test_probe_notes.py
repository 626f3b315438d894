"""What probes concluded, kept for the agent's next life on a disk that takes nothing."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from trikubelet.core.probes import SavedProbeResults
from trikubelet.model.pod_notes import Note
from trikubelet.probes.notes import ProbeNotes
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    import pytest


async def test_what_cannot_be_noted_is_said_once_until_it_can_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files, it = MemoryPodFiles(), pod("web", container())
    notes, results = ProbeNotes(files), {"main": SavedProbeResults("id", ready=True)}

    def refuse(uid: str, note: Note, content: bytes) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", ".probes.new")

    def refused_thrice() -> int:
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(files, "note", refuse)
            for _ in range(3):
                notes.keep(it, results)
        return caplog.text.count("what its probes have found cannot be written down: ")

    assert 1 == refused_thrice()
    assert 0 == refused_thrice()
    notes.keep(it, results)
    assert results == notes.of(it)
    assert 1 == refused_thrice()
