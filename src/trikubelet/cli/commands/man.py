"""``trikubelet man``: the manual page, made of the table of verbs, their parsers and the agent's flags.

trikubelet man | man -l -
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from trikubelet import __version__
from trikubelet.app.flag_help import build_parser
from trikubelet.cli.verbs import EXIT_CODES, VERBS, options, parser_of
from trikubelet.cli.words.man import parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.cli.verbs import Option


def run(argv: Sequence[str]) -> int:
    """Carry out ``man``; always 0."""
    parser().parse_args(argv)
    print("\n".join(page()))
    return 0


def page() -> Iterator[str]:
    """The page's lines, in man's language."""
    yield f'.TH TRIKUBELET 8 "" "trikubelet {__version__}" "System Administration"'
    yield from (".SH NAME", r"trikubelet \- a Kubernetes node agent, and its command line")
    yield from (".SH SYNOPSIS", ".B trikubelet", r"[\fIflags\fR]", ".br", ".B trikubelet")
    yield r"\fIVERB\fR [\fIarguments\fR]"
    yield ".SH DESCRIPTION"
    yield "Without a verb it is the agent, which runs the pods of this machine. A verb asks a running agent, over its"
    yield "Unix socket, which only the agent's own user and root may open."
    yield ".SH VERBS"
    for verb, what in VERBS.items():
        made = parser_of(verb)
        yield from (f".SS {_escaped(verb)}", _escaped(_sentence(made.description or what)), ".PP")
        yield from (r"\fB" + _escaped(_usage(made)) + r"\fR",)
        for option in options(made):
            yield from _item(option)
    yield ".SH THE AGENT'S FLAGS"
    for option in options(build_parser()):
        yield from _item(option)
    yield ".SH EXIT STATUS"
    for who, codes in EXIT_CODES.items():
        yield from (".SS " + _escaped(who),)
        for code, meaning in codes.items():
            yield from (".TP", rf"\fB{code}\fR", _escaped(meaning))


def _usage(made: argparse.ArgumentParser) -> str:
    return re.sub(r"\s+", " ", made.format_usage().removeprefix("usage: ")).strip()


def _item(option: Option) -> Iterator[str]:
    parts = [rf"\fB{_escaped(', '.join(option.names))}\fR"] if option.names else []
    parts += [rf"\fI{_escaped(option.value)}\fR"] if option.value else []
    yield from (".TP", " ".join(parts), _escaped(_sentence(option.help)))


def _sentence(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _escaped(text: str) -> str:
    """Text that man prints as it is: no line begins with a control character."""
    shown = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown
