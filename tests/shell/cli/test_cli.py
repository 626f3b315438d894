"""The first word decides: verbs, the agent, help; and what a verb may load."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import yaml

from trikubelet import __version__
from trikubelet.app import release
from trikubelet.cli import main as cli_main
from trikubelet.cli.client import AgentClient
from trikubelet.cli.commands import version
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.cli.main import VERBS, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the arguments of each start of the agent."""
    started: list[list[str]] = []
    module = ModuleType("trikubelet.app.agent")

    def run_agent(argv: list[str]) -> int:
        started.append(list(argv))
        return 7

    module.run_agent = run_agent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trikubelet.app.agent", module)
    return started


@pytest.mark.parametrize("terminals", [(), (0, 1)])
@pytest.mark.parametrize("words", [["--standalone", "--v=4"], ["-v", "4"]])
def test_flags_alone_are_the_agent(
    agent: list[list[str]], monkeypatch: pytest.MonkeyPatch, words: list[str], terminals: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: number in terminals)

    assert 7 == main(words)
    assert [words] == agent


@pytest.mark.parametrize("name", ["trikubelet", "kubelet"])
def test_no_argument_at_all_is_the_agent_where_there_is_no_terminal(
    agent: list[list[str]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: number == 2)
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}"])

    assert (7, [[]]) == (main(), agent)


@pytest.mark.parametrize("name", ["trikubelet", "kubelet"])
@pytest.mark.parametrize("terminals", [(0, 1, 2), (0,), (1,)])
def test_no_argument_at_all_prints_help_at_a_terminal_and_starts_nothing(
    agent: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminals: tuple[int, ...],
    name: str,
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: number in terminals)
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}"])

    assert 2 == main()
    said = capsys.readouterr()
    assert ("", []) == (said.out, agent)
    assert all(f"\n  {verb} " in said.err for verb in VERBS)
    assert said.err.endswith("\nerror: missing command, or flags of the agent (`trikubelet help agent` lists them)\n")


@pytest.mark.parametrize(
    "words",
    [
        "validate x.yaml",
        "apply -f x.yaml --to=/nowhere",
        "run x.yaml",
        "doctor --root-dir=rel",
        "config view -- --root-dir=rel",
        "reset --root-dir=rel",
        "--standalone --root-dir=rel",
    ],
)
def test_that_the_working_directory_is_gone_is_told_in_a_line(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert main(words.split())
    told = capsys.readouterr().err
    assert ("working directory is gone" in told, 1) == (True, told.count("\n")), told


@pytest.mark.parametrize(
    "error",
    [
        CommandFailed("tar: \x1b]0;title\a: Cannot stat"),
        PermissionError(errno.EACCES, "Permission denied", "\x1b[2J" + "n" * 100_000),
    ],
)
def test_what_a_container_chose_of_an_error_neither_moves_a_cursor_nor_fills_a_screen(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(cli_main, "runner", lambda _: fail)

    assert 1 == main(["get", "pods"])
    told = capsys.readouterr().err
    assert ("^[" in told, "\x1b" in told, len(told) < 600) == (True, False, True)


def test_the_version_is_reported_either_way(agent: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, 0) == (main(["version"]), main(["--version"]))
    assert f"trikubelet {__version__}\n" * 2 == capsys.readouterr().out
    assert [] == agent


def test_the_version_can_be_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["version", "-o", "json"])
    shown = json.loads(capsys.readouterr().out)
    assert __version__ == shown["version"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", shown["kubernetesVersion"])
    assert 0 == main(["version", "--output=yaml"])
    assert shown == yaml.safe_load(capsys.readouterr().out)


def test_kubelet_version_is_the_release_that_the_package_chose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chosen = tmp_path / "kubernetes-version"
    chosen.write_text("# pinned by this distribution\nv1.36.3\n")
    monkeypatch.setattr(release, "CHOSEN_FILE", chosen)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubelet", "--version"])

    assert (0, f"Kubernetes v1.36.3+trikubelet.{__version__}\n") == (main(), capsys.readouterr().out)
    assert 0 == main(["version", "-o", "json"])
    assert f"v1.36.3+trikubelet.{__version__}" == json.loads(capsys.readouterr().out)["reportedVersion"]
    chosen.write_text("latest\n")
    assert (1, "") == (main(), (told := capsys.readouterr()).out)
    assert f'{chosen}:1: "latest" is not a release of Kubernetes (write one version such as v1.36.3)' in told.err


def test_by_the_name_of_kubelet_the_version_is_upstreams_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubelet", "--version"])

    assert 0 == main()

    # As kubeadm reads it (GetKubeletVersion in its preflight checks).
    upstreams = r"Kubernetes v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-\w.+]*)?\n"
    assert re.fullmatch(upstreams, capsys.readouterr().out)


@pytest.mark.parametrize("word", ["help", "-h", "--help"])
def test_help_names_every_verb(agent: list[list[str]], capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert 0 == main([word])
    said = capsys.readouterr().out

    assert all(f"\n  {verb} " in said for verb in VERBS)
    assert (word == "--help", []) == ("--pod-manifest-path PATH" in said, agent)


def test_help_of_one_thing_is_its_own(agent: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "logs"], ["logs", "--help"], ["logs", "-h"], ["logs", "web", "--help"]):
        assert 0 == main(words)
        assert capsys.readouterr().out.startswith("usage: trikubelet logs ")
    assert 0 == main(["help", "agent"])
    assert capsys.readouterr().out.startswith("usage: trikubelet FLAGS\n")
    assert [] == agent


def test_help_behind_another_flag_is_printed_by_the_agent_itself(agent: list[list[str]]) -> None:
    """The packages call it so: it loads everything that an agent is made of."""
    assert (7, [["--v=0", "--help"]]) == (main(["--v=0", "--help"]), agent)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ('error: unknown command "gte" for "trikubelet" (did you mean "get"?)\n', "gte"),
        ('error: unknown command "zzz" for "trikubelet" (`trikubelet help` lists the commands)\n', "zzz"),
        ('error: unknown command "ps" for "trikubelet" (use `trikubelet get pods`)\n', "ps"),
    ],
)
def test_a_misspelt_verb_is_not_taken_for_an_agent(
    agent: list[list[str]], capsys: pytest.CaptureFixture[str], said: str, word: str
) -> None:
    assert 2 == main([word])
    assert 2 == main(["help", word])
    assert (said * 2, []) == (capsys.readouterr().err, agent)


@pytest.mark.parametrize("flags", ["--root-dir=x", "--root-dir x", "--standalone", "-n x"])
def test_a_verb_behind_flags_is_told_its_place(
    agent: list[list[str]], capsys: pytest.CaptureFixture[str], flags: str
) -> None:
    assert 2 == main([*flags.split(), "get", "pods"])
    assert ('error: the command "get" must come before its flags (trikubelet get …)\n', []) == (
        capsys.readouterr().err,
        agent,
    )


def test_a_flags_value_is_no_verb(agent: list[list[str]]) -> None:
    assert 7 == main(["--hostname-override", "get"])


@pytest.mark.parametrize("verb", ["get", "describe"])
def test_a_kind_alone_is_required(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert 2 == main([verb])
    assert re.match(r"error: missing argument: KIND;", capsys.readouterr().err)


@pytest.mark.parametrize("line", ["get gnomes", "get pods -o xml", "describe", "delete", "logs a b c", "cp a b"])
def test_wrong_words_for_a_verb_are_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert 2 == main(line.split())
    assert re.fullmatch(r"error: .+\n", capsys.readouterr().err)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_flag_it_does_not_know_in_one_line(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert 2 == main([verb, "--no-such-flag"])
    assert re.fullmatch(r"error: .+\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), BaseExceptionGroup("side by side", [OSError(9, "x"), KeyboardInterrupt()])]
)
def test_an_interrupted_verb_ends_as_the_shell_expects(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def interrupted(_argv: object) -> int:
        raise error

    monkeypatch.setattr(version, "run", interrupted)

    assert 130 == main(["version"])


def test_reader_that_leaves_causes_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "trikubelet", "version"], stdout=closed, stderr=subprocess.PIPE, check=False
        )

    assert (1, b"") == (done.returncode, done.stderr)


def test_get_pods_loads_nothing_that_only_the_agent_needs(tmp_path: Path) -> None:
    heavy = ["httpx", "h2", "grpclib", "google", "yaml", "inotify_simple"]
    heavy += ["trikubelet.pods", "trikubelet.sources", "trikubelet.node", "trikubelet.cri"]
    script = (
        "import sys; from trikubelet.cli.main import main\n"
        f"code = main(['get', 'pods', '--root-dir={tmp_path}'])\n"
        f"print(code, [name for name in {heavy} if name in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "1 []\n" == said.stdout


def test_validate_names_every_fault_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "web.yaml"
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  contaners: []\n")

    assert 1 == main(["validate", str(manifest)])
    assert f'{manifest}:5: spec.contaners: unknown field (did you mean "containers"?)' in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "expected"), [([], "{}: valid: 1 pod\n"), (["-q"], ""), (["--quiet"], "")])
def test_validate_has_a_line_for_a_valid_manifest_unless_it_is_to_be_quiet(
    flags: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "web.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app, image: app:1}]}\n"
    )

    assert 0 == main(["validate", *flags, str(manifest)])
    assert expected.format(manifest) == capsys.readouterr().out


def test_output_that_cannot_be_written_is_reported_in_a_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trikubelet", "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (1, "error: No space left on device\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize("line", ["--help", "help", "man", "get --help"])
def test_help_that_cannot_be_written_is_reported_in_a_line(line: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trikubelet", *line.split()], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert (1, b"error: No space left on device\n") == (done.returncode, done.stderr)


def test_closed_standard_files_are_no_traceback(tmp_path: Path) -> None:
    shell = f"exec {sys.executable} -m trikubelet"

    done = subprocess.run(["sh", "-c", f"{shell} help >&-"], capture_output=True, check=False)
    assert (1, b"error: Bad file descriptor\n") == (done.returncode, done.stderr)
    line = f"{shell} apply -f - --to={tmp_path} <&- 2>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert (1, b"") == (done.returncode, done.stdout)


def test_what_the_outputs_encoding_lacks_is_spelt_out(tmp_path: Path) -> None:
    (tmp_path / "grüß😀.yaml").write_text("kind: Pot\n")
    own = {**os.environ, "PYTHONIOENCODING": "latin-1"}

    done = subprocess.run(
        [sys.executable, "-m", "trikubelet", "validate", str(tmp_path)], env=own, capture_output=True, check=False
    )

    assert (1, b"") == (done.returncode, done.stderr)
    assert f"{tmp_path}/grüß\\U0001f600.yaml:1: kind".encode("latin-1") in done.stdout


def test_a_name_that_is_not_utf8_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["logs", "\udcff", "c", f"--socket={tmp_path}/none"])
    assert (
        "error: b'/logs/default/\\xff/c' is not UTF-8, so it cannot be sent to the agent\n" == capsys.readouterr().err
    )


async def test_a_command_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Misunderstood, match=r"^b'\\xff' is not UTF-8"):
        async with AgentClient("/none").upgraded("/exec/default/web/app", [("command", "\udcff")], "v4"):
            pass
