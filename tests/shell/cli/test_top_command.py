"""``top``: rows as kubectl prints them, and a second look where the first knows nothing of processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.localkit import NOW, FakeAgent, FakeUse, FakeView, served
from trikubelet.cli.commands import top
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.main import main
from trikubelet.model import k8s
from trikubelet.model.summary import (
    ContainerStats,
    CpuStats,
    MemoryStats,
    NodeStats,
    PodReference,
    PodStats,
    Summary,
)

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024**2
NODE = k8s.Node(metadata=k8s.ObjectMeta(name="n1"), status=k8s.NodeStatus(allocatable={"cpu": "2", "memory": "1000Mi"}))


def cpu(nano_cores: int | None) -> CpuStats:
    return CpuStats(NOW, nano_cores)


def memory(mib: int) -> MemoryStats:
    return MemoryStats(NOW, working_set_bytes=mib * MIB + 1)


def pod_used(name: str, milli: int | None, mib: int, namespace: str = "default") -> PodStats:
    nano = None if milli is None else milli * 1_000_000
    containers = (ContainerStats("app", NOW, cpu(nano), memory(mib)), ContainerStats("idle", NOW))
    return PodStats(PodReference(name, namespace, name), NOW, containers, cpu(nano), memory(mib))


def summary(*pods: PodStats) -> Summary:
    return Summary(NodeStats("n1", NOW, cpu=cpu(500_000_001), memory=memory(250)), pods)


USED = summary(pod_used("web", 5, 40), pod_used("api", 300, 8), pod_used("dns", 1, 9, "kube-system"))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["NAME   CPU(cores)   MEMORY(bytes)", "api    300m         8Mi", "web    5m           40Mi"], ["pods"]),
        (["web   5m     40Mi", "api   300m   8Mi"], ["po", "--no-headers", "--sort-by=memory"]),
        (["api   300m   8Mi", "web   5m     40Mi"], ["pod", "--no-headers", "--sort-by=cpu"]),
        (["web   5m   40Mi"], ["pods", "--no-headers", "pod/web"]),
        (["kube-system   dns   1m   9Mi"], ["pods", "--no-headers", "-A", "dns"]),
        (
            ["web   app    5m          40Mi", "web   idle   <unknown>   <unknown>"],
            ["po", "web", "--containers", "--no-headers"],
        ),
        (
            [
                "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)",
                "n1     501m         25%      250Mi           25%",
            ],
            ["node"],
        ),
        (["n1   501m   25%   250Mi   25%"], ["node", "n1", "--no-headers"]),
    ],
)
async def test_what_is_used_is_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], words: list[str]
) -> None:
    async with served(FakeView(), tmp_path, FakeAgent(NODE), stats=FakeUse([USED])) as agent:
        code = await trio.to_thread.run_sync(main, ["top", *words, f"--socket={agent.socket_path}"])

    assert (0, lines) == (code, capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("told", "used", "words"),
    [
        ("No resources found in nope namespace. (3 pods in others: use -A)\n", USED, "pods -n nope"),
        (
            "No resources found in nope namespace. (1 pod in others: use -A)\n",
            summary(pod_used("web", 5, 40)),
            "pods -n nope",
        ),
        ("No resources found in default namespace.\n", summary(), "pods --containers"),
        ("No resources found\n", summary(), "pods -A"),
    ],
)
async def test_where_no_pod_uses_anything_that_is_said_as_by_get(
    told: str, used: Summary, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(FakeView(), tmp_path, FakeAgent(NODE), stats=FakeUse([used])) as agent:
        code = await trio.to_thread.run_sync(main, ["top", *words.split(), f"--socket={agent.socket_path}"])

    shown = capsys.readouterr()
    assert (0, "", told) == (code, shown.out, shown.err)


async def test_where_nothing_is_known_yet_of_processors_it_looks_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock
) -> None:
    stats = FakeUse([summary(pod_used("web", None, 40)), USED])
    async with served(FakeView(), tmp_path, stats=stats) as agent:
        await top._top(top.parser().parse_args(["pods", "web", "--no-headers", f"--socket={agent.socket_path}"]))

    assert "web   5m   40Mi\n" == capsys.readouterr().out


async def test_a_pod_of_which_nothing_is_known_is_reported(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path, stats=FakeUse([USED])) as agent:
        with pytest.raises(CommandFailed, match='pods "dns" not found'):
            await top._top(top.parser().parse_args(["pods", "dns", f"--socket={agent.socket_path}"]))


async def test_of_nodes_there_is_this_one(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path, FakeAgent(NODE), stats=FakeUse([USED])) as agent:
        with pytest.raises(CommandFailed, match='nodes "n2" not found: this is n1'):
            await top._top(top.parser().parse_args(["node", "n1", "n2", f"--socket={agent.socket_path}"]))


@pytest.mark.parametrize("flag", ["--containers", "--sort-by=cpu", "--all-namespaces", "--no-headers", "--namespace=x"])
def test_what_only_a_table_can_do_is_refused_of_the_page(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert 2 == main(["top", flag])
    assert f"error: {flag.partition('=')[0]} is for a table: write `trikubelet top pods`" in capsys.readouterr().err
