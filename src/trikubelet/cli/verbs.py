"""The one table of verbs: what can be said, in the order the help has it, and where each verb's arguments and work are.

``main`` speaks by it; ``help``, ``completion`` and ``man`` are made of it and of the verbs' parsers, so that none of
them can be forgotten. A new verb is a line in ``VERBS`` and a module of ``cli/commands`` with ``parser()`` and
``run(argv) -> int``. Modules are imported when they are needed: ``get pods`` does not wait for what only others need.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import ModuleType

VERBS: Final = {
    "get": "pods, the node, events, images and volumes, as tables or objects",
    "describe": "all about a pod, the node, an event, an image or a volume",
    "logs": "what a container wrote",
    "wait": "until pods are ready, ended or gone",
    "apply": "put manifests where the agent finds them, once they have no fault",
    "delete": "take manifests away, and their pods with them",
    "top": "what pods, or the node, use of processors and memory",
    "exec": "a command in a container",
    "attach": "to a container's own process",
    "port-forward": "local ports to ports of a pod",
    "cp": "files to or out of a container",
    "restart": "containers of a pod, with their hooks and their grace",
    "run": "one pod to its end, without an agent; ends with its exit code",
    "reset": "end every pod of this node, which is given up",
    "validate": "find every fault of manifest files; needs no agent",
    "doctor": "what is wrong with this node, and how to mend it",
    "config": "the configuration that holds, and where each value was given",
    "kubeconfig": "how kubectl asks this node, where the agent lets it",
    "completion": "words for the Tab key of bash, zsh or fish",
    "man": "this program's manual page",
    "fake-runtime": "a container runtime without containers, for trying and measuring agents",
    "hollow": "many nodes in one process, whose containers only pretend, for testing schedulers and control planes",
    "bench": "the relist beside upstream's and others, measured",
    "version": "which trikubelet this is",
}

EXIT_CODES: Final = {
    "every verb": {
        "0": "done",
        "1": "it could not be done, and why is the last line on standard error",
        "2": "the words were not understood",
        "130": "interrupted",
    },
    "attach": {"N": "that of the container's process"},
    "doctor": {"1": "something is wrong", "3": "nothing but warnings"},
    "exec": {"N": "that of the command"},
    "run": {"N": "that of the first container that failed", "124": "its time was over, and it was stopped"},
    "the agent": {
        "0": "it was asked to end",
        "1": "it did not start, could not go on, or was ended at once by a second signal, and why is the last line on "
        "standard error",
    },
}
"""What is ended with, by who ends; a verb has those of every verb besides."""


@dataclass(frozen=True, slots=True)
class Option:
    """One flag or argument of a verb, as its parser has it. ``names`` is empty for an argument; ``value`` what stands
    for the value, empty for a switch; ``choices`` all it may be, where they are known."""

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str


def runner(verb: str) -> Callable[[Sequence[str]], int]:
    """What carries a verb out."""
    run: Callable[[Sequence[str]], int] = _module(verb).run
    return run


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb's arguments."""
    made: argparse.ArgumentParser = _module(verb).parser()
    return made


def _module(verb: str) -> ModuleType:
    return import_module(f"trikubelet.cli.commands.{verb.replace('-', '_')}")


def options(parser: argparse.ArgumentParser) -> list[Option]:
    """The flags and arguments of a parser, without ``--help``. Reads what argparse keeps for its own help: the one list
    of them it has."""
    found = []
    for action in parser._actions:
        if "--help" in action.option_strings:
            continue
        takes_value = action.nargs != 0
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = (metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()) if takes_value else ""
        help_ = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        found.append(Option(tuple(action.option_strings), value, tuple(map(str, action.choices or ())), help_))
    return found
