"""The page of ``top``: what it says, and what of it a small window shows."""

from __future__ import annotations

import msgspec
import pytest

from shell.cli.test_top_command import NODE, pod_used, summary
from shell.localkit import NOW_NS, pod
from trikubelet.cli.status_page import Page, Sheet, sheet_of, warning_of
from trikubelet.model import k8s

LONG = "checkout-frontend-7d9c5b6f4-x2k9f"


def sick(name: str, namespace: str = "default") -> k8s.Pod:
    """A pod whose container crashes, and was restarted three times."""
    fine = pod(name, namespace)
    assert fine.status is not None
    ended = k8s.ContainerStateTerminated(exit_code=1, finished_at="2026-11-21T11:59:00Z")
    crashed = msgspec.structs.replace(
        fine.status.container_statuses[0],
        ready=False,
        restart_count=3,
        state=k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason="CrashLoopBackOff")),
        last_state=k8s.ContainerState(terminated=ended),
    )
    status = msgspec.structs.replace(fine.status, container_statuses=(crashed,))
    return msgspec.structs.replace(fine, status=status)


def shown(*pods: k8s.Pod, first: int = 0, height: int = 50, width: int = 120) -> Sheet:
    used = summary(pod_used("busy", 300, 8), pod_used("web", 5, 40), pod_used(LONG, 1, 9, "kube-system"))
    return sheet_of(Page(NODE, [], pods, used, {}, NOW_NS), "", first, height, width)


def test_the_page_tells_of_node_agent_and_pods() -> None:
    metrics = {"trikubelet_status_waiting": 3.0, "kubelet_pleg_last_seen_seconds": NOW_NS / 1e9 - 1.25}
    page = Page(NODE, ["no network"], [pod("api"), pod("web")], summary(pod_used("web", 5, 40)), metrics, NOW_NS)

    assert [
        "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)",
        "n1     501m         25%      250Mi           25%",
        "2 pods · q ends · relist 1.2 s ago · 3 statuses waiting",
        "! this is old",
        "! no network",
        "",
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   CPU(cores)   MEMORY(bytes)   AGE",
        "default     web    1/1     Running   0          5m           40Mi            5m",
        "default     api    1/1     Running   0          <unknown>    <unknown>       5m",
    ] == sheet_of(page, "this is old", 0, 50, 120).lines


def test_pods_with_problems_come_first_and_then_the_busy_ones() -> None:
    rows = shown(pod("api"), pod("busy"), pod("crashes"), sick("sick"), pod("web")).lines[5:]

    assert ["sick", "busy", "web", "api", "crashes"] == [row.split()[1] for row in rows]


def test_a_window_as_wide_as_it_takes_has_whole_names_and_restarts_with_their_ages() -> None:
    heading, row = shown(sick(LONG, "kube-system"), width=123).lines[4:]

    assert heading.endswith("   RESTARTS      CPU(cores)   MEMORY(bytes)   AGE")
    assert row.startswith(f"kube-system   {LONG}   0/1     CrashLoopBackOff   3 (60s ago)   1m ")


@pytest.mark.parametrize(
    ("expected", "width"),
    [
        (
            [
                "NAMESPACE   NAME             READY STATUS           RESTARTS CPU MEMORY AGE",
                "kube-system checkout…4-x2k9f 0/1   CrashLoopBackOff 3        1m  9Mi    5m",
            ],
            75,
        ),
        (
            [
                "NAMESPACE   NAME                READY STATUS           RESTARTS CPU MEMORY",
                "kube-system checkout-…6f4-x2k9f 0/1   CrashLoopBackOff 3        1m  9Mi",
            ],
            74,
        ),
        (["NAME              STATUS           CPU MEMORY", "checkout…f4-x2k9f CrashLoopBackOff 1m  9Mi"], 45),
        (["NAME             STATUS", "checkout…4-x2k9f CrashL"], 23),
    ],
)
def test_a_narrow_window_costs_blanks_then_the_middle_of_names_then_columns(expected: list[str], width: int) -> None:
    lines = shown(sick(LONG, "kube-system"), width=width).lines[4:]

    assert expected == list(lines)


def test_a_narrow_window_has_a_short_word_for_what_nobody_knows() -> None:
    assert ["0", "-", "-", "5m"] == shown(pod("unknown"), width=70).lines[-1].split()[-4:]


def test_what_does_not_fit_is_counted_and_can_be_scrolled_to() -> None:
    pods = [pod(f"p{number:02}") for number in range(34)]

    def names(first: int) -> tuple[int, list[str], str]:
        sheet = shown(*pods, first=first, height=11)
        return sheet.first, [row.split()[1] for row in sheet.lines[5:-1]], sheet.lines[-1]

    keys = "more below (arrows, PageUp, PageDown)"
    assert (0, ["p00", "p01", "p02", "p03", "p04"], f"… 0 more above, 29 {keys}") == names(-3)
    assert (6, ["p06", "p07", "p08", "p09", "p10"], f"… 6 more above, 23 {keys}") == names(6)
    assert (29, ["p29", "p30", "p31", "p32", "p33"], f"… 29 more above, 0 {keys}") == names(99)


def test_no_line_says_that_pods_are_missing_where_none_is() -> None:
    lines = shown(*(pod(f"p{number}") for number in range(5)), height=10).lines

    assert "p4" == lines[-1].split()[1]


@pytest.mark.parametrize(("height", "width"), [(0, 0), (2, 0), (3, 1), (5, 39), (6, 500)])
def test_a_window_of_any_size_is_not_overfull(height: int, width: int) -> None:
    sheet = shown(sick(LONG), pod("web"), height=height, width=width)

    assert height >= len(sheet.lines)
    assert width >= max(map(len, sheet.lines), default=0)


@pytest.mark.parametrize(
    ("expected", "seconds", "problem"),
    [
        ("", 5.0, ""),
        ("this is 6 s old: the agent is silent", 5.6, ""),
        ("this is 2 s old: no agent", 2.0, "no agent"),
    ],
)
def test_a_page_says_that_it_is_old(expected: str, seconds: float, problem: str) -> None:
    assert expected == warning_of(seconds, problem)
