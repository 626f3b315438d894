"""Reading the machine: from a made-up root directory, and one look at the real one."""

import os
import socket
import threading
from pathlib import Path

import pytest
import trio

from trikubelet.host.addresses import HostAddresses
from trikubelet.host.node import default_addresses, read_node, read_resolv_conf
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_config import DNSConfig

GIB = 1024**3


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    _write(
        tmp_path,
        "proc/meminfo",
        "MemTotal:        4194304 kB\nMemFree: 100 kB\nSwapTotal:       1048576 kB\nHugePages_Total: 0\n",
    )
    _write(tmp_path, "proc/stat", "cpu  1 2 3\nctxt 5\nbtime 1795900000\nprocesses 7\n")
    _write(tmp_path, "proc/sys/kernel/hostname", "Node-A.Example\n")
    _write(tmp_path, "proc/sys/kernel/osrelease", "6.12.1\n")
    _write(tmp_path, "proc/sys/kernel/random/boot_id", "b00t\n")
    _write(tmp_path, "proc/sys/kernel/pid_max", "4194304\n")
    _write(tmp_path, "proc/sys/kernel/threads-max", "31000\n")
    _write(tmp_path, "etc/machine-id", "abc\n")
    _write(tmp_path, "etc/os-release", 'NAME="Some"\nPRETTY_NAME="Some Linux 12"\n')
    _write(tmp_path, "sys/devices/system/cpu/online", "0-3,6\n")
    _write(tmp_path, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n")
    return tmp_path


def test_a_machine_is_read_from_its_files(machine: Path) -> None:
    reading = read_node(machine)

    assert (4 * GIB, GIB, 5) == (reading.memory_bytes, reading.swap_bytes, reading.cpus)
    assert ("6.12.1", "Some Linux 12") == (reading.kernel, reading.os_image)
    assert ("abc", "b00t", "") == (reading.machine_id, reading.boot_id, reading.system_uuid)
    assert {2 * 1024**2: 16} == reading.huge_pages
    assert 1795900000 * 10**9 == reading.booted_ns
    assert 31000 == reading.processes_max


def test_a_kernel_has_apparmor_where_it_says_so_and_shows_it(machine: Path) -> None:
    assert not read_node(machine).apparmor
    _write(machine, "sys/module/apparmor/parameters/enabled", "Y\n")
    assert not read_node(machine).apparmor
    _write(machine, "sys/kernel/security/apparmor/profiles", "")
    assert read_node(machine).apparmor
    _write(machine, "sys/module/apparmor/parameters/enabled", "N\n")
    assert not read_node(machine).apparmor


def test_what_tells_of_processors_heat_is_found_for_each(machine: Path) -> None:
    assert () == read_node(machine).throttle_paths
    cpus = "sys/devices/system/cpu"
    for name in ("cpu1", "cpu0"):
        _write(machine, f"{cpus}/{name}/thermal_throttle/core_throttle_count", "0\n")

    expected = tuple(f"/{cpus}/{name}/thermal_throttle" for name in ("cpu0", "cpu1"))
    assert expected == read_node(machine).throttle_paths


def test_a_host_name_is_lower_case_because_node_names_are(machine: Path) -> None:
    assert read_node(machine).hostname == "node-a.example"


def test_a_machine_without_proc_cannot_be_a_node_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="is /proc mounted"):
        read_node(tmp_path)


def test_invalid_processor_list_falls_back_to_the_process_affinity(machine: Path) -> None:
    _write(machine, "sys/devices/system/cpu/online", "all of them")

    assert read_node(machine).cpus >= 1


def test_the_real_machine_has_memory_and_a_name() -> None:
    reading = read_node()

    assert reading.memory_bytes > 0
    assert reading.hostname


def test_addresses_of_the_default_routes_are_never_the_loopback() -> None:
    assert not [address for address in default_addresses() if address.startswith("127.") or address == "::1"]


@pytest.mark.parametrize(
    ("expected", "address"),
    [(True, "127.0.0.1"), (False, "192.0.2.1"), (False, "2001:db8::1"), (False, "fe80::1")],
)
def test_an_address_is_this_machines_if_what_is_sent_there_comes_from_it(expected: bool, address: str) -> None:
    assert expected is HostAddresses().has(address)
    assert all(map(HostAddresses().has, default_addresses()))


async def test_the_hosts_file_and_dns_say_which_addresses_a_name_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "127.0.0.1" in (await HostAddresses().named("localhost") or ())
    for number, said in ((socket.EAI_NONAME, ()), (socket.EAI_AGAIN, None)):

        def fail(*_: object, number: int = number, **__: object) -> None:
            raise socket.gaierror(number, "")

        monkeypatch.setattr(socket, "getaddrinfo", fail)
        assert said == await HostAddresses().named("n")


@pytest.mark.parametrize("name", ["a" * 64, f"n.{'a' * 64}.example"])
async def test_a_name_with_a_label_that_dns_cannot_have_is_one_it_does_not_know(name: str) -> None:
    assert () == await HostAddresses().named(name)


async def test_a_name_that_dns_does_not_answer_for_takes_one_thread_and_no_other_lookups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, over, addresses = [], threading.Event(), HostAddresses()

    def hang(*_: object, **__: object) -> list[object]:
        asked.append(1)
        over.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for _ in range(3):
            with trio.move_on_after(0.1):
                assert await addresses.named("n") is None
        assert [1] == asked
    finally:
        over.set()


def test_a_resolv_conf_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    _write(tmp_path, "resolv.conf", "nameserver 10.0.0.2\nsearch a.example\n")

    assert DNSConfig(("10.0.0.2",), ("a.example",), ()) == read_resolv_conf(tmp_path / "resolv.conf")
    with pytest.raises(StartFailed, match=r"gone: cannot be read"):
        read_resolv_conf(tmp_path / "gone")


def test_a_pipe_in_place_of_a_resolv_conf_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(StartFailed, match=r"pipe: cannot be read: it is a pipe without a writer"):
        read_resolv_conf(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("expected", "uid_map"),
    [
        pytest.param(False, "         0          0 4294967295\n", id="the machine's first"),
        pytest.param(True, "         0       1000          1\n", id="a user's own"),
        pytest.param(False, "", id="a kernel without user namespaces"),
    ],
)
def test_user_namespace_of_the_agent_is_found_by_its_ids(expected: bool, uid_map: str, machine: Path) -> None:
    (machine / "proc/self").mkdir(parents=True)
    if uid_map:
        (machine / "proc/self/uid_map").write_text(uid_map)

    assert expected is read_node(machine).in_user_namespace
