"""The doctor's round on this machine, its look at a cluster, and the command that asks for both."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from grpclib.const import Status
from trustme import CA

from shell.localkit import FakeAgent, FakeView, served
from shell.portkit import full_queue
from trikubelet.app import cluster_doctor, compose, doctor
from trikubelet.app.access import Found, find_access
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.last_start import LastStart, record_start
from trikubelet.app.paths import RUNTIME_RECORD, places_for
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.cli.main import main
from trikubelet.core import doctor as core_doctor
from trikubelet.core.doctor import RIGHTS, SYSCTLS, Finding, PodNetwork, Severity
from trikubelet.cri.errors import error_for
from trikubelet.cri.runtime import CriRuntime
from trikubelet.host import examination
from trikubelet.host.clock import SystemClock
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.new_certificates import self_signed
from trikubelet.model.api import Item
from trikubelet.model.api_errors import ApiError, ApiUnreachable, NothingToShow, Unauthorized
from trikubelet.model.certificates import Subject
from trikubelet.model.runtime import NetworkSetup
from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.ports import Clock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

GOOD, WARNING, ERROR = Severity.GOOD, Severity.WARNING, Severity.ERROR
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.9:6443", insecure-skip-tls-verify: true}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: me}}]
current-context: here
"""


def settings(place: Path, *words: str) -> Settings:
    own = [f"--root-dir={place}/root", "--hostname-override=n1", "--healthz-port=0"]
    return load_settings(parse_agent_flags([*own, *words]), Surroundings(os.geteuid(), os.environ, "n1"))


