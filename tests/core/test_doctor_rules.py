"""What the doctor makes of what it sees: one table per check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trikubelet.core import doctor
from trikubelet.core.doctor import RIGHTS, SYSCTLS, Disk, Finding, PodNetwork, Renewal, Right, Severity
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.core.unknown_pods import UnknownOnRuntime
from trikubelet.model.certificates import Certificate
from trikubelet.model.faults import Fault
from trikubelet.model.runtime import RuntimeCondition, RuntimeInfo

GOOD, WARNING, ERROR = Severity.GOOD, Severity.WARNING, Severity.ERROR
ASKED_FOR, AT_START, BY_HAND = Renewal.ASKED_FOR, Renewal.AT_START, Renewal.BY_HAND
NOW = parse_rfc3339("2026-11-21T12:00:00Z")
DAY_NS = 24 * 3600 * SECOND_NS
GIB = 1024**3


def told(findings) -> list[tuple[Severity, str]]:
    """Severities and words; whatever is wrong must come with a remedy."""
    found = list(findings)
    assert all(bool(one.remedy) is (one.severity is not GOOD) for one in found)
    return [(one.severity, one.found) for one in found]


def runtime(version: str = "2.2.0", ready: bool = True, network: bool = True, warning: str = "") -> RuntimeInfo:
    conditions = (
        RuntimeCondition("RuntimeReady", ready, "Starting", "not yet"),
        RuntimeCondition("NetworkReady", network, "NoPlugin", "cni config uninitialized"),
    )
    return RuntimeInfo("containerd", version, "v1", conditions, warning)


@pytest.mark.parametrize(
    ("expected", "info"),
    [
        ([(GOOD, "containerd 2.2.0 at e")], runtime()),
        ([(GOOD, "containerd 1.6.20~ds1 at e")], runtime("1.6.20~ds1")),
        ([(WARNING, "containerd v1.5.9 at e is older than any it is tested with")], runtime("v1.5.9")),
        ([(ERROR, "containerd 2.2.0 at e is not ready: Starting: not yet")], runtime(ready=False)),
        ([(GOOD, "containerd 2.2.0 at e"), (WARNING, "lists too long")], runtime(warning="lists too long")),
        ([(ERROR, "e: no socket")], None),
    ],
)
def test_a_runtime_is_there_and_ready(expected: list[tuple[Severity, str]], info: RuntimeInfo | None) -> None:
    assert expected == told(doctor.judge_runtime("e", info, "no socket"))


CONFIGURED = PodNetwork(("10-net.conflist",))
DEBIAN = replace(CONFIGURED, missing=("bridge", "portmap"), elsewhere="/usr/lib/cni")
LINK = "run `mkdir -p /opt/cni/bin && ln -s /usr/lib/cni/* /opt/cni/bin`"
UNCONFIGURED = (ERROR, "not ready: NoPlugin: cni config uninitialized")
MISPLACED = "no pod with a network of its own starts: the CNI plugins bridge, portmap are not in /opt/cni/bin"


@pytest.mark.parametrize(
    ("expected", "remedies", "info", "network"),
    [
        ([(GOOD, "ready, by 10-net.conflist")], [""], runtime(), CONFIGURED),
        ([(GOOD, "ready")], [""], runtime(), PodNetwork()),
        ([UNCONFIGURED], ["/etc/cni/net.d/10-bridge.conflist"], runtime(network=False), PodNetwork()),
        ([UNCONFIGURED], ["does not accept /etc/cni/net.d/10-net.conflist"], runtime(network=False), CONFIGURED),
        ([(ERROR, f"{MISPLACED}; they are in /usr/lib/cni")], [LINK], runtime(), DEBIAN),
        ([(ERROR, MISPLACED)], ["containernetworking-plugins"], runtime(), replace(DEBIAN, elsewhere="")),
        (
            [(ERROR, f"{MISPLACED}; they are in /usr/lib/cni"), UNCONFIGURED],
            [LINK, "/etc/cni/net.d/10-bridge.conflist"],
            runtime(network=False),
            replace(DEBIAN, configurations=()),
        ),
    ],
)
def test_a_pod_network_needs_a_configuration_and_its_plugins(
    expected: list[tuple[Severity, str]], remedies: list[str], info: RuntimeInfo, network: PodNetwork
) -> None:
    findings = list(doctor.judge_network(info, network))
    assert expected == told(findings)
    assert all(remedy in finding.remedy for remedy, finding in zip(remedies, findings, strict=True))


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('bin_dir = "/usr/lib/cni" below [plugins."io.containerd.grpc.v1.cri".cni]', "1.6.20~ds1"),
        ('bin_dirs = ["/usr/lib/cni"] below [plugins."io.containerd.cri.v1.runtime".cni]', "v2.2.9"),
    ],
)
def test_the_plugins_directory_is_configured_by_a_line_of_that_containerd(line: str, version: str) -> None:
    (finding,) = doctor.judge_network(runtime(version), DEBIAN)
    assert f"or write {line} in /etc/containerd/config.toml and restart containerd" in finding.remedy


@pytest.mark.parametrize(
    ("expected", "version", "controllers", "driver", "by_systemd"),
    [
        ((GOOD, "v2, driver systemd"), 2, {"cpu", "memory", "pids"}, "systemd", True),
        ((GOOD, "v2, driver cgroupfs"), 2, {"cpu", "memory", "pids"}, "cgroupfs", False),
        ((GOOD, "v1, driver cgroupfs"), 1, {"cpu", "memory", "pids"}, "cgroupfs", True),
        (
            (WARNING, "v2, and the driver is cgroupfs while systemd believes them its own"),
            2,
            {"cpu", "memory", "pids"},
            "cgroupfs",
            True,
        ),
        (
            (WARNING, "v1, and the driver is systemd, which does not run this machine"),
            1,
            {"cpu", "memory", "pids"},
            "systemd",
            False,
        ),
        ((WARNING, "there is no controller memory and no pids: limits do not hold"), 2, {"cpu"}, "systemd", True),
        ((WARNING, "none are mounted: limits do not hold"), 0, set(), "cgroupfs", False),
    ],
)
def test_cgroups_can_limit(
    expected: tuple[Severity, str], version: int, controllers: set[str], driver: str, by_systemd: bool
) -> None:
    assert [expected] == told(doctor.judge_cgroups(version, controllers, driver, by_systemd=by_systemd))


@pytest.mark.parametrize(
    ("expected", "swap", "refused"),
    [
        ((GOOD, "none"), 0, True),
        ((ERROR, "512 MiB are on, and failSwapOn is true"), GIB // 2, True),
        ((GOOD, "512 MiB are on, for pods: LimitedSwap"), GIB // 2, False),
    ],
)
def test_swap_is_off_or_meant(expected: tuple[Severity, str], swap: int, refused: bool) -> None:
    assert [expected] == told(doctor.judge_swap(swap, refused=refused, behaviour="LimitedSwap"))


@pytest.mark.parametrize(
    ("expected", "why", "per_user"),
    [
        ((GOOD, "at most 1024 in each container"), "", 4096),
        (
            (GOOD, "at most 4096 of this user together; containers have no limit of their own (it is so)"),
            "it is so",
            4096,
        ),
        ((WARNING, "containers have no limit (it is so): a fork bomb exhausts the m"), "it is so", 0),
    ],
)
def test_a_limit_of_processes_is_named_and_a_missing_one_is_a_problem(
    expected: tuple[Severity, str], why: str, per_user: int
) -> None:
    found = doctor.judge_processes(why, per_container=1024, per_user=per_user)

    assert expected == (found.severity, found.found[: len(expected[1])])


def test_secrets_need_a_tmpfs_where_the_agent_may_not_mount() -> None:
    assert [(GOOD, "Secrets and volumes in memory are kept below /dev/shm")] == told(
        [doctor.judge_memory("/dev/shm", "", "")]
    )
    without = doctor.judge_memory("", "user 1 has no tmpfs", "have one")
    assert (WARNING, "pods with Secrets or volumes in memory wait: user 1 has no tmpfs", "have one") == (
        without.severity,
        without.found,
        without.remedy,
    )


def test_each_sysctl_that_is_wrong_is_named_with_the_command_that_mends_it() -> None:
    right = {name: wanted for name, (wanted, _) in SYSCTLS.items()}

    assert [(GOOD, "as a node's should be")] == told(doctor.judge_sysctls(right))
    assert [(GOOD, "as a node's should be")] == told(doctor.judge_sysctls(right | {"kernel.panic": None}))
    inside = {name: right[name] for name in doctor.SYSCTLS_INSIDE}
    assert [(GOOD, "vm.panic_on_oom is as it should be; pods inside the agent depend on no other")] == told(
        doctor.judge_sysctls(inside)
    )
    (finding,) = doctor.judge_sysctls(right | {"net.ipv4.ip_forward": 0})
    assert (WARNING, "sysctl -w net.ipv4.ip_forward=1, and a file in /etc/sysctl.d") == (
        finding.severity,
        finding.remedy,
    )


def test_a_port_is_free_or_taken() -> None:
    assert [(GOOD, "10250 (port) is free")] == told(doctor.judge_port(10250, "port", taken=False))
    assert [(ERROR, "10250 is taken: the agent will not start")] == told(doctor.judge_port(10250, "port", taken=True))
    (finding,) = doctor.judge_port(10250, "port", taken=True)
    assert "`ss -ltnp 'sport = :10250'` shows the process that listens there: end it, or set port" == finding.remedy


@pytest.mark.parametrize(
    ("expected", "newest", "synchronised", "in_cluster"),
    [
        ((GOOD, "kept by a time service"), NOW, True, True),
        ((GOOD, "plausible: later than every file of the agent"), NOW, None, True),
        ((GOOD, "plausible: later than every file of the agent"), NOW, False, False),
        ((WARNING, "no time service keeps it right"), NOW, False, True),
        (
            (ERROR, "it is 2026-11-21T12:00:00Z here, and there are files of 2026-11-22T12:00:00Z"),
            NOW + DAY_NS,
            True,
            False,
        ),
    ],
)
def test_the_clock_does_not_lie_in_the_past_of_its_own_files(
    expected: tuple[Severity, str], newest: int, synchronised: bool | None, in_cluster: bool
) -> None:
    found = doctor.judge_clock(NOW, newest, synchronised=synchronised, in_cluster=in_cluster)
    assert [expected] == told(found)


@pytest.mark.parametrize(
    ("expected", "free", "inodes_free", "read_only"),
    [
        ((GOOD, "/r: 50 % are left"), 50 * GIB, 50, False),
        ((GOOD, "/r: 10 % are left"), 10 * GIB, 5, False),
        ((WARNING, "/r: 9 % are left, and a node should have 10 %"), 10 * GIB - 1, 50, False),
        ((WARNING, "/r: 4 inodes are left, and a node should have 5 % of all"), 50 * GIB, 4, False),
        ((ERROR, "/r is full: 63 MiB are left"), 64 * 1024**2 - 1, 50, False),
        ((ERROR, "/r is read-only"), 50 * GIB, 50, True),
    ],
)
def test_a_disk_has_room(expected: tuple[Severity, str], free: int, inodes_free: int, read_only: bool) -> None:
    assert [expected] == told(doctor.judge_disk(Disk("/r", 100 * GIB, free, 100, inodes_free, read_only)))


def test_a_file_system_that_counts_no_inodes_is_not_short_of_them() -> None:
    assert [(GOOD, "/r: 50 % are left")] == told(doctor.judge_disk(Disk("/r", 100 * GIB, 50 * GIB, 0, 0, False)))


@pytest.mark.parametrize(
    ("expected", "days", "life", "renewal"),
    [
        ((GOOD, "c is good until 2026-11-28T12:00:00Z"), 7, 365, BY_HAND),
        ((WARNING, "c ends on 2026-11-27T12:00:00Z"), 6, 365, AT_START),
        ((GOOD, "c is good until 2026-11-22T12:00:00Z"), 1, 10, ASKED_FOR),
        ((WARNING, "c ends on 2026-11-28T12:00:00Z"), 7, 100, ASKED_FOR),
        ((ERROR, "c ended on 2026-11-21T12:00:00Z"), 0, 10, ASKED_FOR),
        ((ERROR, "c ended on 2026-11-20T12:00:00Z"), -1, 10, BY_HAND),
    ],
)
def test_a_certificate_holds_for_a_while(
    expected: tuple[Severity, str], days: int, life: int, renewal: Renewal
) -> None:
    ends = NOW + days * DAY_NS
    held = Certificate("n", (), ends - life * DAY_NS, ends)

    assert [expected] == told(doctor.judge_certificate("c", held, NOW, renewal))


def test_rights_that_are_missing_are_named() -> None:
    assert [(GOOD, "https://s gives this node its rights")] == told(doctor.judge_rights("https://s", []))
    refused = [RIGHTS[1], Right("list", "pods")]
    assert [(ERROR, "https://s does not let it patch nodes/status, list pods")] == told(
        doctor.judge_rights("https://s", refused)
    )


def test_the_worst_finding_counts() -> None:
    made = {severity: Finding("x", severity, "y") for severity in Severity}

    assert GOOD is doctor.worst([])
    assert WARNING is doctor.worst([made[GOOD], made[WARNING], made[GOOD]])
    assert ERROR is doctor.worst([made[ERROR], made[WARNING]])


def test_each_fault_of_a_manifest_is_an_error_with_its_place_and_its_remedy() -> None:
    misspelt = Fault("/m/web.yaml", 4, "spec.contaners", "unknown field", 'did you mean "containers"?')

    assert [(GOOD, "no faults in /m")] == told(doctor.judge_manifests("/m", []))
    first, second = doctor.judge_manifests("/m", [misspelt, Fault("/m/api.yaml", None, "", "cannot be read")])
    assert Finding("manifests", ERROR, "/m/web.yaml:4: spec.contaners: unknown field", misspelt.remedy) == first
    assert (ERROR, "/m/api.yaml: cannot be read") == (second.severity, second.found)
    assert second.remedy


def test_pods_that_the_root_directory_lacks_are_a_warning_whether_they_run_or_have_ended() -> None:
    good = "all on the container runtime are this root directory's"
    assert [(GOOD, good)] == told(doctor.judge_unknown_pods(UnknownOnRuntime()))

    ((severity, found),) = told(doctor.judge_unknown_pods(UnknownOnRuntime([("default", "web")], ended=2)))
    assert WARNING is severity
    assert "1 unknown pod runs on the container runtime: default/web; 2 more have ended. " in found

    (finding,) = doctor.judge_unknown_pods(UnknownOnRuntime(ended=2))
    assert WARNING is finding.severity
    assert "remove them with --end-unknown-pods or trikubelet reset" in finding.remedy
