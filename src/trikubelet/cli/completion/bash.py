"""The script for bash.

bash splits words at ``=`` and ``:``, so ``--for=delete`` is three of them; here they are joined again. The candidates
depend on the word's place among the arguments, which is counted without flags and their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.app.flag_help import build_parser
from trikubelet.cli.completion.slots import Slot, Source, flags, slot, slots, takes_word, with_value
from trikubelet.cli.verbs import VERBS, options, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = r"""
_trikubelet_names() {
    trikubelet get "$1" --all-namespaces --output=name 2>/dev/null | cut -d/ -f2-
}

_trikubelet_containers() {
    trikubelet get pod "${1#*/}" --output='jsonpath={.spec.containers[*].name}' 2>/dev/null
}

_trikubelet() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    local words="" taking="" first="" behind="" files="" place=0 i
    if [[ $word == "=" ]]; then word=""
    elif [[ $before == "=" && $COMP_CWORD -gt 2 ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $verb in"""

_PLACES: Final = r"""
    esac
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        "=") i=$((i + 1)) ;;
        --) behind=yes ;;
        -*) if [[ " $taking " == *" ${COMP_WORDS[i]} "* && ${COMP_WORDS[i + 1]} != "=" ]]; then i=$((i + 1)); fi ;;
        *) place=$((place + 1)); if [[ $place -eq 1 ]]; then first=${COMP_WORDS[i]}; fi ;;
        esac
    done
    if [[ $COMP_CWORD -eq 1 && $word != -* ]]; then verb="" before=""
    elif [[ $verb == -* ]]; then verb="agent" before="" behind=yes; fi
    case "$verb $before" in"""

_TAIL: Final = r"""
    esac
    if [[ -z $files ]]; then compopt +o default 2>/dev/null || :; fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    if [[ ${COMPREPLY[*]} == *[=:] ]]; then compopt -o nospace 2>/dev/null || :; fi
}
complete -o default -F _trikubelet trikubelet"""


def script() -> Iterator[str]:
    """Yield the lines of the script."""
    found = {verb: options(parser_of(verb)) for verb in VERBS}
    yield _HEAD.removeprefix("\n")
    for verb, own in found.items():
        if taking := with_value(own):
            yield f'    {verb}) taking="{" ".join(taking)}" ;;'
    yield _PLACES.removeprefix("\n")
    for verb, own in found.items():
        for option in own:
            if takes_word(option):
                pattern = "|".join(f'"{verb} {name}"' for name in option.names)
                yield f"    {pattern}) {_offered(slot(option))} ;;"
    yield '    *) case "$verb/$behind/$place/$word" in'
    yield f'    //*) words="{" ".join([*VERBS, "help"])}" ;;'
    yield f'    help//0/*) words="{" ".join([*VERBS, "agent"])}" ;;'
    yield "    exec/yes/*) files=yes ;;"  # the words of a command in a container
    yield f'    */yes/*/-*) words="{" ".join(flags(options(build_parser())))}" ;;'
    yield "    */yes/*) files=yes ;;"
    for verb, own in found.items():
        yield f'    {verb}//*/-*) words="{" ".join(flags(own))}" ;;'
        places, repeats = slots(own)
        for number, one in enumerate(places):
            at = f"{verb}//*" if repeats and number == len(places) - 1 else f"{verb}//{number}/*"
            yield f"    {at}) {_offered(one)} ;;"
    yield "    esac ;;"
    yield _TAIL.removeprefix("\n")


def _offered(one: Slot) -> str:
    known = " ".join(one.words)
    match one.source:
        case Source.WORDS:
            return f'words="{known}"'
        case Source.FILES:
            return "files=yes"
        case Source.PODS:
            return f'words="{known}{" " if known else ""}$(_trikubelet_names pods)"'
        case Source.NAMES:
            return 'words="$(_trikubelet_names "$first")"'
        case Source.CONTAINERS:
            return 'words="$(_trikubelet_containers "$first")"'
        case Source.COPIED:
            return 'words="$(_trikubelet_names pods | sed "s/\\$/:/")"; files=yes'
