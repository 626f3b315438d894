"""A container that writes faster than its log may grow, on a real containerd and on the embedded runtime: its log stays
within its number of files, whoever follows it misses nothing, and what is left on the disk is the end of it, whole.
"""

from __future__ import annotations

import gzip
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

LINES, FILES_MAX, SIZE = 24_000, 3, 200 * 1024
WRITES = (
    f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i of a container that has much to say;"
    " [ $((i % 500)) = 0 ] && sleep 0.3; done; echo the end; sleep 1000"
)
SETTINGS = {
    "containerLogMaxSize": "200Ki",
    "containerLogMaxFiles": FILES_MAX,
    "containerLogMaxWorkers": 2,
    "containerLogMonitorInterval": "3s",  # the shortest there is
}


@pytest.fixture(params=["containerd", "embedded"])
def agent(request: pytest.FixtureRequest, containerd2: Containerd) -> Iterator[Agent]:
    own = {"containerRuntimeEndpoint": "embedded:"} if request.param == "embedded" else {}
    with Agent(containerd2, **SETTINGS, **own) as agent:
        writer = shell("c", WRITES)
        agent.put(pod("talks", writer | {"image": "host"} if own else writer))
        yield agent


def test_a_log_stays_small_and_no_line_of_it_is_lost_or_doubled(agent: Agent) -> None:
    uid = agent.wait_phase("talks", "Running")["metadata"]["uid"]
    log = agent.pod_logs / f"default_talks-live_{uid}" / "c" / "0.log"
    heard = agent.directory / "heard"
    most = 0

    def is_heard() -> bool:
        nonlocal most
        # A part that has just been compressed stands there twice for a moment.
        most = max(most, len({path.name.removesuffix(".tmp").removesuffix(".gz") for path in log.parent.iterdir()}))
        return heard.read_text().endswith("the end\n")

    with heard.open("wb") as into:
        words = [*agent.program, "logs", "--follow", "talks-live", f"--root-dir={agent.root}"]
        with subprocess.Popen(words, stdout=into) as following:
            try:
                await_that(is_heard, 90, agent.story)
            finally:
                following.kill()
    await_that(lambda: is_settled(log), 60, agent.story)

    assert [*range(1, LINES + 1)] == numbers(heard.read_text())
    assert FILES_MAX == most
    kept = written(log)
    assert [*range(kept[0], LINES + 1)] == kept
    assert 1 < kept[0], "so little was written that nothing had to go"
    assert kept == numbers(agent.command("logs", "talks-live").stdout)
    assert kept[-49:] == numbers(agent.command("logs", "talks-live", "--tail=50").stdout)
    assert "Cannot rotate" not in agent.log_path.read_text()


def test_a_log_that_lost_its_name_to_a_killed_agent_gets_a_new_file(containerd2: Containerd) -> None:
    with Agent(containerd2, **SETTINGS) as agent:
        agent.put(pod("talks", shell("c", "i=0; while :; do i=$((i+1)); echo line $i of many; sleep 0.02; done")))
        uid = agent.wait_phase("talks", "Running")["metadata"]["uid"]
        log = agent.pod_logs / f"default_talks-live_{uid}" / "c" / "0.log"
        await_that(lambda: len(log.read_bytes()) > 100, 60, agent.story)
        agent.kill()
        part = log.rename(f"{log}.20260101-000000")  # the runtime was not asked to open a new one
        before = part.stat().st_size
        await_that(lambda: part.stat().st_size > before, 60, agent.story)  # and goes on in this one
        agent.start()
        await_that(lambda: log.exists() and bool(log.read_bytes()), 60, agent.story)

        said = numbers(agent.command("logs", "talks-live").stdout)
        assert [*range(1, len(said) + 1)] == said
        assert numbers(part.read_text())[-1] < said[-1]


def is_settled(log: Path) -> bool:
    """Whether there is nothing to rotate, nor a rotation under way: it gives the log another name, has the runtime
    begin a new one, and only then compresses the part before."""
    try:
        small = log.stat().st_size < SIZE
    except FileNotFoundError:
        return False
    return small and [True, False] == [path.suffix == ".gz" for path in sorted(log.parent.glob("0.log.*"))]


def written(log: Path) -> list[int]:
    """The lines in all files of a log that is settled."""
    parts = sorted(log.parent.glob("0.log.*"))
    whole = [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in parts]
    return numbers(b"".join([*whole, log.read_bytes()]).decode())


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"line (\d+) of", text)]
