"""The entry point: ``trikubelet [flags]`` is the agent, ``trikubelet VERB …`` a command.

Started like a kubelet, by a service manager or with nothing but flags, it runs the agent, also under the name
``kubelet``. A first argument that is not a flag is a verb; the verbs are in ``cli.verbs``. Without any argument, at a
terminal, it prints its help: an agent with the default flags is a kubelet in /var/lib/kubelet, which a user who types
the bare command does not expect. The unit of the package ``trikubelet-kubelet`` starts ``kubelet`` without arguments,
and has no terminal.
"""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.terminal import in_a_cell, in_lines, shortened
from trikubelet.cli.verbs import VERBS, parser_of, runner
from trikubelet.cli.whole_process import end, keep_collector_out, let_collector_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_FAILED, EXIT_MISUNDERSTOOD, EXIT_INTERRUPTED = 1, 2, 130


def program() -> NoReturn:
    """Run the program ``trikubelet`` with the process's arguments, and end it."""
    keep_collector_out()
    end(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in the arguments (by default the process's own, without its name) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    give_standard_files()
    try:
        return _dispatch(arguments)
    except SystemExit as ended:  # argparse has printed why
        return _code_of(ended)


def _code_of(ended: SystemExit) -> int:
    return ended.code if isinstance(ended.code, int) else EXIT_FAILED


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case [] if _is_typed():
            return _said(_nothing_given)
        case ["--version", *_]:
            return _said(partial(_verb, "version", []))
        case ["help", "agent", *_]:
            return _said(_flags)
        case ["help", verb, *_] if verb in VERBS:
            return _said(partial(_help, verb))
        case ["help", word, *_] if not word.startswith("-"):
            return _unknown(word)
        case ["help", *_] | ["-h"]:
            return _said(_overview)
        case ["--help", *_]:
            return _said(partial(_overview, and_flags=True))
        case [verb, *rest] if verb in VERBS:
            return _said(partial(_verb, verb, rest))
        case [word, *_] if not word.startswith("-"):
            return _unknown(word)
        case _:
            behind = _verb_behind_flags(arguments)
            return _agent(arguments) if behind is None else _misplaced(behind)


def _is_typed() -> bool:
    """True if a person started this: standard input or output is a terminal."""
    return any(os.isatty(number) for number in (0, 1))


def _nothing_given() -> int:
    print(overview(), file=sys.stderr)
    print("\nerror: missing command, or flags of the agent (`trikubelet help agent` lists them)", file=sys.stderr)
    return EXIT_MISUNDERSTOOD


def give_standard_files() -> None:
    """Open those of the three standard files that the process was started without (``>&-``, a daemon), before a socket
    gets one of their numbers: reading ends at once, writing fails as it should. Characters that standard output's
    encoding does not have are written in ASCII."""
    for number, way in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)  # which takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - they are the process's own
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def overview() -> str:
    """Return the usage and all commands, in a few lines."""
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {verb:{width}}{what}" for verb, what in VERBS.items())
    return (
        "trikubelet runs the pods of this machine, from manifests or for an API server.\n\n"
        "Usage:\n"
        "  trikubelet FLAGS       run the agent; `trikubelet help agent` lists the flags\n"
        "  trikubelet COMMAND …   run a command; `trikubelet help COMMAND` explains it, with examples\n\n"
        f"Commands:\n{verbs}"
    )


def _agent(arguments: list[str]) -> int:
    from trikubelet.app.agent import run_agent  # noqa: PLC0415 - the verbs do not need what the agent needs

    let_collector_in()
    return run_agent(arguments)


def _overview(*, and_flags: bool = False) -> int:
    print(overview())
    if and_flags:
        print()
        return _flags()
    return 0


def _flags() -> int:
    """Print the help of the agent's flags. It loads nothing of the agent; after another flag ``--help`` does."""
    from trikubelet.app.flag_help import agent_help  # noqa: PLC0415 - most commands need no flags

    print(agent_help())
    return 0


def _help(verb: str) -> int:
    parser_of(verb).print_help()
    return 0


def _verb(verb: str, arguments: list[str]) -> int:
    if arguments in (["--help"], ["-h"]):
        return _help(verb)
    run = runner(verb)
    let_collector_in()
    return run(arguments)


def _said(say: Callable[[], int]) -> int:
    """Run ``say`` and return its exit code. An error is printed in one line, and a reader that has gone (``| head``) is
    not an error."""
    try:
        try:
            code = say()
        except SystemExit as ended:  # whose message may not be written yet
            code = _code_of(ended)
        sys.stdout.flush()
        return code
    except BaseExceptionGroup as group:  # of several concurrent errors the first is enough
        return _reported(_first(group))
    except (CommandFailed, KeyboardInterrupt, OSError) as error:
        return _reported(error)


def _first(error: BaseException) -> BaseException:
    if not isinstance(error, BaseExceptionGroup):
        return error
    interrupted, _ = error.split(KeyboardInterrupt)  # which may have caused the others
    return _first((interrupted or error).exceptions[0])


def _reported(error: BaseException) -> int:
    """Print the error and return the exit code. Raises it if it is a bug of ours."""
    match error:
        case CommandFailed():
            print(f"error: {in_lines(str(error))}", file=sys.stderr)
            return error.exit_code
        case KeyboardInterrupt():
            return EXIT_INTERRUPTED
        case BrokenPipeError():
            _drop_output()
            return EXIT_FAILED
        case OSError():
            _drop_output()
            print(f"error: {in_a_cell(_what_failed(error))}", file=sys.stderr)
            return EXIT_FAILED
        case _:
            raise error


def _what_failed(error: OSError) -> str:
    """Return the text of an error with the file's name, which a container may have chosen."""
    if error.filename:
        return f"{shortened(str(error.filename))}: {error.strerror}"
    try:
        os.getcwd()
    except FileNotFoundError:  # every use of a relative path failed so, and Python does not report which path
        return "the working directory is gone: change to another, or write absolute paths"
    return error.strerror or str(error)


def _drop_output() -> None:
    """Discard unwritten output: otherwise Python would report the error once more when it flushes at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _verb_behind_flags(arguments: Sequence[str]) -> str | None:
    """Return the verb among arguments that the agent rejects, if there is one: a flag's value may have the name of
    one."""
    if not any(word in VERBS for word in arguments):
        return None
    from trikubelet.app.flags import parse_agent_flags  # noqa: PLC0415 - an agent seldom has such an argument

    return next((fault.source for fault in parse_agent_flags(arguments).faults if fault.source in VERBS), None)


def _misplaced(verb: str) -> int:
    print(
        f'error: the command "{verb}" must come before its flags (trikubelet {verb} …)',
        file=sys.stderr,
    )
    return EXIT_MISUNDERSTOOD


def _unknown(word: str) -> int:
    from trikubelet.cli.habits import hint  # noqa: PLC0415 - only for a mistake

    print(
        f'error: unknown command "{in_a_cell(word)}" for "trikubelet" ({hint(word, [*VERBS, "help"])})', file=sys.stderr
    )
    return EXIT_MISUNDERSTOOD
