"""The fixtures of tests on virtual machines: each test gets a machine of its own, booted from a disk that no other test
has written to.

The disk of a test is an overlay of the image, or of an overlay on which the kubelet was installed once for all tests.
The journals and consoles of the machines stay in ``build/vm``, a directory for each test; the disks are removed.
``TRIKUBELET_VM_KUBELET=upstream`` runs the tests of nodes on upstream's kubelet. ``docs/live-tests.md`` describes it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from live.kit import packages, places
from vm.kit.machine import Machine
from vm.kit.node import KUBELETS, Node, prepare
from vm.kit.qemu import Image, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORK = packages.TOP / "build" / "vm"
TIMEOUT_SECONDS = 2400
"""For a test that says no other. The deadlines of its waits are shorter; a boot may take minutes on a busy host."""


@pytest.fixture(scope="session")
def kubelet() -> type[Node]:
    """Return the kind of node that is tested."""
    return KUBELETS[os.environ.get("TRIKUBELET_VM_KUBELET", "agent")]


@pytest.fixture(scope="session")
def image() -> Image:
    """Return the machine's image."""
    try:
        return Image.found()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def disks() -> Iterator[Path]:
    """Empty ``build/vm``; return the directory of the disks, which are removed at the end."""
    shutil.rmtree(WORK, ignore_errors=True)
    made = WORK / "disks"
    made.mkdir(parents=True)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def prepared(image: Image, disks: Path, kubelet: type[Node]) -> Path:
    """Return the disk with images and a kubelet that is installed and not started."""
    with ExitStack() as stack:
        machine = _switched_off(image, image.overlay(image.disk, disks / "prepared.qcow2"), "prepared", stack)
        try:
            prepare(machine, kubelet)
        except places.NotInstalled as missing:
            pytest.fail(str(missing), pytrace=False)
        return machine.disk


@pytest.fixture
def new_machine(image: Image, disks: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Machine]]:
    """Boots machines for this test, from the image or from another disk."""
    with ExitStack() as stack:

        def boot(shape: Shape | None = None, below: Path = image.disk) -> Machine:
            name = request.node.name
            disk = image.overlay(below, disks / f"{name}-{len(list(disks.glob(f'{name}-*')))}.qcow2")
            stack.callback(disk.unlink)
            machine = _switched_off(image, disk, disk.stem, stack, shape)
            machine.start()
            return machine

        yield boot


@pytest.fixture
def node(new_machine: Callable[..., Machine], prepared: Path, kubelet: type[Node]) -> Node:
    """A machine with containerd, and a kubelet that is not configured yet."""
    return kubelet(new_machine(below=prepared))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test gets a timeout for a slow machine; upstream's kubelet gets only the tests of nodes."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))
    if os.environ.get("TRIKUBELET_VM_KUBELET") == "upstream":
        others = [item for item in items if "node" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


def _switched_off(image: Image, disk: Path, name: str, stack: ExitStack, shape: Shape | None = None) -> Machine:
    """Make a machine whose power is cut at the end, after its journal was collected."""
    directory = WORK / name
    directory.mkdir()
    machine = Machine(image, disk, directory, shape)
    stack.callback(machine.cut_power)
    stack.callback(machine.collect)
    return machine
