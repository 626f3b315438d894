"""The one table of verbs, in the order of the help, and the modules of each verb's arguments and work.

``main`` dispatches by it; ``help``, ``completion`` and ``man`` are made of it and of the verbs' parsers, so that no
verb can be missing there. A new verb is a line in ``VERBS``, a module of ``cli/words`` with ``parser()`` and a module
of ``cli/commands`` with ``run(argv) -> int``. Modules are imported when they are needed: ``get pods`` must not wait for
modules of other verbs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from trikubelet.cli.arguments import Parser

VERBS: Final = {
    "get": "list pods, the node, events, images, volumes, configmaps or secrets",
    "describe": "show everything about a pod, the node, an event, an image, a volume, a configmap or a secret",
    "logs": "print the logs of a container",
    "wait": "wait until pods are ready, have ended or are gone",
    "apply": "add or replace manifests, which the agent then runs",
    "diff": "show what apply would change",
    "delete": "remove manifests, whose pods the agent then stops",
    "rollback": "bring back the version of a manifest before the last apply or delete",
    "top": "show the CPU and memory that pods or the node use",
    "exec": "run a command in a container",
    "attach": "connect to the main process of a container",
    "port-forward": "forward local ports to ports of a pod",
    "cp": "copy files to or from a container",
    "restart": "restart the containers of a pod",
    "run": "run one pod until it ends, without a running agent",
    "reset": "stop and remove all pods of this node",
    "validate": "check manifests; needs no agent",
    "doctor": "find problems of this node, and how to fix them",
    "config": "show the effective configuration, and where each value comes from",
    "kubeconfig": "print a kubeconfig with which kubectl reads from the agent",
    "completion": "print a completion script for bash, zsh or fish",
    "man": "print the manual page",
    "fake-runtime": "serve a container runtime that only simulates containers, to try and measure agents",
    "hollow": "run many simulated nodes in one process, to test schedulers and control planes",
    "bench": "measure the relist next to upstream's and others",
    "version": "print the version",
}

EXIT_CODES: Final = {
    "every verb": {
        "0": "success",
        "1": "failure; the last line on standard error gives the reason",
        "2": "invalid usage",
        "130": "interrupted",
    },
    "attach": {"N": "exit code of the container's process"},
    "diff": {"1": "differences were found", "3": "failure; the last line on standard error gives the reason"},
    "doctor": {"1": "errors were found", "3": "only warnings were found"},
    "exec": {"N": "exit code of the command"},
    "run": {"N": "exit code of the first container that failed", "124": "the timeout expired; the pod was stopped"},
    "the agent": {
        "0": "it received a signal to end",
        "1": "it did not start, could not continue, or a second signal ended it at once; the last line on standard "
        "error gives the reason",
    },
}
"""The exit codes. A verb has those of every verb, too."""


class Option(NamedTuple):
    """One flag or argument of a verb, as its parser has it. ``names`` is empty for an argument; ``value``: the
    placeholder of the value, empty for a switch; ``choices``: all possible values, if known; ``repeats``: it may be
    given several times; ``alone``: a flag that may be given without its value."""

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str
    repeats: bool
    alone: bool


def runner(verb: str) -> Callable[[Sequence[str]], int]:
    """Return the function that runs a verb."""
    run: Callable[[Sequence[str]], int] = _module("commands", verb).run
    return run


def parser_of(verb: str) -> Parser:
    """Return the parser of a verb's arguments."""
    made: Parser = _module("words", verb).parser()
    return made


def _module(package: str, verb: str) -> ModuleType:
    return import_module(f"trikubelet.cli.{package}.{verb.replace('-', '_')}")


def options(parser: argparse.ArgumentParser) -> list[Option]:
    """Return the flags and arguments of a parser, without ``--help``. Reads argparse's private list, the only one there
    is."""
    found = []
    for action in parser._actions:
        if "--help" in action.option_strings:
            continue
        takes_value = action.nargs != 0
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = (metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()) if takes_value else ""
        help_ = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        repeats = action.nargs in ("*", "+") or isinstance(action.default, list) or "repeated" in help_
        choices = tuple(map(str, action.choices or ()))
        alone = action.nargs == "?" and bool(action.option_strings)
        found.append(Option(tuple(action.option_strings), value, choices, help_, repeats, alone))
    return found
