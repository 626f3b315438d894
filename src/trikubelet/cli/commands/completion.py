"""``trikubelet completion bash|zsh|fish``: a script for the shell, made of the table of verbs and their parsers.

The script knows verbs, flags and fixed choices by itself; the names of pods it asks the running agent for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.app.flag_help import build_parser
from trikubelet.cli.verbs import VERBS, options, parser_of
from trikubelet.cli.words.completion import parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.cli.verbs import Option

_PODS: Final = "$(trikubelet get pods --all-namespaces --output=name 2>/dev/null | cut -d/ -f2)"
_POD_WORDS: Final = ("POD", "NAME", "pod NAME")
"""What the parsers call an argument that is the name of a pod."""
_FILE_WORDS: Final = ("FILE", "DIR", "PATH", "COMMAND", "[[NAMESPACE/]POD:]PATH")
"""The same of one that may be a file."""
_NO_FILES: Final = "compopt +o default 2>/dev/null || :"


def run(argv: Sequence[str]) -> int:
    """Carry out ``completion``; always 0."""
    args = parser().parse_args(argv)
    print("\n".join(_SCRIPTS[args.shell]()))
    return 0


def _flags(found: Sequence[Option]) -> list[str]:
    return [name for option in found for name in option.names]


def _words(found: Sequence[Option]) -> list[str]:
    """What may stand where an argument does."""
    return [choice for option in found if not option.names for choice in option.choices]


def _values(option: Option) -> list[str]:
    """What may stand behind a flag, as far as that is known: ``a|b=TEMPLATE`` is a and b=."""
    choices = option.choices or (option.value.split("|") if "|" in option.value else ())
    return [one[: one.index("=") + 1] if "=" in one else one for one in choices]


def _behind_flags(verb: str, found: Sequence[Option]) -> Iterator[tuple[str, Option]]:
    """A shell's pattern of the verb and the word before, where that is a flag with a value."""
    for option in found:
        if option.names and option.value:
            yield "|".join(f'"{verb} {name}"' for name in option.names), option


def _takes_files(found: Sequence[Option]) -> bool:
    return any(not option.names and option.value in _FILE_WORDS for option in found)


def _takes_pods(found: Sequence[Option]) -> bool:
    return any(not option.names and option.value in _POD_WORDS for option in found)


def _bash() -> Iterator[str]:
    yield "_trikubelet() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} words=""'
    yield '    case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD - 1]}" in'
    for verb in VERBS:
        for pattern, option in _behind_flags(verb, options(parser_of(verb))):
            offered = f"""mapfile -t COMPREPLY < <(compgen -W "{" ".join(_values(option))}" -- "$word")"""
            if option.value not in _FILE_WORDS:
                offered += f"; {_NO_FILES}"
            yield f"    {pattern}) {offered}; return ;;"
    yield "    esac"
    yield '    case "${COMP_WORDS[1]}" in'
    for verb in VERBS:
        found = options(parser_of(verb))
        pods = f" {_PODS}" if _takes_pods(found) else ""
        files = "" if _takes_files(found) else f"; {_NO_FILES}"
        yield f'    {verb}) words="{" ".join([*_words(found), *_flags(found)])}{pods}"{files} ;;'
    yield f'    help) words="{" ".join(VERBS)}"; {_NO_FILES} ;;'
    yield f'    -*) words="{" ".join(_flags(options(build_parser())))}" ;;'
    yield "    esac"
    yield '    if [ "$COMP_CWORD" -eq 1 ] && [[ $word != -* ]]; then'
    yield f'        words="{" ".join([*VERBS, "help"])}"'
    yield "    fi"
    yield '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
    yield "}"
    yield "complete -o default -F _trikubelet trikubelet"


def _zsh() -> Iterator[str]:
    yield "#compdef trikubelet"
    yield "_trikubelet() {"
    yield "    local -a verbs pods"
    yield "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then"
    yield f"        verbs=({' '.join(_quoted(f'{verb}:{what}') for verb, what in VERBS.items())})"
    yield "        _describe verb verbs"
    yield "        return"
    yield "    fi"
    yield '    case "$words[2] $words[CURRENT-1]" in'
    for verb in VERBS:
        for pattern, option in _behind_flags(verb, options(parser_of(verb))):
            offered = f"compadd -- {' '.join(values)}" if (values := _values(option)) else ":"
            yield f"    {pattern}) {'_files' if option.value in _FILE_WORDS else offered}; return ;;"
    yield "    esac"
    yield '    case "$words[2]" in'
    for verb in VERBS:
        found = options(parser_of(verb))
        pods = f'; pods=(${{(f)"{_PODS}"}}); compadd -a pods' if _takes_pods(found) else ""
        files = "; _files" if _takes_files(found) else ""
        yield f"    {verb}) compadd -- {' '.join([*_words(found), *_flags(found)])}{pods}{files} ;;"
    yield f"    help) compadd -- {' '.join(VERBS)} ;;"
    yield f"    -*) compadd -- {' '.join(_flags(options(build_parser())))}; _files ;;"
    yield "    esac"
    yield "}"
    # From $fpath the file is read at the first Tab, as the function's body: that one wants an answer too.
    yield 'if [ "$funcstack[1]" = _trikubelet ]; then _trikubelet "$@"; else compdef _trikubelet trikubelet; fi'


def _fish() -> Iterator[str]:
    yield "complete -c trikubelet -e"
    for verb, what in VERBS.items():
        yield f"complete -c trikubelet -n __fish_use_subcommand -f -a {verb} -d {_quoted(what)}"
    yield f"complete -c trikubelet -n '__fish_seen_subcommand_from help' -f -a '{' '.join(VERBS)}'"
    for option in options(build_parser()):
        yield f"complete -c trikubelet -n __fish_use_subcommand{_fish_option(option)}"
    for verb in VERBS:
        found = options(parser_of(verb))
        here = f"complete -c trikubelet -n '__fish_seen_subcommand_from {verb}'"
        if words := _words(found):
            yield f"{here} -f -a '{' '.join(words)}'"
        if _takes_pods(found):
            yield f"{here} -f -a '({_PODS.removeprefix('$(').removesuffix(')')})'"
        for option in found:
            if option.names:
                yield f"{here}{_fish_option(option)}"


def _fish_option(option: Option) -> str:
    names = "".join(
        f" -l {name.removeprefix('--')}" if name.startswith("--") else f" -s {name.removeprefix('-')}"
        for name in option.names
    )
    value = " -r" if option.value in _FILE_WORDS else f" -x -a '{' '.join(_values(option))}'" if option.value else ""
    return f"{names}{value} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


_SCRIPTS: Final[dict[str, Callable[[], Iterator[str]]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
