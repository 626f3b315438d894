"""The part of ``/metrics`` about the agent itself: its release, its features, its process.

``process_…`` and ``python_…`` are the metrics of Prometheus' own library for Python. There is no Go runtime, so no
``go_…``. The event loop's tasks replace goroutines.
"""

from __future__ import annotations

import gc
import platform
import threading
from typing import TYPE_CHECKING

import trio

from trikubelet.host.own_process import own_process, started_seconds
from trikubelet.server.exposition import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.server.exposition import Family
    from trikubelet.server.node_figures import Setup


def of_process(setup: Setup) -> Iterator[Family]:
    """Yield the metrics of the process. Raises RuntimeError outside Trio."""
    yield from _of_setup(setup)
    now = own_process()
    for name, help_, value in (
        ("virtual_memory_bytes", "Address space, in bytes.", now.virtual_bytes),
        ("virtual_memory_max_bytes", "Limit of the address space, in bytes.", now.virtual_bytes_max),
        ("resident_memory_bytes", "Resident memory, in bytes.", now.resident_bytes),
        ("open_fds", "Open file descriptors.", now.open_files),
        ("max_fds", "Limit of open file descriptors.", now.open_files_max),
    ):
        yield gauge(f"process_{name}", help_, value)
    yield of_start()
    yield counter("process_cpu_seconds_total", "CPU time used.", now.cpu_seconds)
    version = platform.python_version_tuple()
    info = (platform.python_implementation(), *version, platform.python_version())
    names = ("implementation", "major", "minor", "patchlevel", "version")
    yield gauge("python_info", "The Python that runs the agent; the value is always 1.", {info: 1}, *names)
    looks = {str(number): one for number, one in enumerate(gc.get_stats())}
    for name, help_, word in (
        ("collections", "Runs of the garbage collector.", "collections"),
        ("objects_collected", "Objects collected.", "collected"),
        ("objects_uncollectable", "Objects that could not be freed.", "uncollectable"),
    ):
        counts = {number: one[word] for number, one in looks.items()}
        yield counter(f"python_gc_{name}_total", help_, counts, "generation")
    yield gauge("trikubelet_tasks", "Tasks of the event loop.", trio.lowlevel.current_statistics().tasks_living)
    yield gauge("trikubelet_threads", "Threads of the process.", threading.active_count())


def of_start() -> Family:
    """Return the start of the process, by which readers of counters notice that they begin at 0 again."""
    return gauge("process_start_time_seconds", "When the process began, since the epoch.", started_seconds())


def _of_setup(setup: Setup) -> Iterator[Family]:
    major, _, minor = setup.version.removeprefix("v").rpartition(".")[0].partition(".")
    build = {
        "major": major,
        "minor": minor.partition(".")[0],
        "git_version": setup.version,
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    help_ = "The release; the fields about Go and git are left empty. The value is always 1."
    names = ("build_date", "compiler", "git_commit", "git_tree_state", "go_version")
    key = (*build.values(), *("" for _ in names))
    yield gauge("kubernetes_build_info", help_, {key: 1}, *build, *names)
    gates = {key: int(value) for key, value in setup.gates.items()}
    yield gauge("kubernetes_feature_enabled", "Whether a feature is on.", gates, "name", "stage")
    yield gauge("kubelet_cgroup_version", "The machine's cgroup version; 0 for none.", setup.cgroup_version)
