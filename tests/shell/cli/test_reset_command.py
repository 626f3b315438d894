"""``reset``: every pod of a runtime ends, and where that could be somebody else's pods, or nobody's, none does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from trikubelet.app import neighbours, runtime_claim
from trikubelet.app import settings as settings_module
from trikubelet.app.last_start import LastStart, record_start
from trikubelet.app.lock import RootLock
from trikubelet.app.paths import RUNTIME_RECORD, Places
from trikubelet.app.runtime_questions import listed_pods
from trikubelet.cli import asking
from trikubelet.cli.commands import reset
from trikubelet.cli.main import main
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.fake.runtime import Plan, run_fake
from trikubelet.host.processes import holders_of, processes_named
from trikubelet.host.uid_files import UNKNOWN_PODS
from trikubelet.pods.known_uids import KnownUids
from trikubelet.server.node_view import SOCKET_NAME

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.settings import Settings

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

WITHOUT_CGROUPS = ("--", "--standalone", "--cgroups-per-qos=false", "--enforce-node-allocatable=", "--healthz-port=0")


@pytest.fixture(autouse=True)
def no_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have some."""
    monkeypatch.setattr(neighbours, "processes_named", lambda _: [])


@pytest.fixture
def root(place: Path) -> Path:
    return place


def bound_to(root: Path, endpoint: str, *uids: str) -> None:
    """An agent had its pods there, on that runtime."""
    root.mkdir(exist_ok=True)
    for uid in uids:
        (root / "pods" / uid).mkdir(parents=True)
    (root / RUNTIME_RECORD).write_text(f"{endpoint}\n")


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, place: Path) -> dict[bool, Path]:
    """The root directories of a user's agents: on a real runtime, and on one inside the agent."""

    def places_of(_uid: int, _environment: object, root_dir: str = "", *, inside: bool = False) -> Places:
        root = Path(root_dir) if root_dir else found[inside]
        return Places(root, root / "logs", root / "links", root / "manifests", run_dir=root)

    found = {False: place / "kubelet", True: place / "trikubelet"}
    for module in (asking, reset, settings_module):
        monkeypatch.setattr(module, "places_for", places_of)
    return found


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Root directories whose pods were ended. The default one, of an ordinary user, has pods too."""

    async def note_end(settings: Settings, _: float) -> str:
        found.append(settings.root_dir)
        return ""

    found: list[Path] = []
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "trikubelet").mkdir()
    bound_to(tmp_path / "trikubelet", f"unix://{tmp_path}/default.sock", "uid-1")
    monkeypatch.setattr(reset, "_end_all", note_end)
    return found


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (["--root-dir={}"], []),
        ([], ["--root-dir={}"]),
        ([], ["--root_dir", "{}"]),
        (["--root-dir={}/"], ["--root-dir={}"]),
    ],
)
def test_the_pods_of_the_root_directory_that_was_named_end_wherever_it_stands(
    before: list[str], behind: list[str], root: Path, ended: list[Path]
) -> None:
    bound_to(root, f"unix://{root}/r.sock", "uid-1")

    assert 0 == main(["reset", *(one.format(root) for one in [*before, "--", *behind])])
    assert [root] == ended
    assert not (root / "runtime-endpoint").exists()


def test_without_one_the_pods_of_the_default_root_directory_end(tmp_path: Path, ended: list[Path]) -> None:
    assert 0 == main(["reset", "--", "--standalone"])
    assert [tmp_path / "trikubelet"] == ended


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--root-dir={}", "--", "--root-dir=/b"], "--root-dir={} is given before --, and --root-dir=/b after it"),
        (["--", "--root-dir={}", "--version"], "--version only prints and starts no agent: leave it out"),
        (["--", "--root-dir"], "--root-dir: missing argument"),
        (["--", "--root-dri={}"], "--root-dri: unknown flag"),
    ],
)
def test_no_pod_ends_if_its_runtime_is_unclear(
    arguments: list[str], said: str, root: Path, ended: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bound_to(root, f"unix://{root}/r.sock")

    assert 2 == main(["reset", *(one.format(root) for one in arguments)])
    assert [] == ended
    assert capsys.readouterr().err.startswith(f"error: {said.format(root)}")


def test_an_agent_on_a_runtime_within_it_has_a_root_directory_of_its_own_to_reset(
    monkeypatch: pytest.MonkeyPatch, ended: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    asked = set()
    monkeypatch.setattr(reset, "LOCK_NAME", "not-there")  # this machine may have an agent in that directory
    monkeypatch.setattr(reset, "recorded_runtime", lambda root: asked.add(root) or "")
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: 'embedded:'\n"
    )

    assert 0 == main(["reset", "--", f"--config={config}"])
    assert {Path("/var/lib/trikubelet")} == asked
    assert [] == ended


@pytest.mark.slow
@pytest.mark.parametrize("keeps_unknown", [False, True])
async def test_pods_that_the_root_directory_does_not_know_are_named_and_end_or_are_kept(
    keeps_unknown: bool, root: Path
) -> None:
    bound_to(root, f"unix://{root}/fake.sock")
    for uid in ("a-pod-long-gone", "another-agents"):
        (root / "pods" / uid).mkdir(parents=True)
    (root / UNKNOWN_PODS).write_text("another-agents\n")
    line = [sys.executable, "-m", "trikubelet", "reset", f"--root-dir={root}"]
    line += ["--keep-unknown-pods"] if keeps_unknown else []
    line += [*WITHOUT_CGROUPS, f"--config={root}/config.json"]
    about = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "podLogsDir": f"{root}/logs",
    }
    (root / "config.json").write_text(json.dumps(about))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_fake, Plan(pods=3), str(root / "fake.sock"))
        async with open_channel(f"unix://{root}/fake.sock") as channel:
            first, *others = [one.uid for one in (await listed_pods(CriRuntime(channel))).running()]
            if keeps_unknown:
                (root / "pods" / first).mkdir()
            with trio.fail_after(60):
                done = await trio.run_process(line, capture_stdout=True, capture_stderr=True, check=False)
            left = [one.uid for one in (await listed_pods(CriRuntime(channel))).running()]
        nursery.cancel_scope.cancel()

    which = f"every pod known to {root}" if keeps_unknown else "every pod"
    expected = (0, f"{which} of unix://{root}/fake.sock has ended\n")
    assert expected == (done.returncode, done.stdout.decode()), done
    assert (others if keeps_unknown else []) == left
    named = "2 unknown pods run on the container runtime: " if keeps_unknown else "3 unknown pods run on the container "
    said = done.stderr.decode()
    assert named in said
    remedy = "reset without --keep-unknown-pods" if keeps_unknown else "--keep-unknown-pods leaves them alone"
    assert f"{remedy})\n" in said
    assert "--end-unknown-pods" not in said
    assert (["another-agents"] if keeps_unknown else []) == os.listdir(root / "pods")
    assert 0 == main(["reset", f"--root-dir={root}"])  # there is nothing more to end


@pytest.mark.slow
def test_ended_pods_of_the_embedded_runtime_are_forgotten_though_a_kubelet_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bound_to(root, "embedded:")
    monkeypatch.setattr(neighbours, "processes_named", lambda _: [17])  # its pods are on another runtime
    (root / "pods" / "uid-1" / "volumes").mkdir(parents=True)
    sandbox = root / "embedded" / "sandboxes" / ("a" * 64)
    sandbox.mkdir(parents=True)
    labels = {"io.kubernetes.pod.uid": "uid-1", "io.kubernetes.pod.name": "web"}
    about = {"id": "a" * 64, "metadata": {"name": "web", "uid": "uid-1", "namespace": "default"}, "labels": labels}
    (sandbox / "sandbox.json").write_text(json.dumps(about))
    (root / "config.json").write_text(
        json.dumps(
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "podLogsDir": f"{root}/l"}
        )
    )

    assert 0 == main(["reset", f"--root-dir={root}", *WITHOUT_CGROUPS, f"--config={root}/config.json"])
    assert "every pod of embedded: has ended\n" == capsys.readouterr().out
    assert [] == [*os.listdir(root / "pods"), *os.listdir(root / "embedded" / "sandboxes")]


@pytest.mark.parametrize("endpoint", ["", "fake:"])
def test_where_no_pod_can_have_been_left_nothing_is_done(
    root: Path, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if endpoint:
        bound_to(root, endpoint)

    assert 0 == main(["reset", f"--root-dir={root}"])
    assert capsys.readouterr().out.startswith("there is no pod to end: ")


@pytest.mark.parametrize("flags", [[], ["--keep-unknown-pods"]])
@pytest.mark.parametrize("name", ["kubelet", "k3s", "k3s-server", "k3s-agent", "kubelite"])
def test_pods_of_a_runtime_that_a_kubelet_uses_are_left_alone(
    name: str, flags: list[str], root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = f"unix://{root}/r.sock"
    bound_to(root, endpoint, "uid-1")
    monkeypatch.setattr(neighbours, "processes_named", lambda asked: [17] if asked == name else [])
    monkeypatch.setattr(neighbours, "command_line", lambda _: [name, f"--container-runtime-endpoint={endpoint}"])
    monkeypatch.setattr(runtime_claim, "command_line", lambda _: [name, "--v=2"])
    monkeypatch.setattr(reset, "_end_all", lambda *_: pytest.fail("an agent was started"))

    assert 1 == main(["reset", f"--root-dir={root}", *flags])
    refusal = f"error: cannot reset {root}: process 17, a kubelet ({name} --v=2), uses {endpoint}, "
    assert capsys.readouterr().err.startswith(refusal)
    assert (root / RUNTIME_RECORD).exists()


def test_no_agent_starts_on_the_runtime_while_its_pods_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"unix://{root}/r.sock"
    bound_to(root, endpoint, "uid-1")
    refused = []

    async def start_another(*_: object) -> str:
        await trio.lowlevel.checkpoint()
        with pytest.raises(runtime_claim.RuntimeInUse) as caught:
            runtime_claim.claimed_runtime(endpoint, shares=False).__enter__()
        refused.append(caught.value.other)
        return ""

    monkeypatch.setattr(reset, "_end_all", start_another)

    assert 0 == main(["reset", f"--root-dir={root}"])
    assert [f"process {os.getpid()}, an agent that holds {root}/r.sock{runtime_claim.LOCK_SUFFIX},"] == refused


def test_a_running_agents_pods_are_left_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bound_to(root, f"unix://{root}/r.sock")
    with RootLock(root):
        assert 1 == main(["reset", f"--root-dir={root}"])

    told = f"error: cannot reset {root}: an agent runs there, process {os.getpid()} (stop it first, or give another "
    assert capsys.readouterr().err.startswith(told)


@pytest.mark.parametrize("recorded", ["", "embedded:", "fake:", "unix:///run/c.sock"])
@pytest.mark.parametrize("user", [0, 1000])
def test_an_agent_that_runs_is_refused_where_the_other_verbs_find_it_whatever_its_runtime(
    recorded: str,
    user: int,
    places: dict[bool, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    root = places[True]
    root.mkdir()
    with RootLock(root):
        if recorded:
            bound_to(root, recorded)
        (root / SOCKET_NAME).touch()
        assert 1 == main(["reset"])

    assert f"error: cannot reset {root}: an agent runs there" in capsys.readouterr().err


def test_the_record_of_an_ended_agent_is_found_where_the_other_verbs_find_it(
    places: dict[bool, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bound_to(places[True], "embedded:")
    ended = []

    async def note_end(settings: Settings, _: float) -> str:
        await trio.lowlevel.checkpoint()
        ended.append(settings.root_dir)
        return ""

    monkeypatch.setattr(reset, "_end_all", note_end)

    assert 0 == main(["reset"])
    assert [places[True]] == ended
    assert "every pod of embedded: has ended\n" == capsys.readouterr().out


def test_a_directory_in_which_no_agent_ever_ran_is_not_touched(root: Path) -> None:
    assert 0 == main(["reset", f"--root-dir={root}"])
    assert [] == os.listdir(root)


@pytest.mark.parametrize("state", ["missing", "stale"])
def test_where_no_pod_was_ever_recorded_and_no_runtime_listens_nothing_is_waited_for(
    state: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bound_to(root, f"unix://{root}/r.sock")
    (root / "pods").mkdir()
    (root / "removed_pods").touch()
    if state == "stale":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(root / "r.sock"))
    monkeypatch.setattr(reset, "_end_all", lambda *_: pytest.fail("an agent was started"))

    assert 0 == main(["reset", f"--root-dir={root}"])
    assert capsys.readouterr().out.startswith(f"there is no pod to end: none is known in {root}, and no ")
    assert not (root / RUNTIME_RECORD).exists()


@pytest.mark.parametrize("known", ["pods", "removed_pods"])
def test_pods_that_are_known_are_not_forgotten_because_no_runtime_listens(
    known: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def silent(_: Settings, seconds: float) -> str:
        await trio.lowlevel.checkpoint()
        return f"after {seconds:g} s: it does not answer"

    bound_to(root, f"unix://{root}/r.sock")
    if known == "pods":
        (root / "pods/uid-1").mkdir(parents=True)
    else:
        (root / "removed_pods").write_text("uid-1\n")
    monkeypatch.setattr(reset, "_end_all", silent)

    assert 1 == main(["reset", f"--root-dir={root}"])
    assert "error: some leftovers remain after 180 s: it does not answer\n" == capsys.readouterr().err
    assert (root / RUNTIME_RECORD).exists()


@pytest.mark.parametrize(
    ("theirs", "is_refused"),
    [("r.sock", True), ("%72.sock", True), ("link-to-here/r.sock", True), ("other.sock", False)],
)
def test_the_pods_of_an_agent_that_moved_to_another_root_directory_are_left_alone(
    root: Path, theirs: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bound_to(root, f"unix://{root}/r.sock", "uid-1")
    (root / "data").mkdir()
    (root / "link-to-here").symlink_to(root)
    bound_to(root / "data", f"unix://{root}/{theirs}")
    ended = []

    async def note_end(settings: Settings, _: float) -> str:
        ended.append(settings.runtime.endpoint)
        return ""

    monkeypatch.setattr(reset, "_end_all", note_end)
    code = (
        "import sys, pathlib; from trikubelet.app.lock import RootLock; lock = RootLock(pathlib.Path(sys.argv[1])); "
        "lock.__enter__(); print('held', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, str(root / "data")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        assert "held\n" == agent.stdout.readline()
        assert int(is_refused) == main(["reset", f"--root-dir={root}"])
        agent.kill()

    assert ([] if is_refused else [f"unix://{root}/r.sock"]) == ended
    assert is_refused == (root / "runtime-endpoint").exists()
    refusal = f"error: cannot reset {root}: process {agent.pid}, an agent ("
    assert capsys.readouterr().err.startswith(refusal if is_refused else "")


@pytest.mark.slow
def test_what_does_not_end_in_time_is_named(root: Path) -> None:
    bound_to(root, f"unix://{root}/absent.sock", "uid-1")
    line = [sys.executable, "-m", "trikubelet", "reset", f"--root-dir={root}", "--timeout=1s", *WITHOUT_CGROUPS]

    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    last = done.stderr.splitlines()[-1]
    assert (1, f"error: some leftovers remain after 1 s: unix://{root}/absent.sock does not answer") == (
        done.returncode,
        last,
    )
    assert (root / "runtime-endpoint").exists()


@pytest.mark.parametrize("seconds", [12.0, 180.0])
@pytest.mark.parametrize(
    ("listed", "known", "kept", "down", "left"),
    [
        (False, [], [], "", "unix:///r.sock does not answer"),
        (False, [], ["b"], "", "unix:///r.sock does not answer; pods b"),
        (True, ["a"], ["b"], "it is down", "pods a, b; it is down (unix:///r.sock)"),
        (True, ["a"], [], "", "pods a"),
        (True, [], [], "", ""),
    ],
)
async def test_that_there_is_no_pod_is_known_once_the_runtime_has_listed_its_pods(
    listed: bool,
    known: list[str],
    kept: list[str],
    down: str,
    left: str,
    seconds: float,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    for uid in kept:
        (root / "pods" / uid).mkdir(parents=True)
    node = SimpleNamespace(
        pleg=SimpleNamespace(uids=lambda: known, has_listed=listed),
        workers=SimpleNamespace(known=KnownUids(all_known=True)),
        runtime_state=SimpleNamespace(unhealthy=lambda: down or None),
        garbage=SimpleNamespace(collect=lambda: None, is_busy=False),
    )

    async def agent(*_: object, task_status: trio.TaskStatus[object]) -> None:
        """Starts without its runtime, too."""
        task_status.started(SimpleNamespace(node=node))
        await trio.sleep_forever()

    monkeypatch.setattr(reset.compose, "run", agent)
    settings = SimpleNamespace(
        runtime=SimpleNamespace(endpoint="unix:///r.sock", inside=False),
        root_dir=root,
        pod_logs_dir=root / "logs",
        ends_unknown_pods=False,
    )

    waited = seconds if listed else min(seconds, reset.ANSWER_SECONDS_MAX)
    expected = f"after {waited:g} s: {left}" if left else ""
    assert expected == await reset._end_all(settings, seconds)  # type: ignore[arg-type]


def test_the_records_go_while_no_agent_can_start_and_write_another(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound_to(root, f"unix://{root}/r.sock", "uid-1")
    record_start(root, LastStart(("trikubelet",), ("--v=0",)))
    let_go = RootLock.__exit__

    def note(lock: RootLock, *error: Any) -> None:
        assert {"trikubelet.lock", "pods", f"r.sock{runtime_claim.LOCK_SUFFIX}"} == {*os.listdir(root)}
        let_go(lock, *error)

    async def all_ended(*_: object) -> str:
        return ""

    monkeypatch.setattr(reset, "_end_all", all_ended)
    monkeypatch.setattr(RootLock, "__exit__", note)

    assert 0 == main(["reset", f"--root-dir={root}"])


def test_process_with_an_open_file_is_found_with_its_path(tmp_path: Path) -> None:
    for pid, number, file in (
        (4, 0, "pipe:[1]"),
        (4, 7, "/data/a.lock"),
        (30, 3, "/a.lock"),
        (os.getpid(), 3, "/a.lock"),
    ):
        (tmp_path / "proc" / str(pid) / "fd").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / str(pid) / "fd" / str(number)).symlink_to(file)
    (tmp_path / "proc/4/fd/5").write_text("")  # it is closed while it is looked at
    (tmp_path / "proc/99").mkdir()  # it ends then, or is another user's

    assert {4: tmp_path / "proc/4/root/data/a.lock", 30: tmp_path / "proc/30/root/a.lock"} == holders_of(
        "a.lock", tmp_path
    )


def test_processes_are_known_by_the_name_of_their_program(tmp_path: Path) -> None:
    for pid, name in ((30, "kubelet"), (4, "kubelet"), (5, "kubelet-like")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "proc/99").mkdir()  # it ends while it is looked at

    assert [4, 30] == processes_named("kubelet", tmp_path)


def test_process_with_an_undecodable_name_is_ignored(tmp_path: Path) -> None:
    for pid, name in ((4, b"kubelet\n"), (5, b"\xd0\n"), (6, b"kubelet\xff\n")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "comm").write_bytes(name)

    assert [4] == processes_named("kubelet", tmp_path)


@pytest.mark.parametrize("put", ["bytes", "pipe", "directory", "link"])
def test_what_a_container_puts_in_the_place_of_an_agents_record_is_no_agents(
    put: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"unix://{tmp_path}/c.sock"
    bound_to(tmp_path / "ours", endpoint)
    (tmp_path / "theirs").mkdir()
    record = tmp_path / "theirs" / RUNTIME_RECORD
    match put:
        case "bytes":
            record.write_bytes(b"unix:///run/\xd0\0c.sock")
        case "pipe":
            os.mkfifo(record)
        case "directory":
            record.mkdir()
        case "link":
            record.symlink_to(record)
    held = {7: tmp_path / "ours/a.lock", 8: tmp_path / "theirs/a.lock"}
    monkeypatch.setattr(neighbours, "holders_of", lambda _: held)

    assert [7] == neighbours.agents_on(endpoint)
