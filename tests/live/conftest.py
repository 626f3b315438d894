"""The live tests' fixtures: containerd, the distribution's and one of the 2.x line, CRI-O, and a control plane, all
real.

They are our own, live for the session and are started when the first test asks; each test gets them without pods and
leaves them without pods. A test that wants a control plane of another kind, or is to spoil it, has one made for itself.
Where the machine cannot run them the tests fail, naming what is missing: a live test that did not run proves nothing,
and a skip is read as a pass. ``docs/live-tests.md`` tells how to run one by hand.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from live.kit import images, instance, marked, places
from live.kit.cluster_agent import ClusterAgent
from live.kit.containerd import Containerd, distribution, newer
from live.kit.control_plane import ControlPlane
from live.kit.crio import Crio, installed
from live.kit.daemon import Daemon
from live.kit.private_registry import PrivateRegistry
from live.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

LONGEST_FIRST = (
    "test_churn.py",
    "test_cluster_unsteady.py",
    "test_cluster_failing.py",
    "test_agent_survives.py",
    "test_infrastructure.py",
    "test_runtime_contract.py",
)
"""Files that wait for minutes, or have very many tests: none is to begin when other workers have nothing left."""

TIMEOUT_SECONDS = 300
"""For a test here that says no other: runtimes and control planes are started in it, on a machine that may be slow."""

D = TypeVar("D", bound=Daemon)

_PLANES = pytest.StashKey[list[ControlPlane]]()


@pytest.fixture(scope="session")
def swept_machine() -> None:
    """Takes away what test runs that were killed left behind."""
    try:
        places.require_machine()
        instance.sweep_abandoned()
        marked.sweep_abandoned()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture
def mounting_place(swept_machine: None) -> Iterator[Path]:
    """A directory for tests that mount in the machine's own table: its mounts go with it, if need be by the next
    sweep."""
    with marked.directory() as place:
        yield place


@pytest.fixture(scope="session")
def _containerd1(swept_machine: None) -> Iterator[Containerd]:
    yield from _running(lambda: Containerd(*distribution()))


@pytest.fixture(scope="session")
def _containerd2(swept_machine: None) -> Iterator[Containerd]:
    yield from _running(lambda: Containerd(*newer()))


@pytest.fixture(scope="session")
def _crio(swept_machine: None) -> Iterator[Crio]:
    yield from _running(lambda: Crio(installed()))


@pytest.fixture
def containerd1(_containerd1: Containerd) -> Iterator[Containerd]:
    """The distribution's containerd, running and without pods."""
    yield from _without_pods(_containerd1)


@pytest.fixture
def containerd2(_containerd2: Containerd) -> Iterator[Containerd]:
    """The containerd of the 2.x line that install.sh built, running and without pods."""
    yield from _without_pods(_containerd2)


@pytest.fixture
def crio(_crio: Crio) -> Iterator[Crio]:
    """The CRI-O that install.sh built, running and without pods."""
    yield from _without_pods(_crio)


@pytest.fixture(params=["containerd1", "containerd2"])
def containerd(request: pytest.FixtureRequest) -> Containerd:
    """Each of the two in turn: for what must hold on both."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Containerd)
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for a reader's files, with a short name because a Unix socket's path is in it."""
    with tempfile.TemporaryDirectory(prefix="tk-") as made:
        yield Path(made)


@pytest.fixture
def registry(swept_machine: None) -> Iterator[Registry]:
    """A registry on loopback with one image nobody imported, for tests of pulls; see `Containerd.trust`."""
    with Registry(images.pulled()) as registry:
        yield registry


@pytest.fixture
def private_registry(swept_machine: None) -> Iterator[PrivateRegistry]:
    """The distribution's registry on loopback, which asks for a password; see `Containerd.trust`."""
    try:
        made = PrivateRegistry(images.pulled())
        with made:
            yield made
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def _control_plane() -> Iterator[ControlPlane]:
    with _installed_control_plane() as plane:
        yield plane


@pytest.fixture
def control_plane(_control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane of the session, running, without nodes and workloads."""
    request.node.stash.setdefault(_PLANES, []).append(_control_plane)
    yield _control_plane
    _control_plane.clear()


@pytest.fixture
def own_control_plane(request: pytest.FixtureRequest) -> Iterator[Callable[..., ControlPlane]]:
    """Starts a control plane for this test alone, with flags of its own; see `ControlPlane`."""
    with ExitStack() as planes:

        def start(flags: Mapping[str, Iterable[str]] | None = None) -> ControlPlane:
            plane = planes.enter_context(_installed_control_plane(flags))
            request.node.stash.setdefault(_PLANES, []).append(plane)
            return plane

        yield start


@pytest.fixture
def member(control_plane: ControlPlane, containerd2: Containerd) -> Iterator[ClusterAgent]:
    """The agent on containerd 2.x as a node of the session's cluster, ready."""
    with ClusterAgent(containerd2, control_plane) as agent:
        agent.wait_ready()
        yield agent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, the others in their order after them; each test has a timeout for a slow machine.
    The items are those of the whole run, and some may be no live tests."""
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its control planes said last."""
    report = yield
    if report.failed and report.when != "teardown":
        report.sections += [("control plane", plane.story()) for plane in item.stash.get(_PLANES, [])]
    return report


def _installed_control_plane(flags: Mapping[str, Iterable[str]] | None = None) -> ControlPlane:
    try:
        return ControlPlane(flags)
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)


def _running(start: Callable[[], D]) -> Iterator[D]:
    try:
        daemon = start()
    except places.NotInstalled as missing:
        pytest.fail(str(missing), pytrace=False)
    yield daemon
    daemon.close()


def _without_pods(daemon: D) -> Iterator[D]:
    """A test may stop the daemon and may fail while it is stopped; the next one is not to notice."""
    if not daemon.alive:
        daemon.start()
    yield daemon
    if not daemon.alive:
        daemon.start()
    daemon.remove_pods()
