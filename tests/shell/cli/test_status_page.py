"""The page of ``top``: what it says, and what of it a small window shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shell.cli.test_top_command import NODE, pod_used, summary
from shell.localkit import NOW_NS, pod
from trikubelet.cli.screen_state import Order, Sheet, State
from trikubelet.cli.status_page import Page, sheet_of, warning_of
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


USED = summary(pod_used("busy", 300, 8), pod_used("web", 5, 40), pod_used(LONG, 1, 9, "kube-system"))


def shown(*pods: k8s.Pod, height: int = 50, width: int = 120, **state: Any) -> Sheet:
    return sheet_of(Page(NODE, [], pods, USED, {}, NOW_NS), State(**state), "", height, width)


def test_the_page_tells_of_the_node_and_its_pods() -> None:
    metrics = {"trikubelet_status_waiting": 3.0, "kubelet_pleg_last_seen_seconds": NOW_NS / 1e9 - 1.25}
    used = summary(pod_used("web", 5, 40))
    page = Page(NODE, ["no network"], [pod("api"), pod("web"), sick("sick")], used, metrics, NOW_NS)
    lines = [
        "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)",
        "n1     501m         25%      250Mi           25%",
        "3 pods · ? help, q quit · 1 with problems",
        "! this is old",
        "! no network",
        "",
        "NAMESPACE   NAME   READY   STATUS             RESTARTS      CPU(cores)   MEMORY(bytes)   AGE",
        "default     sick   0/1     CrashLoopBackOff   3 (60s ago)   -            -               5m",
        "default     web    1/1     Running            0             5m           40Mi            5m",
        "default     api    1/1     Running            0             -            -               5m",
    ]

    assert lines == sheet_of(page, State(), "this is old", 50, 120).lines
    figures = "containers listed 1.2 s ago · 3 statuses to publish"
    assert [*lines[:3], figures, *lines[3:]] == sheet_of(page, State(with_figures=True), "this is old", 50, 120).lines


def test_the_order_that_was_chosen_is_that_of_the_pods() -> None:
    young = msgspec.structs.replace(pod("young").metadata, creation_timestamp="2026-11-21T11:59:00Z")
    pods = (pod("busy"), sick("sick"), pod("web"), msgspec.structs.replace(pod("young"), metadata=young))

    def ordered(order: Order) -> list[str]:
        return [name for _, name in shown(*pods, order=order).names]

    assert ["sick", "busy", "web", "young"] == ordered(Order.PROBLEMS)
    assert ["busy", "web", "sick", "young"] == ordered(Order.CPU)
    assert ["web", "busy", "sick", "young"] == ordered(Order.MEMORY)
    assert ["busy", "sick", "web", "young"] == ordered(Order.NAME)
    assert ["sick", "busy", "web", "young"] == ordered(Order.RESTARTS)
    assert ["young", "busy", "sick", "web"] == ordered(Order.AGE)


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


def test_narrow_window_has_a_short_word_for_unknown() -> None:
    assert ["0", "-", "-", "5m"] == shown(pod("unknown"), width=70).lines[-1].split()[-4:]


def test_what_does_not_fit_is_counted_and_comes_with_the_selected_pod() -> None:
    pods = [pod(f"p{number:02}") for number in range(34)]

    def names(selected: int, top: int) -> tuple[int, list[str], str, str]:
        sheet = shown(*pods, selected=("default", f"p{selected:02}"), top=top, height=11)
        assert sheet.marked is not None
        marked = sheet.lines[sheet.marked].split()[1]
        return sheet.first, [row.split()[1] for row in sheet.lines[5:-1]], sheet.lines[-1], marked

    first = ["p00", "p01", "p02", "p03", "p04"]
    assert (0, first, "… 0 more above, 29 more below", "p00") == names(0, 0)
    assert (0, first, "… 0 more above, 29 more below", "p04") == names(4, 0)
    assert (6, ["p06", "p07", "p08", "p09", "p10"], "… 6 more above, 23 more below", "p10") == names(10, 0)
    assert (6, ["p06", "p07", "p08", "p09", "p10"], "… 6 more above, 23 more below", "p07") == names(7, 6)
    assert (7, ["p07", "p08", "p09", "p10", "p11"], "… 7 more above, 22 more below", "p07") == names(7, 20)
    assert (29, ["p29", "p30", "p31", "p32", "p33"], "… 29 more above, 0 more below", "p33") == names(33, 0)
    assert "p00" == names(99, 9)[3]


def test_no_line_says_that_pods_are_missing_where_none_is() -> None:
    lines = shown(*(pod(f"p{number}") for number in range(5)), height=10).lines

    assert "p4" == lines[-1].split()[1]


@pytest.mark.parametrize(
    ("pods", "height", "width", "lines"),
    [
        (2, 4, 19, ["30 pods · ? help, q", "NAME STATUS  CPU ME", "p00  Running -   -", "p01  Running -   -"]),
        (1, 3, 19, ["30 pods · ? help, q", "NAME STATUS  CPU ME", "p00  Running -   -"]),
        (1, 2, 19, ["NAME STATUS  CPU ME", "p00  Running -   -"]),
    ],
)
def test_a_low_window_shows_pods_first(pods: int, height: int, width: int, lines: list[str]) -> None:
    sheet = shown(*(pod(f"p{number:02}") for number in range(30)), height=height, width=width)

    assert (lines, pods) == (list(sheet.lines), sheet.room)


def test_a_low_window_shows_a_warning_before_the_node() -> None:
    page = Page(NODE, ["no network", "no disk"], [pod("p0"), pod("p1"), pod("p2")], USED, {}, NOW_NS)

    about, warning, heading, *pods = sheet_of(page, State(), "this is old", 6, 39).lines

    assert ("3 pods", "! this is old", "NAME") == (about[:6], warning, heading[:4])
    assert ["p0", "p1", "p2"] == [line.split()[0] for line in pods]


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
