"""Shared by ``exec`` and ``attach``: the choice of container, streams and terminal, and the exit code."""

from __future__ import annotations

import argparse
import sys
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking
from trikubelet.cli.client import AgentObjects
from trikubelet.cli.container_state import explained
from trikubelet.cli.remote_process import of_this_process, raw_terminal
from trikubelet.core.names import with_ephemeral
from trikubelet.core.remote_command import V4
from trikubelet.model.standard_streams import StandardStreams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from trikubelet.cli.client import AgentClient
    from trikubelet.cli.connection import Stream
    from trikubelet.model import k8s

ATTACH: Final = "attach"


async def talk(args: argparse.Namespace, way: str, command: Sequence[str] = ()) -> int:
    """Connect the process's streams until it ends, and return its exit code. ``way``: ``exec`` or ``attach``. Raises
    CommandFailed."""
    agent = asking.agent_of(args)
    pod = await asking.pod_named(agent, args.namespace, asking.bare_name(args.pod))
    container = args.container or asking.default_container(pod)
    stdin, tty = args.stdin, args.tty
    if way == ATTACH and (spec := _container_of(pod, container)) is not None:
        stdin, tty = _as_started(args, spec)
    is_ours = tty and stdin and sys.stdin.isatty() and sys.stdout.isatty()
    if tty and not is_ours and (stdin or way != ATTACH):
        print("Unable to use a TTY - input is not a terminal or the right kind of file", file=sys.stderr)
    if way != ATTACH:  # a command gets a terminal if there is one here
        tty = is_ours
    streams = StandardStreams(stdin=stdin, stdout=True, stderr=not tty, tty=tty)
    asked = {"input": streams.stdin, "output": True, "error": streams.stderr, "tty": streams.tty}
    query = [("command", word) for word in command] + [(name, "1") for name, wanted in asked.items() if wanted]
    async with conversation(agent, pod, container, way, query) as stream:
        with raw_terminal() if is_ours else nullcontext():
            return await of_this_process(stream, streams, has_window=is_ours).run()


@asynccontextmanager
async def conversation(
    agent: AgentClient, pod: k8s.Pod, container: str, way: str, query: Sequence[tuple[str, str]]
) -> AsyncGenerator[Stream, None]:
    """Yield the connection to a process in a container (``way``: ``exec`` or ``attach``), for the length of the block.
    Raises CommandFailed, with the state of a container that does not run."""
    path = f"/{way}/{pod.metadata.namespace}/{pod.metadata.name}/{container}"
    async with AsyncExitStack() as stack:
        try:
            stream = await stack.enter_async_context(agent.upgraded(path, query, V4))
        except AgentObjects as error:
            raise await explained(agent, pod, container, error) from error
        yield stream


def _container_of(pod: k8s.Pod, name: str) -> k8s.Container | None:
    """Return the container's spec; None if the pod has none of that name, which the agent reports."""
    return next((one for one in with_ephemeral(pod) if one.name == name), None)


def _as_started(args: argparse.Namespace, container: k8s.Container) -> tuple[bool, bool]:
    """Return whether a running process reads standard input, and whether it has a terminal: that was decided at its
    start and cannot change. A request for a missing one is reported on standard error, as kubectl does."""
    stdin, tty = bool(args.stdin and container.stdin), bool(container.tty)
    if args.tty and not tty:
        print(f"error: Unable to use a TTY - container {container.name} did not allocate one", file=sys.stderr)
    if args.stdin and not stdin:  # runtimes accept the input, and nothing ever reads it
        print(f"error: Unable to use stdin - container {container.name} was started without", file=sys.stderr)
    return stdin, tty
