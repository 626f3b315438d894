"""What a pod is allocated: noted for an admitted pod alone, and found again by an agent's successor."""

from __future__ import annotations

import errno

import pytest

from trikubelet.core.resize.allocation import allocation_of, written
from trikubelet.core.resize.amounts import Amounts
from trikubelet.model import k8s
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.pods.allocations import Allocations
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles


def web(cpu: str) -> k8s.Pod:
    """A pod that asks for so much."""
    return pod("web", container(resources=k8s.ResourceRequirements(requests={"cpu": cpu})))


def noted(content: bytes) -> MemoryPodFiles:
    """The files of an earlier agent, with that note of the pod's allocation."""
    files = MemoryPodFiles()
    files.note("uid-web", Note.RESOURCES, content)
    return files


def test_a_pod_that_is_not_admitted_is_judged_by_the_spec_it_has_now() -> None:
    allocations, one, three = Allocations(MemoryPodFiles()), web("1"), web("3")

    assert allocation_of(three) == allocations.of(three)
    assert three is allocations.as_allocated(three)
    assert three is allocations.info(three).pod
    assert one is allocations.as_allocated(one)
    assert one is allocations.info(one).pod
    assert "<Allocations of 0 pods>" == repr(allocations)


def test_an_admitted_pod_keeps_what_it_was_admitted_with() -> None:
    allocations, one, three = Allocations(MemoryPodFiles()), web("1"), web("3")
    allocations.admit(one)
    allocations.admit(three)

    assert allocation_of(one) == allocations.of(three)
    assert one == allocations.as_allocated(three)
    assert allocations.as_allocated(three) is allocations.as_allocated(three)


def test_a_pod_that_comes_again_is_allocated_anew_and_nothing_of_its_earlier_instance_is_kept() -> None:
    allocations, one = Allocations(MemoryPodFiles()), web("1")
    allocations.admit(one)
    allocations.info(one)
    empty = vars(Allocations(MemoryPodFiles()))

    allocations.forget("uid-web")

    assert [] == [
        name
        for name, kept in vars(allocations).items()
        if name not in ("_notes", "_failure_log", "version") and kept != empty[name]
    ]


def test_what_an_earlier_agent_noted_counts_before_and_after_admission() -> None:
    allocations, one, three = Allocations(noted(written(allocation_of(web("1"))))), web("1"), web("3")

    assert one == allocations.as_allocated(three)
    assert "<Allocations of 0 pods>" == repr(allocations)
    allocations.admit(three)
    assert one == allocations.as_allocated(three)


def test_a_note_that_cannot_be_read_is_reported_once_and_the_spec_counts(caplog: pytest.LogCaptureFixture) -> None:
    allocations, three = Allocations(noted(b"no JSON")), web("3")

    assert three is allocations.as_allocated(three)
    assert three is allocations.as_allocated(three)
    assert [] == caplog.messages
    allocations.admit(three)
    assert three is allocations.as_allocated(three)
    (said,) = caplog.messages
    assert said.startswith("Pod default/web: cannot read its allocation, its spec counts: ")


async def test_what_was_found_and_cannot_be_noted_is_said_once_though_every_sync_learns_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = web("1")
    files = noted(written(allocation_of(one)))
    allocations = Allocations(files)
    allocations.admit(one)
    status = ContainerStatus("id", "main", 0, ContainerState.RUNNING, 1)

    def refuse(uid: str, note: Note, content: bytes) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", ".resources.new")

    with monkeypatch.context() as patch:
        patch.setattr(files, "note", refuse)
        for _ in range(3):
            allocations.learned(one, PodObservation("uid-web", containers=(status,)))

    assert 1 == caplog.text.count("cannot write the resources of its containers: ")

    said = 1
    # It could be noted; it is another instance.
    for is_over in (lambda: allocations.changed(one, "other", 0, Amounts()), lambda: allocations.forget("uid-web")):
        is_over()
        with monkeypatch.context() as patch:
            patch.setattr(files, "note", refuse)
            allocations.learned(one, PodObservation("uid-web", containers=(status,)))
        said += 1
        assert said == caplog.text.count("cannot write the resources of its containers: ")
