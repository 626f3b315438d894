"""The one table of verbs, and what is made of it: completion for three shells and the manual page."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from trikubelet.app.flag_help import build_parser
from trikubelet.app.flags import parse_agent_flags
from trikubelet.benchmark.lineup import PEERS
from trikubelet.benchmark.measure import Rules
from trikubelet.cli import commands
from trikubelet.cli.arguments import Later
from trikubelet.cli.commands.bench import _GRIDS
from trikubelet.cli.main import main
from trikubelet.cli.options import split_flags
from trikubelet.cli.verbs import VERBS, options, parser_of, runner


def said_by(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert 0 == main(words)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "example"), [(verb, command) for verb in VERBS for _, command in parser_of(verb).examples]
)
def test_every_example_of_the_help_can_be_typed(verb: str, example: str) -> None:
    ours = re.search(r"trikubelet ([^|<>)]+)", example)
    assert ours is not None
    first, *rest = shlex.split(ours[1])
    own, behind = split_flags(rest)
    args, others = parser_of(verb).parse_known_intermixed_args(own)

    assert (verb, []) == (first, others if verb != "hollow" else [])
    flags = [*others, *([] if verb == "exec" else behind or ())]
    assert () == parse_agent_flags(flags).faults
    assert args is not None


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_examples_and_its_usage_names_every_flag(verb: str) -> None:
    made = parser_of(verb)
    usage = made.format_usage()

    assert [] == [option.names for option in options(made) if option.names and not set(option.names) & _words(usage)]
    assert made.examples
    assert f"  {made.examples[0][1]}\n" in made.format_help()


def _words(usage: str) -> set[str]:
    return set(re.findall(r"--?[a-z][-a-z]*|-[A-Z]", usage))


def test_readers_that_are_imported_when_there_is_a_value_exist() -> None:
    readers = [action.type for verb in VERBS for action in parser_of(verb)._actions if isinstance(action.type, Later)]

    assert len(readers) > 10
    assert all(callable(reader.reader()) for reader in readers)


def test_the_words_of_bench_are_those_of_the_benchmark() -> None:
    made = parser_of("bench")
    rules = Rules()

    assert list(PEERS) == made.get_default("peers")
    assert (rules.rounds_max, rules.seed) == (made.get_default("rounds"), made.get_default("seed"))
    (grids,) = (option.choices for option in options(made) if option.names == ("--grid",))
    assert tuple(_GRIDS) == grids


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_parser_that_goes_by_its_name_and_tells_of_each_word(verb: str) -> None:
    made = parser_of(verb)

    assert f"trikubelet {verb}" == made.prog
    assert made.description
    assert [] == [option for option in options(made) if not option.help]
    assert callable(runner(verb))


def test_every_module_that_can_be_spoken_is_in_the_table() -> None:
    modules = {path.stem.replace("_", "-") for path in Path(commands.__path__[0]).glob("*.py")}
    speaking = {name for name in modules if "\ndef run(argv: Sequence[str]) -> int:" in _source(name)}

    assert set(VERBS) == speaking


def _source(name: str) -> str:
    return (Path(commands.__path__[0]) / f"{name.replace('-', '_')}.py").read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb_and_every_flag(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    script = said_by(capsys, "completion", shell)
    shown = script.replace(" -l ", " --") if shell == "fish" else script
    flags = [name for verb in VERBS for option in options(parser_of(verb)) for name in option.names]
    flags += [name for option in options(build_parser()) for name in option.names]

    assert [] == [verb for verb in VERBS if verb not in script]
    assert [] == [flag for flag in flags if flag.startswith("--") and flag not in shown]


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        ({"get", "help"}, ["", ""][:1]),
        ({"completion", "config"}, ["co"]),
        ({"--output"}, ["get", "--out"]),
        ({"images"}, ["get", "im"]),
        ({"bash"}, ["completion", "b"]),
        ({"port-forward"}, ["help", "port"]),
        ({"--standalone"}, ["--stand"]),
        ({"web-n1"}, ["logs", "we"]),
        ({"web-n1"}, ["delete", "pod", "we"]),
        ({"wide", "json", "yaml", "name", "jsonpath=", "custom-columns="}, ["get", "-o", ""]),
        ({"condition=", "phase=", "jsonpath=", "create", "delete"}, ["wait", "web-n1", "--for", ""]),
        (set(), ["apply", "-f", ""]),  # then bash offers files
    ],
)
def test_bash_offers_what_fits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, offered: set[str], words: list[str]
) -> None:
    said = tmp_path / "trikubelet"  # the agent that is asked for the names of its pods
    said.write_text("#!/bin/sh\necho pod/web-n1\n")
    said.chmod(0o755)
    script = said_by(capsys, "completion", "bash")
    quoted = " ".join(f"'{word}'" for word in words)
    asking = (
        f"COMP_WORDS=(trikubelet {quoted}); COMP_CWORD={len(words)}; _trikubelet; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )

    done = subprocess.run(
        ["bash", "-euc", f"{script}\n{asking}"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert (0, "") == (done.returncode, done.stderr)
    found = set(done.stdout.split())
    assert offered <= found if words == [""] else offered == found


@pytest.mark.parametrize(
    ("shell", "name", "files"),
    [
        ("bash", '"get -n"|"get --namespace"', False),
        ("bash", '"apply -f"|"apply --filename"', True),
        ("zsh", '"logs --tail"', False),
        ("zsh", '"get --root-dir"', True),
        ("fish", "'__fish_seen_subcommand_from logs' -l tail", False),
        ("fish", "'__fish_seen_subcommand_from get' -l root-dir", True),
    ],
)
def test_files_are_offered_only_where_one_may_stand(
    capsys: pytest.CaptureFixture[str], shell: str, name: str, files: bool
) -> None:
    offers = {"bash": lambda line: "compopt +o default" not in line, "zsh": lambda line: "_files" in line}
    (line,) = (line for line in said_by(capsys, "completion", shell).splitlines() if name in line)

    assert files == offers.get(shell, lambda line: " -r " in line)(line)


def test_zsh_answers_the_first_tab_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Read from $fpath, the whole file is the function's body; sourced, it says of whom it is the completion."""
    script = said_by(capsys, "completion", "zsh").splitlines()
    assert "#compdef trikubelet" == script[0]
    assert script[-1].startswith('if [ "$funcstack[1]" = _trikubelet ]; then _trikubelet "$@"; else compdef ')


def test_the_manual_page_tells_of_every_verb_flag_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    page = said_by(capsys, "man").replace("\\-", "-")

    assert page.startswith(".TH TRIKUBELET 8 ")
    assert [] == [verb for verb in VERBS if f"\n.SS {verb}\n" not in page]
    flags = [name for option in options(build_parser()) for name in option.names]
    assert [] == [flag for flag in flags if flag not in page]
    assert "\\fB130\\fR\ninterrupted" in page
    assert [] == [line for line in page.splitlines() if line.startswith("'")]
