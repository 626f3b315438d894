"""The script for fish: a line for each condition and its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.app.flag_help import build_parser
from trikubelet.cli.completion.slots import Slot, Source, slot, slots, takes_word, with_value
from trikubelet.cli.verbs import VERBS, options, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.cli.verbs import Option

_HEAD: Final = r"""function __trikubelet_names
    trikubelet get $argv[1] --all-namespaces --output=name 2>/dev/null | string replace -r '^[^/]*/' ''
end
function __trikubelet_containers
    trikubelet get pod (string replace -r '.*/' '' -- $argv[1]) --output='jsonpath={.spec.containers[*].name}' \
        2>/dev/null | string split ' '
end
function __trikubelet_arguments # the arguments so far, without flags; given are the flags that take a value
    set -l words (commandline -opc)
    set -e words[1..2]
    set -l skip 0
    for word in $words
        if test $skip -eq 1
            set skip 0
        else if contains -- $word $argv
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end
function __trikubelet_verb
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end
function __trikubelet_at # VERB OPERATOR NUMBER -- [FLAG...]: compares how many arguments of the verb there are
    __trikubelet_verb $argv[1]; and test (count (__trikubelet_arguments $argv[4..-1])) $argv[2] $argv[3]
end
complete -c trikubelet -e"""

_COMPLETE: Final = "complete -c trikubelet"
_FIRST: Final = f"{_COMPLETE} -n 'test (count (commandline -opc)) -eq 1'"


def script() -> Iterator[str]:
    """Yield the lines of the script."""
    yield _HEAD
    for verb, what in VERBS.items():
        yield f"{_FIRST} -f -a {verb} -d {_quoted(what)}"
    yield f"{_FIRST} -f -a help -d 'explain a command'"
    yield f"{_COMPLETE} -n '__trikubelet_verb help' -f -a '{' '.join([*VERBS, 'agent'])}'"
    for option in options(build_parser()):
        yield f"{_FIRST}{_flag(option, '')}"
    for verb in VERBS:
        own = options(parser_of(verb))
        taking = " ".join(with_value(own))
        places, repeats = slots(own)
        for number, one in enumerate(places):
            compared = "-ge" if repeats and number == len(places) - 1 else "-eq"
            yield f"{_COMPLETE} -n '__trikubelet_at {verb} {compared} {number} -- {taking}'{_words(one, taking)}"
        if not places:
            yield f"{_COMPLETE} -n '__trikubelet_verb {verb}' -f"
        for option in own:
            if option.names:
                yield f"{_COMPLETE} -n '__trikubelet_verb {verb}'{_flag(option, taking)}"


def _flag(option: Option, taking: str) -> str:
    names = "".join(
        f" -l {name.removeprefix('--')}" if name.startswith("--") else f" -s {name.removeprefix('-')}"
        for name in option.names
    )
    value = f" -r{_words(slot(option), taking)}" if takes_word(option) else ""
    return f"{names}{value} -d {_quoted(option.help)}"


def _words(one: Slot, taking: str) -> str:
    known = " ".join(one.words)
    match one.source:
        case Source.WORDS:
            return f" -f -a '{known}'" if known else " -f"
        case Source.FILES:
            return ""
        case Source.PODS:
            return f" -f -a '{known}{' ' if known else ''}(__trikubelet_names pods)'"
        case Source.NAMES:
            return f" -f -a '(__trikubelet_names (__trikubelet_arguments {taking})[1])'"
        case Source.CONTAINERS:
            return f" -f -a '(__trikubelet_containers (__trikubelet_arguments {taking})[1])'"
        case Source.COPIED:
            return " -a '(__trikubelet_names pods | string replace -r \\'$\\' :)'"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
