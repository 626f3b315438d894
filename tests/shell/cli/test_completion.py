"""Completion for three shells, made of the table of verbs. The script for bash is run by bash, as the Tab key does."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from trikubelet.app.flag_help import build_parser
from trikubelet.cli.completion.slots import Slot, Source, slot, slots
from trikubelet.cli.main import main
from trikubelet.cli.verbs import VERBS, Option, options, parser_of

if TYPE_CHECKING:
    from pathlib import Path

AGENT = """#!/bin/sh
case "$*" in
"get pod web-n1 --output=jsonpath={.spec.containers[*].name}") echo app side ;;
"get pods --all-namespaces --output=name") echo pod/web-n1; echo pod/api-n1 ;;
"get nodes --all-namespaces --output=name") echo node/n1 ;;
"get volumes --all-namespaces --output=name") echo volume/web-n1/data ;;
*) echo "not understood: $*" ;;
esac
"""
KINDS = {"pods", "nodes", "events", "images", "volumes", "configmaps", "secrets"}
PODS = {"web-n1", "api-n1"}
FORMS = {"wide", "json", "yaml", "name", "jsonpath=", "custom-columns="}
GOALS = {"condition=", "phase=", "jsonpath=", "create", "delete"}


def script_for(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert 0 == main(["completion", shell])
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb_and_every_flag(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    script = script_for(capsys, shell)
    shown = script.replace(" -l ", " --") if shell == "fish" else script
    flags = [name for verb in VERBS for option in options(parser_of(verb)) for name in option.names]
    flags += [name for option in options(build_parser()) for name in option.names]

    assert [] == [verb for verb in VERBS if verb not in script]
    assert [] == [flag for flag in flags if flag.startswith("--") and flag not in shown]


@pytest.mark.parametrize(
    ("offered", "line"),
    [
        ({*VERBS, "help"}, ""),
        ({"completion", "config"}, "co"),
        ({*VERBS, "agent"}, "help|"),
        ({"port-forward"}, "help|port"),
        (KINDS, "get|"),
        ({"images"}, "get|im"),
        (KINDS, "get|-n|kube-system|"),
        (KINDS, "get|--namespace|=|kube-system|-A|"),
        (KINDS, "describe|"),
        (PODS, "get|pods|"),
        (PODS, "get|pods|-o|wide|web-n1|"),
        ({"n1"}, "describe|nodes|"),
        ({"web-n1/data"}, "get|volumes|"),
        ({"--output"}, "get|--out"),
        ({"--output"}, "get|pods|web-n1|--out"),
        (FORMS, "get|-o|"),
        (FORMS, "get|pods|--output|="),
        ({"jsonpath=", "json"}, "get|pods|--output|=|js"),
        (GOALS, "wait|web-n1|--for|"),
        (GOALS, "wait|web-n1|--for|="),
        ({"condition=", "create"}, "wait|web-n1|--for|=|c"),
        (PODS, "wait|web-n1|"),
        (PODS, "logs|"),
        ({"web-n1"}, "logs|we"),
        ({"app", "side"}, "logs|web-n1|"),
        ({"app", "side"}, "logs|-f|web-n1|-c|"),
        ({"app", "side"}, "exec|-it|web-n1|--container|="),
        (set(), "logs|-n|"),
        ({"pod", *PODS}, "delete|"),
        (PODS, "delete|pod|"),
        ({"pods", "node"}, "top|"),
        (PODS, "top|pods|"),
        ({"cpu", "memory"}, "top|pods|--sort-by|"),
        ({"bash"}, "completion|b"),
        ({"view"}, "config|"),
        ({"--given"}, "config|view|--g"),
        ({"--max-pods"}, "config|view|--|--max-p"),
        ({"--standalone"}, "--stand"),
        ({"--pod-manifest-path"}, "--standalone|--pod-man"),
        ({"--cert-dir"}, "doctor|-q|--|--v|=|4|--cert"),
        ({"web-n1:", "api-n1:"}, "cp|"),
        (set(), "version|"),
    ],
)
def test_bash_offers_what_fits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, offered: set[str], line: str
) -> None:
    found, _ = completed(script_for(capsys, "bash"), tmp_path, line)

    assert offered == found


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (True, "apply|-f|"),
        (True, "validate|"),
        (True, "cp|"),
        (True, "exec|web-n1|--|ca"),
        (True, "--config|"),
        (True, "get|--root-dir|"),
        (False, "get|"),
        (False, "get|pods|"),
        (False, "get|-n|"),
        (False, "logs|"),
        (False, "logs|web-n1|--tail|"),
        (False, "version|"),
        (False, ""),
    ],
)
def test_bash_offers_files_only_where_one_may_stand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: bool, line: str
) -> None:
    _, changed = completed(script_for(capsys, "bash"), tmp_path, line)

    assert files == ("+o default" not in changed)


def test_bash_adds_no_blank_behind_an_equals_sign(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = script_for(capsys, "bash")

    assert "-o nospace" in completed(script, tmp_path, "wait|w|--for|=|cond")[1]
    assert "-o nospace" not in completed(script, tmp_path, "wait|w|--for|=|del")[1]


def completed(script: str, place: Path, line: str) -> tuple[set[str], str]:
    """The words that are offered for the last of the line's, which bash has cut at ``=``, and the options of the
    completion that are changed."""
    said = place / "trikubelet"  # the agent that is asked for the names of its pods
    said.write_text(AGENT)
    said.chmod(0o755)
    words = line.split("|")
    asking = 'COMP_WORDS=(trikubelet "$@"); COMP_CWORD=$#; _trikubelet; printf "%s\\n" "${COMPREPLY[@]}"'
    noted = 'compopt() { echo "$*" >>"$NOTED"; }'

    done = subprocess.run(
        ["bash", "-euc", f"{script}\n{noted}\n{asking}", "bash", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{place}:/usr/bin:/bin", "NOTED": f"{place}/noted"},
    )

    assert (0, "") == (done.returncode, done.stderr)
    (place / "noted").touch()
    changed = (place / "noted").read_text()
    (place / "noted").unlink()
    return set(done.stdout.split()), changed


@pytest.mark.parametrize(
    ("files", "shell", "begins"),
    [
        (False, "zsh", "'--tail="),
        (True, "zsh", "'--root-dir="),
        (False, "fish", "complete -c trikubelet -n '__trikubelet_verb logs' -l tail"),
        (True, "fish", "complete -c trikubelet -n '__trikubelet_verb get' -l root-dir"),
    ],
)
def test_zsh_and_fish_offer_files_only_where_one_may_stand(
    capsys: pytest.CaptureFixture[str], files: bool, shell: str, begins: str
) -> None:
    line = next(line.strip() for line in script_for(capsys, shell).splitlines() if line.strip().startswith(begins))

    assert files == ("_files" in line if shell == "zsh" else " -f" not in line)


def test_zsh_answers_the_first_tab_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Read from $fpath, the whole file is the function's body; sourced, it says of whom it is the completion."""
    script = script_for(capsys, "zsh").splitlines()
    assert "#compdef trikubelet" == script[0]
    assert script[-1].startswith('if [ "$funcstack[1]" = _trikubelet ]; then _trikubelet "$@"; else compdef ')


def test_what_may_stand_is_known_by_the_placeholder() -> None:
    def option(value: str, *names: str) -> Option:
        return Option(names, value, (), "", repeats=False, alone=False)

    assert Slot(Source.WORDS, ("a", "b=")) == slot(option("a|b=TEMPLATE"))
    assert Slot(Source.WORDS) == slot(option("NAME=true|false,…", "--feature-gates"))
    assert Slot(Source.WORDS) == slot(option("NAME", "-n", "--namespace"))
    assert Slot(Source.CONTAINERS) == slot(option("NAME", "-c", "--container"))
    assert ([Slot(Source.PODS), Slot(Source.CONTAINERS)], False) == slots([option("POD"), option("CONTAINER")])
