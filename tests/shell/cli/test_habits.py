"""Commands of other programs: each is answered with what to type here, never with a command that does harm."""

from __future__ import annotations

import re
import shlex

import pytest

from trikubelet.cli.habits import CAREFUL, HINTS, hint
from trikubelet.cli.main import VERBS
from trikubelet.cli.options import split_flags
from trikubelet.cli.verbs import parser_of

WORDS = [*VERBS, "help"]


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ("use `trikubelet get pods`", "ps"),
        ("use `trikubelet get images`", "images"),
        ("use `trikubelet apply -f FILE`", "create"),
        ("use `trikubelet apply -f FILE`", "up"),
        ("use `trikubelet delete pod NAME`", "rm"),
        ("use `trikubelet get pods` for the pods, `trikubelet doctor` for the node", "status"),
        ("`systemctl stop trikubelet` stops the agent", "stop"),
        ("use `trikubelet restart POD`", "rollout"),
        ("edit the manifest", "edit"),
        ('did you mean "describe"?', "desribe"),
        ('did you mean "delete"?', "delet"),
        ('did you mean "restart"?', "restrat"),
        ('did you mean "port-forward"?', "portforward"),
    ],
)
def test_a_habit_is_answered_with_what_to_type_here(told: str, word: str) -> None:
    assert told in hint(word, WORDS)


@pytest.mark.parametrize("word", ["stat", "state", "rein", "resets-all", "deploy", "elete-all", "redo"])
def test_a_command_that_changes_what_runs_is_not_suggested_for_a_word_that_is_only_like_it(word: str) -> None:
    assert not any(f'"{verb}"' in hint(word, WORDS) for verb in CAREFUL)


def test_no_command_of_ours_is_taken_for_a_habit() -> None:
    assert set() == set(HINTS) & set(WORDS)


@pytest.mark.parametrize("told", sorted(set(HINTS.values())))
def test_what_a_hint_names_can_be_typed(told: str) -> None:
    for command in re.findall(r"`(trikubelet [^`]+)`", told):
        _, verb, *rest = shlex.split(command.replace("PORT", "80"))
        if verb in VERBS and rest:
            parser_of(verb).parse_intermixed_args(split_flags(rest)[0])
        assert verb in WORDS or verb.startswith("--")