async def found(of: Settings, *, running: bool = True) -> dict[str, list[Finding]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in await doctor.examine(of, running=running):
        grouped.setdefault(finding.check, []).append(finding)
    return grouped


@pytest.mark.parametrize(
    ("expected", "answer"), [("systemd", "systemd"), ("cgroupfs", ""), ("cgroupfs", RuntimeUnavailable("away"))]
)
async def test_cgroups_are_judged_by_the_driver_that_the_runtime_has(
    expected: str, answer: str | Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def says(_: CriRuntime) -> str:
        await trio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer

    judged: list[str] = []

    def judges(_version: int, _controllers: object, driver: str, **_: bool) -> Iterator[Finding]:
        judged.append(driver)
        return iter(())

    monkeypatch.setattr(CriRuntime, "cgroup_driver", says)
    monkeypatch.setattr(core_doctor, "judge_cgroups", judges)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()
        of = settings(tmp_path, "--standalone", f"--container-runtime-endpoint=unix://{tmp_path}/s")
        monkeypatch.setattr(doctor, "_runtime", lambda _: _nothing())
        await found(of)

    assert [expected] == judged


async def _nothing() -> list[Finding]:
    await trio.lowlevel.checkpoint()
    return []


async def test_everything_is_looked_at_and_a_runtime_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    seen = await found(
        settings(tmp_path, "--standalone", f"--container-runtime-endpoint=unix://{tmp_path}/none"), running=False
    )

    assert {"runtime", "cgroups", "swap", "sysctls", "clock", "disk"} <= set(seen)
    (runtime,) = seen["runtime"]
    assert (ERROR, True) == (runtime.severity, "no socket at" in runtime.found)


async def test_runtime_with_a_full_queue_is_an_error(tmp_path: Path) -> None:
    with full_queue(tmp_path / "s"):
        seen = await found(settings(tmp_path, "--standalone", f"--container-runtime-endpoint=unix://{tmp_path}/s"))

    (runtime,) = seen["runtime"]
    assert (ERROR, True) == (runtime.severity, "its queue is full: it does not accept connections" in runtime.found)


async def test_a_containerd_without_its_cri_plugin_is_reported_with_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(_: CriRuntime) -> None:
        await trio.lowlevel.checkpoint()
        raise error_for(Status.UNIMPLEMENTED.value, "unknown service runtime.v1.RuntimeService")

    monkeypatch.setattr(CriRuntime, "info", refuses)
    monkeypatch.setattr(CriRuntime, "cgroup_driver", refuses)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()
        of = settings(tmp_path, "--standalone", f"--container-runtime-endpoint=unix://{tmp_path}/s")
        (runtime,) = (await found(of))["runtime"]

    assert (ERROR, True) == (runtime.severity, "no CRI service answers there" in runtime.found)
    assert "write disabled_plugins = [] in /etc/containerd/config.toml" in runtime.remedy


async def test_unreachable_runtime_is_a_finding_and_not_a_line_of_the_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def waits(self: CriRuntime) -> None:
        while not self._channel.statistics().last_error:
            await trio.lowlevel.checkpoint()
        raise trio.TooSlowError

    async def http(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):  # the doctor looks first whether anybody listens
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    monkeypatch.setattr(CriRuntime, "info", waits)
    monkeypatch.setattr(CriRuntime, "cgroup_driver", waits)
    with trio.socket.socket(socket.AF_UNIX) as listener:
        await listener.bind(f"{tmp_path}/s")
        listener.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, http, [trio.SocketListener(listener)])
            of = settings(tmp_path, "--standalone", f"--container-runtime-endpoint=unix://{tmp_path}/s")
            (runtime,) = (await found(of))["runtime"]
            nursery.cancel_scope.cancel()

    expected = f'no gRPC at {tmp_path}/s: not HTTP/2 as we know it: it answers "HTTP/1.1 400 Bad Request"'
    assert (ERROR, True) == (runtime.severity, expected in runtime.found)
    assert "retrying until it answers" not in caplog.text


@pytest.mark.parametrize("flag", ["--healthz-port", "--kubectl-port"])
async def test_port_in_use_is_reported_before_the_agent_runs_and_not_after(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("--standalone", "--container-runtime-endpoint=fake:", f"{flag}={taken.getsockname()[1]}")
        of = settings(tmp_path, *words)
        assert [ERROR] == [finding.severity for finding in (await found(of, running=False))["ports"]]
        assert "ports" not in await found(of)


@pytest.mark.parametrize(
    ("expected", "endpoint"),
    [(("vm.panic_on_oom",), "embedded:"), (("vm.panic_on_oom",), "fake:"), (tuple(SYSCTLS), "unix:///none")],
)
async def test_of_the_kernel_only_that_is_told_which_the_runtimes_pods_mind(
    expected: tuple[str, ...], endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "read_sysctls", lambda names: dict.fromkeys(names, 7))

    seen = await found(settings(tmp_path, "--standalone", f"--container-runtime-endpoint={endpoint}"))

    assert expected == tuple(finding.found.split(" is ")[0] for finding in seen["sysctls"])


@pytest.mark.parametrize(
    ("expected", "endpoint", "may_mount"),
    [
        ({"processes", "memory"}, "embedded:", False),
        ({"processes"}, "embedded:", True),
        (set(), "fake:", False),
        (set(), "unix:///none", False),
    ],
)
async def test_limits_of_processes_and_memory_for_secrets_are_judged_for_the_embedded_runtime(
    expected: set[str], endpoint: str, may_mount: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "is_allowed", lambda: may_mount)

    seen = await found(settings(tmp_path, "--standalone", f"--container-runtime-endpoint={endpoint}"))

    assert expected == {"processes", "memory"} & seen.keys()


@pytest.mark.parametrize(("expected", "words"), [(GOOD, ["--standalone"]), (WARNING, ["--kubeconfig={}/kubeconfig"])])
async def test_unsynchronised_clock_is_reported_in_a_cluster(
    expected: Severity, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "is_synchronised", lambda: False)
    monkeypatch.setattr(doctor, "_api_server", lambda _threads, _settings: _nothing())
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    flags = [word.format(tmp_path) for word in words]

    seen = await found(settings(tmp_path, *flags, "--container-runtime-endpoint=fake:"))

    assert [expected] == [finding.severity for finding in seen["clock"]]


async def test_a_check_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock) -> None:
    async def hangs(_: Settings) -> list[Finding]:
        await trio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(doctor, "_runtime", hangs)
    seen = await found(settings(tmp_path, "--standalone"))

    assert ["the check did not end within 10 s"] == [finding.found for finding in seen["runtime"]]


async def test_a_check_that_fails_is_a_finding_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(examination, "read_disk", fails)
    seen = await found(settings(tmp_path, "--standalone", "--container-runtime-endpoint=fake:"))

    disks = [finding.found for name, part in seen.items() if name.startswith("disk ") for finding in part]
    assert {"the check failed: [Errno 5] Input/output error"} == set(disks)
    assert {"runtime", "sysctls"} <= set(seen)


async def test_what_is_wrong_is_logged_at_start_and_what_is_well_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def examined(_: Settings, *, running: bool) -> list[Finding]:
        assert running
        return [Finding("swap", GOOD, "none"), Finding("clock", WARNING, "late", "set it")]

    monkeypatch.setattr(doctor, "examine", examined)
    await doctor.warn(settings(tmp_path, "--standalone"))

    assert ["Doctor: clock: late (set it)"] == [record.message for record in caplog.records]


async def test_a_bug_in_a_check_does_not_end_the_agent_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(_: Settings) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(doctor, "_swap", buggy)
    await doctor.warn(settings(tmp_path, "--standalone", "--container-runtime-endpoint=fake:"))

    assert ["The doctor could not check this node"] == [record.message for record in caplog.records]


async def test_the_certificates_it_makes_for_its_ports_are_looked_at_while_it_has_these_ports(tmp_path: Path) -> None:
    pem, _ = self_signed(Subject("n1"), 24 * 3600, SystemClock().now_ns())
    paths = [tmp_path / "root" / place / "kubelet.crt" for place in ("pki", "kubectl")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(pem)
    alone = ("--standalone", "--container-runtime-endpoint=fake:")
    open_to_all = ("--anonymous-auth=true", "--authorization-mode=AlwaysAllow", "--authentication-token-webhook=false")

    both = (await found(settings(tmp_path, *alone, *open_to_all, "--kubectl-port=6441")))["certificates"]

    assert [(WARNING, str(path)) for path in paths] == [(one.severity, one.found.split(" ends on ")[0]) for one in both]
    assert "certificates" not in await found(settings(tmp_path, *alone))


def test_where_nothing_compiled_can_be_loaded_the_doctor_and_so_the_log_of_a_start_says_so(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['trikubelet._relist'] = None; from trikubelet.cli.main import main; main(sys.argv[1:])"
    )
    words = ["doctor", "--", "--standalone", f"--root-dir={tmp_path}"]
    command = [sys.executable, "-c", code, *words, "--container-runtime-endpoint=fake:"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    assert re.search(
        r"^warning +program +the compiled module cannot be loaded, plain Python .*trikubelet\._relist", said, re.M
    )


# ---- the machine ----


def test_the_machine_is_read_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/overcommit_memory").write_text("0\n")

    assert dict.fromkeys(SYSCTLS) | {"vm.overcommit_memory": 0} == examination.read_sysctls(root=tmp_path)
    assert not examination.is_by_systemd(tmp_path)
    assert examination.is_synchronised() in (True, False, None)


def test_network_configurations_and_plugins_are_found_where_the_runtime_looks(tmp_path: Path) -> None:
    for name in ("etc/cni/net.d/20-b.conf", "etc/cni/net.d/10-a.conflist", "etc/cni/net.d/notes", "own/1.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("opt/cni/bin/loopback", "usr/lib/cni/bridge", "usr/lib/cni/loopback"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def network(*plugins: str) -> PodNetwork:
        return examination.read_network(NetworkSetup("/own", ("/opt/cni/bin", "/none"), plugins), tmp_path)

    at_own = PodNetwork(("1.conf",), "/own", ("/opt/cni/bin", "/none"))
    assert PodNetwork(("10-a.conflist", "20-b.conf")) == examination.read_network(None, tmp_path)
    assert PodNetwork() == examination.read_network(None, tmp_path / "nothing")
    assert at_own == network("loopback")
    assert replace(at_own, missing=("bridge",), elsewhere="/usr/lib/cni") == network("loopback", "bridge")
    assert replace(at_own, missing=("bridge", "calico")) == network("bridge", "loopback", "calico")


def test_a_disk_is_that_of_the_nearest_directory_that_is_there(tmp_path: Path) -> None:
    disk = examination.read_disk(tmp_path / "not/yet")

    assert (str(tmp_path / "not/yet"), True, False) == (disk.place, 0 < disk.bytes_free <= disk.bytes_, disk.read_only)


def test_the_newest_file_counts_and_one_that_is_not_there_does_not(tmp_path: Path) -> None:
    for name, second in (("a", 100), ("b", 200)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (second, second))

    assert 200 * 10**9 == examination.newest_change_ns([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert 0 == examination.newest_change_ns([tmp_path / "c"])


# ---- the cluster ----


class Reviewing:
    """An API server that answers reviews only."""

    def __init__(self, refuses: str = "", problem: ApiError | None = None, raw: bytes = b"") -> None:
        self.asked: list[dict[str, Any]] = []
        self._refuses = refuses
        self._problem = problem
        self._raw = raw

    async def create(self, _: object, body: dict[str, Any]) -> Item:
        await trio.lowlevel.checkpoint()
        if self._problem is not None:
            raise self._problem
        attributes = body["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        allowed = attributes["resource"] != self._refuses
        return Item("", "", "", "", self._raw or msgspec.json.encode({"status": {"allowed": allowed}}))


@contextmanager
def cluster(place: Path, monkeypatch: pytest.MonkeyPatch, api: Reviewing) -> Iterator[Settings]:
    (place / "kubeconfig").write_text(KUBECONFIG)
    hung_up: list[bool] = []

    def connect(*_: object, **__: object) -> tuple[Reviewing, Callable[[], None]]:
        assert not trio.lowlevel.in_trio_run()  # it reads files
        return api, lambda: hung_up.append(True)

    monkeypatch.setattr(cluster_doctor, "connect", connect)
    yield settings(place, f"--kubeconfig={place}/kubeconfig")
    assert [True] == hung_up


async def examined(of: Settings) -> Sequence[Finding]:
    return await cluster_doctor.examine_cluster(of, ThreadPool("doctor", 1))


async def test_every_right_is_asked_for_and_those_that_are_missing_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Reviewing()
    with cluster(tmp_path, monkeypatch, api) as of:
        (finding,) = await examined(of)
    assert (GOOD, len(RIGHTS)) == (finding.severity, len(api.asked))
    lease = next(asked for asked in api.asked if asked["resource"] == "leases")
    assert {
        "verb": "update",
        "resource": "leases",
        "group": "coordination.k8s.io",
        "namespace": "kube-node-lease",
        "name": "n1",
    } == lease

    pods = next(asked for asked in api.asked if asked["resource"] == "pods")
    selector = {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}
    assert {"verb": "list", "resource": "pods", "name": "", "fieldSelector": selector} == pods

    with cluster(tmp_path, monkeypatch, Reviewing(refuses="leases")) as of:
        (finding,) = await examined(of)
    assert (ERROR, "https://192.0.2.9:6443 does not let it update leases") == (finding.severity, finding.found)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("https://192.0.2.9:6443: no route", ApiUnreachable("no route")),
        ("https://192.0.2.9:6443 does not know this node's user: who?", Unauthorized("who?")),
        ("cannot send requests to it: the plugin failed", NothingToShow("the plugin failed")),
    ],
)
async def test_an_api_server_that_does_not_answer_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, problem: ApiError
) -> None:
    with cluster(tmp_path, monkeypatch, Reviewing(problem=problem)) as of:
        assert [(ERROR, said)] == [(one.severity, one.found) for one in await examined(of)]


@pytest.mark.parametrize(
    "raw", [b'{"metadata":{},"status":null}', b'{"status":{"allowed":"si"}}', b"\xff", b"[" * 99_999]
)
async def test_undecodable_answer_is_a_finding_and_other_checks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes
) -> None:
    with cluster(tmp_path, monkeypatch, Reviewing(raw=raw)) as of:
        (finding,) = await examined(of)

    assert (ERROR, True) == (finding.severity, "the server's answer is no" in finding.found)


async def test_unusable_kubeconfig_is_a_finding_and_is_logged_by_a_bootstrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "first").write_text(KUBECONFIG)
    (tmp_path / "torn.pem").write_text("torn")
    shown = f"client-certificate: {tmp_path}/torn.pem, client-key: {tmp_path}/torn.pem"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.replace("token: t", shown))
    of = settings(tmp_path, f"--kubeconfig={tmp_path}/kubeconfig", f"--bootstrap-kubeconfig={tmp_path}/first")

    def found_access(of: Settings, clock: Clock) -> Found:
        assert not trio.lowlevel.in_trio_run()
        return find_access(of, clock)

    monkeypatch.setattr(cluster_doctor, "find_access", found_access)
    (finding,) = await examined(of)
    told = f"{tmp_path}/kubeconfig is not usable any more: "
    assert (WARNING, True) == (finding.severity, finding.found.startswith(told))
    assert "bootstrapping again" not in caplog.text

    compose.find_access(of)
    assert f"{finding.found}; bootstrapping again" in caplog.text


@pytest.mark.parametrize("rotates", [True, False])
async def test_the_certificate_that_is_shown_is_the_one_that_is_judged(
    rotates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CA()

    def pem(**dates: datetime) -> bytes:
        return authority.issue_cert(common_name="system:node:n1", **dates).private_key_and_cert_chain_pem.bytes()

    data = base64.b64encode(pem(not_after=datetime(2001, 1, 1, tzinfo=UTC))).decode()
    given = KUBECONFIG.replace("token: t", f"client-certificate-data: {data}, client-key-data: {data}")
    own = tmp_path / "root/pki/kubelet-client-current.pem"
    with cluster(tmp_path, monkeypatch, Reviewing()) as of:
        (tmp_path / "kubeconfig").write_text(given)
        own.parent.mkdir(parents=True)
        own.write_bytes(pem())
        rules = msgspec.structs.replace(of.configuration, rotate_certificates=rotates)
        renews = replace(of, cert_dir=own.parent, effective=replace(of.effective, configuration=rules))
        found = [one for one in await examined(renews) if one.check == "certificates"]

    theirs = f"{tmp_path}/kubeconfig's certificate"
    wanted = (GOOD, f"{own}, presented instead of {theirs}, is good") if rotates else (ERROR, f"{theirs} ended on 2001")
    assert [wanted] == [(one.severity, one.found[: len(wanted[1])]) for one in found]


async def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (finding,) = await examined(settings(tmp_path, f"--kubeconfig={tmp_path}/none"))

    assert (ERROR, True) == (finding.severity, "cannot be read" in finding.found)


# ---- the command ----

FINDINGS = [
    Finding("runtime", GOOD, "containerd 2.2.0"),
    Finding("swap", WARNING, "512 MiB are on", "swapoff -a"),
    Finding("disk", ERROR, "/r is full", "remove images"),
    Finding("ports", ERROR, "10248 is taken", "free it"),
]


@pytest.mark.parametrize(
    ("code", "last", "count"),
    [(0, "no problems found", 1), (3, "1 warning", 2), (1, "1 warning, 1 error", 3), (1, "1 warning, 2 errors", 4)],
)
async def test_the_command_says_what_the_agent_finds_and_ends_by_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, last: str, count: int
) -> None:
    async with served(FakeView(), tmp_path, FakeAgent(found=FINDINGS[:count])) as agent:
        words = ["doctor", f"--socket={agent.socket_path}"]
        assert code == await trio.to_thread.run_sync(main, words)
        lines = [
            "ok       runtime       containerd 2.2.0",
            "warning  swap          512 MiB are on",
            "                       swapoff -a",
            "error    disk          /r is full",
            "                       remove images",
            "error    ports         10248 is taken",
            "                       free it",
        ]
        assert [*lines[: 2 * count - 1], last] == capsys.readouterr().out.splitlines()
        await trio.to_thread.run_sync(main, [*words, "-q"])
        assert [*lines[1 : 2 * count - 1], last][count == 1 :] == capsys.readouterr().out.splitlines()
        await trio.to_thread.run_sync(main, [*words, "-q", "-o", "json"])
        assert count - 1 == len(json.loads(capsys.readouterr().out))


@pytest.mark.slow
def test_without_an_agent_the_command_looks_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--standalone", f"--root-dir={tmp_path}", f"--container-runtime-endpoint=unix://{tmp_path}/none"]

    config = tmp_path / "c.yaml"
    config.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 7\n")

    assert 1 == main(["doctor", "-q", "--", *flags, f"--config={config}"])
    said = " ".join(capsys.readouterr().out.split())
    assert "error runtime unix://" in said
    assert f"warning configuration {config}:3: maxPod: unknown field: it is ignored" in said


@pytest.mark.parametrize(
    ("recorded", "flags"),
    [
        (None, "--standalone"),
        ("unix:///run/a%20b.sock", "--standalone --container-runtime-endpoint=unix:///run/a%20b.sock"),
        ("fake:", "--standalone --container-runtime-endpoint=fake:"),
    ],
)
def test_where_no_agent_answers_that_is_the_first_finding_and_what_is_looked_at_instead_is_named(
    recorded: str | None,
    flags: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[tuple[Settings, bool]] = []

    async def examine(of: Settings, *, running: bool) -> list[Finding]:
        await trio.lowlevel.checkpoint()
        looked.append((of, running))
        return FINDINGS[:1]

    monkeypatch.setattr(doctor, "examine", examine)
    if recorded:
        (tmp_path / RUNTIME_RECORD).write_text(f"{recorded}\n")

    assert 1 == main(["doctor", f"--root-dir={tmp_path}"])
    nobody, remedy, *others = capsys.readouterr().out.splitlines()
    where = places_for(os.geteuid(), os.environ, str(tmp_path)).run_dir / "trikubelet.sock"
    assert f"error    agent         no agent answers at {where}; below is what one with {flags} would find" == nobody
    assert "`trikubelet doctor -- FLAGS` looks at what one with other flags would find" in remedy
    assert "ok       runtime       containerd 2.2.0" == others[0]
    [(of, running)] = looked
    assert (tmp_path, False, True) == (of.root_dir, running, of.standalone)
    assert recorded in (None, of.runtime.endpoint)

    assert 1 == main(["doctor", f"--root-dir={tmp_path}", "-q", "-o", "json"])
    assert "agent" == json.loads(capsys.readouterr().out)[0]["check"]


def test_where_no_agent_answers_what_one_like_the_last_would_find_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Settings] = []

    async def examine(of: Settings, *, running: bool) -> list[Finding]:
        await trio.lowlevel.checkpoint()
        looked.append(of)
        return FINDINGS[:1]

    monkeypatch.setattr(doctor, "examine", examine)
    flags = ["--container-runtime-endpoint=fake:", "--hostname-override=n7", f"--root-dir={tmp_path}"]
    secret = "--manifest-url-header=Authorization:<masked>"
    record_start(tmp_path, LastStart(("trikubelet",), (*flags, secret)))

    assert 1 == main(["doctor", f"--root-dir={tmp_path}"])
    nobody, remedy, *_ = capsys.readouterr().out.splitlines()
    assert f"below is what one with {' '.join(flags)} would find" in nobody
    assert f"start it again with: `trikubelet {' '.join(flags)} '{secret}'`, with the secrets in" in remedy
    assert ["n7"] == [of.node_name for of in looked]


def test_flags_of_the_last_agent_that_are_wrong_by_now_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(_of: Settings, *, running: bool) -> list[Finding]:
        await trio.lowlevel.checkpoint()
        return FINDINGS[:1]

    monkeypatch.setattr(doctor, "examine", examine)
    record_start(tmp_path, LastStart(("trikubelet",), (f"--config={tmp_path}/none", "--standalone")))

    assert 1 == main(["doctor", f"--root-dir={tmp_path}"])
    nobody, _, unable, *_ = capsys.readouterr().out.splitlines()
    assert "below is what one with --standalone would find" in nobody
    assert f"error    flags, files  {tmp_path}/none: cannot be read: No such file or directory" == unable


FAULTY = """\
kind: Pod
apiVersion: v1
metadata: {name: web}
spec:
  hostNetwrk: true
  containers: [{name: app, image: host}]
"""


def manifests_found(place: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    flags = ["--standalone", f"--root-dir={place}/root", f"--pod-manifest-path={place}/m"]
    main(["doctor", "--", *flags, "--container-runtime-endpoint=fake:"])
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if " manifests " in line)
    return lines[at:]


@pytest.mark.slow
def test_manifests_that_an_agent_would_find_faulty_are_errors_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = f"ok       manifests     {tmp_path}/m does not exist, so there are no static pods"
    assert nothing == manifests_found(tmp_path, capsys)[0]
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "web.yaml").write_text(FAULTY)
    (tmp_path / "m" / ".hidden.yaml").write_text(FAULTY)

    found = manifests_found(tmp_path, capsys)

    assert (
        f"error    manifests     {tmp_path}/m/web.yaml:5: spec.hostNetwrk: unknown field",
        '                       did you mean "hostNetwork"?',
    ) == tuple(found[:2])
    assert re.search(r"\berrors?$", found[-1])
    (tmp_path / "m" / "web.yaml").unlink()
    assert f"ok       manifests     no faults in {tmp_path}/m" == manifests_found(tmp_path, capsys)[0]
