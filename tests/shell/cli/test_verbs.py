"""The one table of verbs, and what is made of it: help and the manual page."""

from __future__ import annotations

import re
import shlex
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
from trikubelet.cli.manual import EXAMPLES
from trikubelet.cli.options import split_flags
from trikubelet.cli.verbs import VERBS, options, parser_of, runner


def said_by(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert 0 == main(words)
    return capsys.readouterr().out


@pytest.mark.parametrize("example", [command for _, command in EXAMPLES])
def test_every_example_of_the_manual_page_can_be_typed(example: str) -> None:
    _, first, *rest = shlex.split(example)
    if first.startswith("-"):
        assert () == parse_agent_flags([first, *rest]).faults
    else:
        assert parser_of(first).parse_intermixed_args(rest)


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


def test_the_manual_page_tells_of_every_verb_flag_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    page = said_by(capsys, "man").replace("\\-", "-")

    assert page.startswith(".TH TRIKUBELET 8 ")
    assert [] == [verb for verb in VERBS if f"\n.SS {verb}\n" not in page]
    flags = [name for option in options(build_parser()) for name in option.names]
    assert [] == [flag for flag in flags if flag not in page]
    assert "\\fB130\\fR\ninterrupted" in page
    sections = re.findall(r"^\.SH (.+)$", page, re.MULTILINE)
    assert ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"] == sections[-5:]
    assert [] == [verb for verb in VERBS if parser_of(verb).examples[0][1] not in page]
    assert [] == [line for line in page.splitlines() if line.startswith("'")]
    assert page.isascii(), "groff warns of other characters on a terminal for ASCII"
