"""Writes docs/benchmarks-cluster.md out of results/cluster.json, which `make bench-cluster` measures.

    python bench/cluster_page.py [--check]

``--check`` compares and ends with 1 when the page is not what the results say. Where a kubelet took several turns, its
figure is that of its best: others on the machine can only make one worse. At the end stands
results/lease.md, as `bench/lease.py` made it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, Final, NamedTuple

from trikubelet.benchmark.machine import LOAD_PER_PROCESSOR_MAX, is_settled
from trikubelet.benchmark.table import as_markdown

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results" / "cluster.json"
HEARTBEATS: Final = HERE / "results" / "lease.md"
PAGE: Final = HERE.parent / "docs" / "benchmarks-cluster.md"
OURS: Final = "trikubelet"
UPSTREAM: Final = "upstream"
LEFT_OUT: Final = "not built"
IN_A_CHECKOUT: Final = "a checkout's, beside the linters and test tools it is developed with"
"""What was measured of ours by runs that do not say."""

Taken = dict[str, Any]
"""What was measured in one turn of one kubelet, as cluster.json has it."""


def _version(run: dict[str, Any]) -> str:
    """Of what, where the run says. Not the commit, which no reader may find: histories are rewritten."""
    return f" of version {run['version']}" if run.get("version") else ""


class Measure(NamedTuple):
    """One row: a figure of a turn, its unit and digits, and the bound for trikubelet's to upstream's, if there is one.
    ``more`` is better, or less."""

    what: str
    find: Callable[[Taken], float]
    shown: str
    wanted: float | None = None
    more: bool = False


def _all(rounds: list[list[float]]) -> list[float]:
    return [one for each in rounds for one in each]


def _percentile(percent: int, rounds: list[list[float]]) -> float:
    return quantiles(_all(rounds), n=100, method="inclusive")[percent - 1]


def _times(what: str, key: str) -> list[Measure]:
    return [
        Measure(f"{what}: mean", lambda turn: fmean(_all(turn[key])), "{:.2f} s", 0.7),
        Measure(f"{what}: p50", lambda turn: _percentile(50, turn[key]), "{:.2f} s"),
        Measure(f"{what}: p99", lambda turn: _percentile(99, turn[key]), "{:.2f} s", 0.7),
        Measure(f"{what}: mean of the best round", lambda turn: min(map(fmean, turn[key])), "{:.2f} s"),
    ]


def _idle(pods: int) -> list[Measure]:
    def figure(name: str) -> Callable[[Taken], float]:
        return lambda turn: float(turn["idle"][str(pods)][name])

    return [
        Measure(f"resident memory, {pods} pods", figure("rss_mb"), "{:.0f} MB", 0.7),
        Measure(f"processor time a minute, {pods} pods idle", figure("cpu_s_per_min"), "{:.2f} s", 0.7),
    ]


MEASURES: Final = (
    *_times("created → Running", "running_s"),
    *_times("deleted, grace 1 → gone", "gone_s"),
    Measure(
        "readiness written, 110 pods flip",
        lambda turn: 110 * len(turn["flip_s"]) / sum(turn["flip_s"]),
        "{:.0f} a second",
        4.0,
        more=True,
    ),
    *(one for pods in (0, 50, 110) for one in _idle(pods)),
    Measure("resident memory after churn", lambda turn: float(turn["churn_rss_mb"]), "{:.0f} MB", 0.7),
    Measure("processor time for a pod's life", lambda turn: turn["churn_cpu_s_per_pod"] * 1e3, "{:.0f} ms", 0.7),
    Measure("requests in a pod's life", lambda turn: sum(turn["requests"].values()), "{:.1f}"),
)


def best(measure: Measure, turns: list[Taken]) -> float:
    """Of a kubelet's turns."""
    return (max if measure.more else min)(map(measure.find, turns))


def row(measure: Measure, ours: list[Taken], theirs: list[Taken]) -> tuple[str, ...]:
    """Of the table; where upstream's is missing nothing is said of ratios."""
    mine = best(measure, ours)
    sign = "≥" if measure.more else "≤"
    wanted = "" if measure.wanted is None else f"{sign} {measure.wanted:g} times"
    if not theirs:
        return (measure.what, LEFT_OUT, measure.shown.format(mine), "", wanted, "")
    other = best(measure, theirs)
    ratio = mine / other if other else float("inf")
    reached = "" if measure.wanted is None else "yes" if _holds(measure, ratio) else "NO"
    return (measure.what, measure.shown.format(other), measure.shown.format(mine), f"{ratio:.2f}", wanted, reached)


def _holds(measure: Measure, ratio: float) -> bool:
    assert measure.wanted is not None
    return ratio >= measure.wanted if measure.more else ratio <= measure.wanted


