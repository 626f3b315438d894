"""The command line: ``trikubelet [flags]`` is the agent, ``trikubelet VERB …`` asks about one.

Started as a kubelet is, by a service manager with nothing but flags, it is one. A first word that is no flag is a verb.
Each verb is a module of ``app/commands`` with ``run(argv) -> int``, imported when it is spoken, so ``get pods`` does
not wait for what only the agent needs. A new verb is a line in ``VERBS`` and its module.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from trikubelet.app.commands.failed import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERBS = {
    "get": "pods and events of this node, as tables or objects",
    "describe": "all about a pod: containers, conditions, events, faults",
    "logs": "what a container wrote",
    "validate": "find every fault of manifest files; needs no agent",
    "version": "which trikubelet this is",
}
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the words say (the process's own, without its name, by default); the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except SystemExit as ended:  # argparse has said why
        return ended.code if isinstance(ended.code, int) else EXIT_FAILED


def _dispatch(words: list[str]) -> int:
    match words:
        case ["--version", *_]:
            return _verb("version", [])
        case ["help", "agent", *_]:
            return _agent(["--help"])
        case ["help", verb, *_] if verb in VERBS:
            return _verb(verb, ["--help"])
        case ["help", *_] | ["-h"]:
            print(overview())
            return 0
        case ["--help", *_]:
            print(f"{overview()}\n")
            return _agent(["--help"])
        case [verb, *rest] if verb in VERBS:
            return _verb(verb, rest)
        case [word, *_] if not word.startswith("-"):
            return _unknown(word)
        case _:
            return _agent(words)


def overview() -> str:
    """What can be said, in a few lines."""
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {verb:{width}}{what}" for verb, what in VERBS.items())
    return (
        "trikubelet runs the pods of this machine, from manifests or for an API server.\n\n"
        "  trikubelet [flags]            run the agent; `trikubelet help agent` lists the flags\n"
        "  trikubelet VERB …             ask about it; `trikubelet help VERB` tells more\n\n"
        f"Verbs:\n{verbs}"
    )


def _agent(words: list[str]) -> int:
    from trikubelet.app.agent import run_agent  # noqa: PLC0415 - the verbs do not need what the agent needs

    return run_agent(words)


def _verb(verb: str, words: list[str]) -> int:
    """Run a verb. What goes wrong is told in one line, and a reader who left (``| head``) is no error of ours."""
    run: Callable[[Sequence[str]], int] = import_module(f"trikubelet.app.commands.{verb}").run
    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except CommandFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _unknown(word: str) -> int:
    from trikubelet.model.faults import nearest  # noqa: PLC0415

    remedy = nearest(word, [*VERBS, "help"]) or "`trikubelet help` lists the verbs"
    print(f'error: "{word}" is no verb of trikubelet ({remedy})', file=sys.stderr)
    return EXIT_FAILED
