"""The modules that a verb loads: a request to a running agent does not load those that only an agent needs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from shell.localkit import FakeAgent, FakeView, pod, served
from trikubelet.cli import connection
from trikubelet.cli.blocking import pause, run
from trikubelet.cli.client import AgentClient, AgentSilent

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ["trio", "ssl", "asyncio", "httpx", "h2", "grpclib", "google", "cryptography", "yaml", "inotify_simple"]
HEAVY += [f"trikubelet.{part}" for part in ("pods", "sources", "node", "cri", "kube", "httpd", "host")]
HEAVY += [f"trikubelet.core.{part}" for part in ("containers", "configuration", "manifest", "doctor")]
SCRIPT = f"""
import json, sys
from trikubelet.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, [name for name in {HEAVY} if name in sys.modules]]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        "get pods",
        "get pods -A -o wide",
        "get pods -o json",
        "get pods -o jsonpath={.items[*].metadata.name}",
        "get pods -l app!=db",
        "get pods,nodes --show-labels --sort-by=metadata.name",
        "get pods -o custom-columns=NAME:.metadata.name",
        "get nodes",
        "get events",
        "get images",
        "get volumes",
        "describe pod web-n1",
        "describe node",
        "logs web-n1",
        "logs web-n1 --all-containers --prefix",
        "top pods",
        "top node",
        "restart web-n1",
        "config view",
        "kubeconfig",
        "doctor",
    ],
)
async def test_a_question_to_the_agent_loads_no_event_loop_and_nothing_of_an_agent(words: str, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("2026-11-21T11:58:00Z stdout F one\n")
    view = FakeView([pod("web-n1")], logs={("default", "web-n1", "app", False): str(log)})
    async with served(view, tmp_path, FakeAgent(for_kubectl=b"kind: Config\n")) as agent:
        line = [sys.executable, "-c", SCRIPT, *words.split(), f"--socket={agent.socket_path}"]
        done = await trio.run_process(line, capture_stdout=True, capture_stderr=True, check=False)

    *said, last = done.stderr.decode().splitlines()
    assert [0, []] == json.loads(last), said


@pytest.mark.parametrize("verb", ["exec", "attach", "cp"])
def test_a_conversation_with_a_container_takes_no_event_loop_either(verb: str) -> None:
    script = f"import sys, trikubelet.cli.commands.{verb}; print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert [] == [name for name in HEAVY if f"'{name}'" in done.stdout]


WORDS = ["version", "--version", "version -o json", "help", "help agent", "--help", "help run", "run --help", "gte"]
WORDS += ["get gnomes", "completion bash", "completion zsh", "completion fish", "man"]


@pytest.mark.parametrize("words", WORDS)
def test_words_about_the_program_itself_load_nothing_of_an_agent_either(words: str) -> None:
    line = [sys.executable, "-c", SCRIPT, *words.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=True)

    assert [] == json.loads(done.stderr.splitlines()[-1])[1]


@pytest.mark.parametrize("words", ["version", "--version", "help"])
def test_the_version_and_the_overview_load_no_records_either(words: str) -> None:
    script = f"import sys; from trikubelet.cli.main import main; main([{words!r}]); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "'msgspec'" not in done.stdout
    assert "'trikubelet.model.k8s'" not in done.stdout


async def test_a_silent_agent_is_named_without_an_event_loop_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 100.0, 111.0])
    monkeypatch.setattr(connection.time, "monotonic", lambda: next(now))
    async with served(FakeView(), tmp_path) as agent:  # it cannot answer: this thread is blocked
        with pytest.raises(AgentSilent, match=r"does not answer: 10 seconds of silence"):
            await trio.to_thread.run_sync(run, AgentClient(agent.socket_path).get, "/pods")


def test_what_waits_for_an_event_loop_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)

    run(pause, 3.0)
    assert [3.0] == waited
    with pytest.raises(RuntimeError, match="must be called from async context"):
        run(trio.sleep, 1.0)
