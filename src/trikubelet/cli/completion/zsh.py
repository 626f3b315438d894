"""The script for zsh, in the words of its ``_arguments``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trikubelet.app.flag_help import build_parser
from trikubelet.cli.completion.slots import Slot, Source, slot, slots, takes_word
from trikubelet.cli.verbs import VERBS, options, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.cli.verbs import Option

_HEAD: Final = r"""#compdef trikubelet
_trikubelet_names() {
    local -a found
    found=(${(f)"$(trikubelet get $1 --all-namespaces --output=name 2>/dev/null | cut -d/ -f2-)"})
    compadd -a found
    if (( $# > 1 )); then compadd -- ${@[2,-1]}; fi
}
_trikubelet_copied() {
    local -a found
    found=(${(f)"$(trikubelet get pods --all-namespaces --output=name 2>/dev/null | cut -d/ -f2-)"})
    compadd -S : -a found
    _files
}
_trikubelet_containers() {
    local -a found
    found=(${=$(trikubelet get pod ${1#*/} --output='jsonpath={.spec.containers[*].name}' 2>/dev/null)})
    compadd -a found
}
_trikubelet_flags() {
    _arguments -s"""

_VERBS: Final = r"""}
_trikubelet() {
    local -a verbs line
    local verb=$words[2]
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then"""

_TAIL: Final = r"""    esac
}
# From $fpath the file is read at the first Tab, as the function's body: that one wants an answer too.
if [ "$funcstack[1]" = _trikubelet ]; then _trikubelet "$@"; else compdef _trikubelet trikubelet; fi"""

_NEXT: Final = " \\\n        "


def script() -> Iterator[str]:
    """Yield the lines of the script."""
    yield _HEAD + _NEXT + _NEXT.join(_flag(option) for option in options(build_parser()))
    yield _VERBS
    known = {**VERBS, "help": "explain a command"}
    yield f"        verbs=({' '.join(_quoted(f'{verb}:{what}') for verb, what in known.items())})"
    yield "        _describe command verbs"
    yield "        return"
    yield "    fi"
    yield "    if [[ $verb == -* ]]; then _trikubelet_flags; return; fi"
    yield "    if [[ $verb != exec ]] && (( ${words[(i)--]} < CURRENT )); then _trikubelet_flags; return; fi"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $verb in"
    for verb in VERBS:
        own = options(parser_of(verb))
        specs = [_flag(option) for option in own if option.names]
        places, repeats = slots(own)
        for number, one in enumerate(places):
            at = "*" if repeats and number == len(places) - 1 else str(number + 1)
            specs.append(_quoted(f"{at}: :{_action(one)}"))
        yield f"    {verb}) _arguments -s{_NEXT}{_NEXT.join(specs) or '1:'} ;;"
    yield f"    help) compadd -- {' '.join([*VERBS, 'agent'])} ;;"
    yield _TAIL


def _flag(option: Option) -> str:
    """Return one flag, in the syntax of ``_arguments``: it excludes itself under its other names, unless it may be
    repeated."""
    about = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    value = f": :{_action(slot(option))}" if takes_word(option) else ""
    names = [_with_value(name) if value else name for name in option.names]
    alone = "*" if option.repeats else f"({' '.join(option.names)})" if len(names) > 1 else ""
    if len(names) == 1:
        return _quoted(f"{alone}{names[0]}[{about}]{value}")
    return f"{_quoted(alone)}{{{','.join(names)}}}{_quoted(f'[{about}]{value}')}"


def _with_value(name: str) -> str:
    return f"{name}=" if name.startswith("--") else f"{name}+"


def _action(one: Slot) -> str:
    known = " ".join(re.sub(r"([=:()])", r"\\\1", word) for word in one.words)
    match one.source:
        case Source.WORDS:
            return f"({known})" if known else " "
        case Source.FILES:
            return "_files"
        case Source.PODS:
            return f"{{_trikubelet_names {' '.join(['pods', *one.words])}}}"  # in braces it is called as it stands
        case Source.NAMES:
            return "{_trikubelet_names $line[1]}"
        case Source.CONTAINERS:
            return "{_trikubelet_containers $line[1]}"
        case Source.COPIED:
            return "_trikubelet_copied"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