def _requests(ours: list[Taken], theirs: list[Taken]) -> str:
    """By verb and resource, of each one's last turn."""
    mine, other = ours[-1]["requests"], theirs[-1]["requests"] if theirs else {}
    lines = [
        (what, f"{other.get(what, 0):.2f}" if theirs else LEFT_OUT, f"{mine.get(what, 0):.2f}")
        for what in sorted(mine.keys() | other.keys())
    ]
    return as_markdown(("request", UPSTREAM, OURS), lines)


def _turns(turns: list[Taken], processors: int) -> str:
    """What else the machine did before and after each."""
    lines = [
        (
            one["kubelet"],
            " → ".join(f"{load:.1f}" for load in one["load"]),
            "" if is_settled(one["load"][0], processors) else "busy from the start",
            " → ".join(f"{loop:.1f} ms" for loop in one["loop_ms"]),
        )
        for one in turns
    ]
    return as_markdown(("turn of", "load", "", "fixed loop"), lines)


def page(run: dict[str, Any]) -> str:
    """The page, in Markdown."""
    ours, theirs = ([one for one in run["turns"] if one["kubelet"] == name] for name in (OURS, UPSTREAM))
    machine, size = run["machine"], run["size"]
    patched = [one for turn in run["turns"] for one in turn["patched_s"]]
    pods = len(_all(run["turns"][0]["running_s"]))
    rows = [row(measure, ours, theirs) for measure in MEASURES]
    return f"""\
# A node of a cluster, beside upstream's kubelet

Made of `bench/results/cluster.json` by `bench/cluster_page.py`; `make lint` compares, and `make bench-cluster` measures
again. Ratios say something, seconds are this machine's.

Measured {run["when"]}{_version(run)} in {run["took_s"]} seconds, on {machine["processors"]} processors
({machine["processor"]}), {machine["memory_bytes"] / (1 << 30):.0f} GiB, Linux {machine["kernel"]},
Python {machine["python"]}, containerd {run["turns"][0]["containerd"]}.
Of its turns the best of each kubelet is shown, measure by measure; [below](#the-turns) stands how busy the machine was
when they began.

{as_markdown(("measure", UPSTREAM, OURS, "ratio", "wanted", ""), rows)}
Upstream is v1.36.3, built as `packaging/control-plane` says, on the same API server, controllers and containerd
release, all of them on this machine too. trikubelet is
{run.get("program", IN_A_CHECKOUT)}.
Each turn begins with an empty containerd just started. Ten pods at once, each
naming its node, with an address and a token of its own, are created and then deleted; rounds of this: {size["rounds"]},
so that a p99 is of {pods} pods in each turn and hardly less than their last. Both ends of these intervals are seen by
the same watch. Then 50 and 110 pods run, each time for {size["idle_seconds"]:g}
seconds of rest. At last a readiness gate's condition is changed on all 110 until the kubelet has written of each
whether it is ready, {size["flips"]} times without a pause. The patches alone took
{min(patched):.1f} to {max(patched):.1f} seconds, and no kubelet can be quicker. The processor time of a pod's life is
all that the kubelet took during the rounds, divided by the pods.

Upstream does more meanwhile: it watches what each container uses (cAdvisor), and whether the node runs short of
anything. The figures are from before trikubelet evicted pods; since then it looks at the node every ten seconds, and
at its pods only where that shows a reason. Nothing is taken off upstream's figures for that. What a member's processor
time goes into, and what stands in the way where a bound is not reached:
[decisions/0022](decisions/0022-what-a-member-costs.md).

## The turns

In this order, with the machine's load of the last minute and the time of a fixed loop, before and after. A load of
{LOAD_PER_PROCESSOR_MAX:g} for each processor or more is called busy.

{_turns(run["turns"], machine["processors"])}
## Requests in a pod's life

Those in the pods' namespace while pods came and went, divided by the pods; from the API server's audit log.

{_requests(ours, theirs)}
## Heartbeats under a flood of pods

Gaps between renewals of the node's lease as a watch of the API server sees them, while all pods start at once and end
at once; the pace is 10 s, and the cluster gives a node up after 40. The containers only pretend, so that the agent is
what is busy. Its health endpoint is asked ten times a second: so long at most was its event loop kept. Measured by
`PYTHONPATH=tests python bench/lease.py`.

{HEARTBEATS.read_text()}"""


def as_json(run: dict[str, Any]) -> str:
    """For a file that people read too: a list of figures on one line."""
    pretty = json.dumps(json.loads(json.dumps(run), parse_float=lambda word: round(float(word), 4)), indent=1)
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), pretty) + "\n"


def write_page() -> None:
    """Of the results as they are."""
    PAGE.write_text(page(json.loads(RESULTS.read_text())))


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        write_page()
        return 0
    if PAGE.exists() and PAGE.read_text() == page(json.loads(RESULTS.read_text())):
        return 0
    sys.stderr.write("docs/benchmarks-cluster.md is not what its results say: run bench/cluster_page.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
