"""The live tests' fixtures: a containerd from the distribution and one of the 2.x line, both real, both our own.

They live for the session and are started when the first test asks; each test gets them without pods and leaves them
without pods. Where the machine cannot run them the tests fail, naming what is missing: a live test that did not run
proves nothing, and a skip is read as a pass. ``docs/live-tests.md`` tells how to run one by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from live.kit import images, instance, places
from live.kit.containerd import Containerd, distribution, newer
from live.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from live.kit import configuration


@pytest.fixture(scope="session")
def swept_machine() -> None:
    """Takes away what test runs that were killed left behind."""
    try:
        places.require_machine()
        instance.sweep_abandoned()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def _containerd1(swept_machine: None) -> Iterator[Containerd]:
    yield from _running(distribution)


@pytest.fixture(scope="session")
def _containerd2(swept_machine: None) -> Iterator[Containerd]:
    yield from _running(newer)


@pytest.fixture
def containerd1(_containerd1: Containerd) -> Iterator[Containerd]:
    """The distribution's containerd, running and without pods."""
    yield from _without_pods(_containerd1)


@pytest.fixture
def containerd2(_containerd2: Containerd) -> Iterator[Containerd]:
    """The containerd of the 2.x line that install.sh built, running and without pods."""
    yield from _without_pods(_containerd2)


@pytest.fixture(params=["containerd1", "containerd2"])
def containerd(request: pytest.FixtureRequest) -> Containerd:
    """Each of the two in turn: for what must hold on both."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Containerd)
    return found


@pytest.fixture
def registry(swept_machine: None) -> Iterator[Registry]:
    """A registry on loopback with one image nobody imported, for tests of pulls; see `Containerd.trust`."""
    with Registry(images.pulled()) as registry:
        yield registry


def _running(which: Callable[[], tuple[configuration.Programs, Callable[..., str]]]) -> Iterator[Containerd]:
    try:
        daemon = Containerd(*which())
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)
    yield daemon
    daemon.close()


def _without_pods(daemon: Containerd) -> Iterator[Containerd]:
    """A test may stop the daemon and may fail while it is stopped; the next one is not to notice."""
    if not daemon.alive:
        daemon.start()
    yield daemon
    if not daemon.alive:
        daemon.start()
    daemon.remove_pods()
