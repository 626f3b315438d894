"""What is read of the machine, on a made-up /proc."""

from __future__ import annotations

import pytest

from trikubelet.benchmark.machine import (
    SETTLING_SECONDS_MAX,
    Usage,
    busy_elsewhere,
    is_settled,
    this_machine,
    usage,
    wait_settled,
    waited_ns,
)


def process(proc, pid, user, system, waited):
    here = proc / str(pid)
    here.mkdir(exist_ok=True)
    for number, nanoseconds in enumerate(waited):
        (here / "task" / str(pid + number)).mkdir(parents=True)
        (here / "task" / str(pid + number) / "schedstat").write_text(f"5 {nanoseconds} 7\n")
    (here / "stat").write_text(f"{pid} (a name) with) S 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0\n")


def test_kernel_reports_the_processes_that_used_the_processors(tmp_path):
    (tmp_path / "stat").write_text("cpu  100 10 50 600 40 1 2 197 5 5\ncpu0 1 2 3 4\n")
    process(tmp_path, 7, 30, 20, [1000, 200])

    assert Usage(total=1000, busy=360, own=50) == usage([7, 8], tmp_path)  # 8 has ended
    assert 1200 == waited_ns(7, tmp_path)


def test_process_with_a_name_cut_within_a_character_is_counted(tmp_path):
    (tmp_path / "stat").write_text("cpu  100 10 50 600 40 1 2 197 5 5\n")
    process(tmp_path, 7, 30, 20, [])
    said = (tmp_path / "7/stat").read_bytes()
    (tmp_path / "7/stat").write_bytes(said.replace(b"a name", b"\xd0"))

    assert 50 == usage([7], tmp_path).own


def test_what_others_kept_is_what_was_neither_idle_nor_ours():
    assert 0.25 == busy_elsewhere(Usage(1000, 500, 100), Usage(1400, 800, 300))
    assert 0.0 == busy_elsewhere(Usage(1000, 500, 100), Usage(1400, 600, 300))
    assert 0.0 == busy_elsewhere(Usage(1000, 500, 100), Usage(1000, 500, 100))


def test_a_load_is_settled_below_one_and_a_half_for_each_processor():
    assert [True, False, True, False] == [
        is_settled(1.4, 1),
        is_settled(1.5, 1),
        is_settled(2.9, 2),
        is_settled(3.0, 2),
    ]


@pytest.mark.parametrize(
    ("loads", "waited", "expected"),
    [([2.9], 0, True), ([9.0, 3.0, 2.9], 4, True), ([9.0] * 99, SETTLING_SECONDS_MAX, False)],
)
def test_a_load_is_waited_for_until_it_settles_but_not_for_ever(loads, waited, expected):
    seen, pauses = iter(loads), []

    assert expected == wait_settled(lambda: next(seen), 2, pauses.append)
    assert waited == sum(pauses)


def test_a_machine_is_reported_by_its_processor_and_memory(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Quick 3000\nprocessor\t: 1\n")
    (tmp_path / "meminfo").write_text("MemTotal:       1024 kB\nMemFree: 3 kB\n")

    assert ("Quick 3000", 1 << 20) == (this_machine(tmp_path).processor, this_machine(tmp_path).memory_bytes)
