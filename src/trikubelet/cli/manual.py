"""The manual page, in the language of man(7), made of the table of verbs, their parsers and the agent's flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trikubelet import __version__
from trikubelet.app.flag_help import AGENT_EXAMPLES, build_parser
from trikubelet.cli.verbs import EXIT_CODES, VERBS, options, parser_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from trikubelet.cli.verbs import Option

EXAMPLES: Final = (
    *AGENT_EXAMPLES,
    ("Show which pods run on this node, and in which state", "trikubelet get pods -A"),
    ("Add a pod", "trikubelet apply -f web.yaml"),
    ("Show why a pod does not run", "trikubelet describe pod web-node1"),
    ("Find problems of this node", "trikubelet doctor -q"),
)
"""Examples of the whole program: pairs of a description and a command."""

FILES: Final = (
    ("/var/lib/kubelet", "root directory of root's agent: state of pods, certificates and the agent's socket"),
    ("/var/lib/trikubelet", "the same where root's agent uses a runtime inside itself (embedded:, fake:)"),
    ("~/.local/state/trikubelet", "root directory of an ordinary user's agent"),
    ("ROOT_DIRECTORY/trikubelet.sock", "socket on which the agent answers commands; open to its own user and root"),
    ("ROOT_DIRECTORY/last-start.json", "command line of the last agent, without secrets"),
    ("/etc/kubernetes/manifests", "manifests of root's static pods, unless the configuration names another place"),
    ("~/.config/trikubelet/manifests", "the same of an ordinary user's agent"),
    ("/var/log/pods", "logs of containers; on the embedded runtime they are in the root directory"),
    ("/etc/trikubelet/config.yaml", "configuration of the service of the package"),
    ("/etc/trikubelet/kubernetes-version", "the release of Kubernetes that the agent reports"),
    ("/etc/default/trikubelet", "flags of the service of the package"),
)

ENVIRONMENT: Final = (
    ("XDG_STATE_HOME, XDG_CONFIG_HOME, XDG_RUNTIME_DIR", "where an ordinary user's agent keeps its files"),
    ("HOME", "where it keeps them if these are not set; also the place of docker's registry credentials"),
    ("NO_COLOR", "if not empty, output has no colours"),
    ("TERM", "type of the terminal, for the live view of top and for exec -t"),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "set by systemd, which the agent notifies of its state"),
    (
        "SHIV_ROOT",
        "where the single file unpacks itself (default: /var/cache/trikubelet, for users ~/.cache/trikubelet)",
    ),
)


def page() -> Iterator[str]:
    """Yield the page's lines."""
    yield f'.TH TRIKUBELET 8 "" "trikubelet {__version__}" "System Administration"'
    yield from (".SH NAME", r"trikubelet \- a Kubernetes node agent, and its command line")
    yield from (".SH SYNOPSIS", ".B trikubelet", r"\fIFLAGS\fR", ".br", ".B trikubelet")
    yield r"\fICOMMAND\fR [\fIarguments\fR]"
    yield ".SH DESCRIPTION"
    yield "With flags only, it is the agent, which runs the pods of this machine. Most commands ask a running agent"
    yield "over its Unix socket, which only the agent's own user and root may open. At a terminal, without arguments,"
    yield "it prints its help."
    yield ".SH COMMANDS"
    for verb, what in VERBS.items():
        made = parser_of(verb)
        yield from (f".SS {_escaped(verb)}", _escaped(_sentence(made.description or what)), ".PP")
        yield from (r"\fB" + _escaped(_usage(made)) + r"\fR",)
        for option in options(made):
            yield from _item(option)
        if made.notes:
            yield from (".PP", _escaped(_sentence(made.notes)))
        yield from _examples(made.examples)
    yield ".SH THE AGENT'S FLAGS"
    for option in options(build_parser()):
        yield from _item(option)
    yield ".SH EXIT STATUS"
    for who, codes in EXIT_CODES.items():
        yield from (".SS " + _escaped(who),)
        for code, meaning in codes.items():
            yield from (".TP", rf"\fB{code}\fR", _escaped(meaning))
    yield ".SH ENVIRONMENT"
    yield from _terms(ENVIRONMENT)
    yield ".SH FILES"
    yield from _terms(FILES)
    yield ".SH EXAMPLES"
    yield from _examples(EXAMPLES)
    yield from (".SH SEE ALSO", r"\fBkubectl\fR(1), \fBsystemctl\fR(1), \fBcontainerd\fR(8), \fBcrictl\fR(8)")


def _usage(made: argparse.ArgumentParser) -> str:
    return re.sub(r"\s+", " ", made.format_usage().removeprefix("usage: ")).strip()


def _item(option: Option) -> Iterator[str]:
    parts = [rf"\fB{_escaped(', '.join(option.names))}\fR"] if option.names else []
    parts += [rf"\fI{_escaped(option.value)}\fR"] if option.value else []
    yield from (".TP", " ".join(parts), _escaped(_sentence(option.help)))


def _terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in pairs:
        yield from (".TP", rf"\fB{_escaped(term)}\fR", _escaped(meaning))


def _examples(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for what, command in pairs:
        yield from (".PP", f"{_escaped(what)}:", ".PP", ".RS 4", ".nf", _escaped(command), ".fi", ".RE")


def _sentence(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _escaped(text: str) -> str:
    """Return text that man prints unchanged: ASCII, and no line begins with a control character."""
    shown = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti").replace("…", "...")
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown
