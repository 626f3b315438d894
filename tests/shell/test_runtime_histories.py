"""What the live tests take for a fault is itself held to account: each kind is found, and nothing else is one."""

from __future__ import annotations

import pytest

from live.kit.events import Event
from live.kit.histories import Made, read_histories

BOX, OTHER_BOX, ONE, TWO, THREE = (letter * 64 for letter in "abcde")


def ran(sandbox: str) -> str:
    return (
        f'msg="RunPodSandbox for &PodSandboxMetadata{{Name:web,Uid:u,Attempt:0,}} returns sandbox id \\"{sandbox}\\""'
    )


def made(id_: str, sandbox: str = BOX, name: str = "main", attempt: int = 0) -> str:
    whom = f"&ContainerMetadata{{Name:{name},Attempt:{attempt},}}"
    return f'msg="CreateContainer within sandbox \\"{sandbox}\\" for {whom} returns container id \\"{id_}\\""'


def started(id_: str) -> str:
    return f'msg="StartContainer for \\"{id_}\\" returns successfully"'


def start(id_: str) -> Event:
    return Event("/tasks/start", id_, 0.0, {"container_id": id_})


def end(id_: str, code: int, process: str = "") -> Event:
    return Event("/tasks/exit", id_, 0.0, {"container_id": id_, "id": process or id_, "exit_status": code})


TWICE = [ran(BOX), made(ONE), started(ONE), made(TWO, attempt=1), started(TWO)]


@pytest.mark.parametrize(
    ("log", "events", "found"),
    [
        pytest.param(TWICE, [start(ONE), end(ONE, 1), start(TWO)], [], id="a restart after a failure"),
        pytest.param(TWICE, [start(ONE), end(ONE, 0, "an-exec"), start(TWO)], ["while"], id="beside one that runs"),
        pytest.param(TWICE, [start(ONE), end(ONE, 0), start(TWO)], ["ended well"], id="after a good end"),
        pytest.param(
            [line.replace("main", "always") for line in TWICE],
            [start(ONE), end(ONE, 0), start(TWO)],
            [],
            id="after a good end, as its restart policy wants it",
        ),
        pytest.param(
            [*TWICE[:3], ran(OTHER_BOX), made(TWO, OTHER_BOX), started(TWO)],
            [start(ONE), end(ONE, 0), start(TWO)],
            [],
            id="in a new sandbox",
        ),
        pytest.param([ran(BOX)], [start(BOX), end(BOX, 137)], ["sandbox"], id="a sandbox is ended"),
        pytest.param(
            [ran(BOX), made(ONE), made(TWO, attempt=1), started(TWO)],
            [start(ONE), end(ONE, 0), start(TWO)],
            [],
            id="a start that containerd took back, of a program that was quicker",
        ),
        pytest.param([], [start(THREE), end(THREE, 137)], [], id="a sandbox that was never made, says containerd"),
    ],
)
def test_each_fault_is_found_and_nothing_else(log: list[str], events: list[Event], found: list[str]) -> None:
    faults = read_histories("\n".join(log), events).faults(once={"main"})

    assert len(found) == len(faults)
    assert all(word in fault for word, fault in zip(found, faults, strict=True))


def test_the_log_of_containerd_2_is_read_too() -> None:
    told = "\n".join(
        [
            f'msg="RunPodSandbox for name:\\"web\\"  uid:\\"u\\" returns sandbox id \\"{BOX}\\""',
            f'msg="CreateContainer within sandbox \\"{BOX}\\" for container name:\\"main\\""',
            f'msg="CreateContainer within sandbox \\"{BOX}\\" for name:\\"main\\" returns container id \\"{ONE}\\""',
            started(ONE),
        ]
    )
    histories = read_histories(told, [])

    assert {BOX: Made("web", "", BOX), ONE: Made("web", "main", BOX)} == histories.made
    assert {BOX, ONE} == histories.started


def test_what_was_made_and_never_started_is_counted_by_its_name() -> None:
    histories = read_histories("\n".join([ran(BOX), made(ONE), made(TWO, attempt=1), started(TWO)]), [])

    assert {("web", "main"): 1} == histories.abandoned()
