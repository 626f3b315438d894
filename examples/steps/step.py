"""What every step needs and none is about: its flags, an API server to ask, an agent to look at.

Everything else a step shows stands in the step. Output is flushed line by line, for most steps are about *when*.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trikubelet.app import compose
from trikubelet.app.access import user_agent
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.app.supervise import last_words
from trikubelet.host.clock import SystemClock
from trikubelet.kube.client import ApiClient
from trikubelet.kube.credentials import Credentials
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model import k8s
from trikubelet.model.decoding import decode_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trikubelet.app.settings import Settings
    from trikubelet.model.api import Item
    from trikubelet.model.kubeconfig import Impersonation


def parser(text: str | None, *, asks: bool = True) -> argparse.ArgumentParser:
    """The flags of a step that says ``text`` of itself; one that ``asks`` an API server needs a kubeconfig. What the
    parts log stays away from the output, but for errors."""
    logging.basicConfig(level=logging.ERROR)
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if asks:
        made.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE", help="the cluster, and who asks it")
    return made


def run(main: Callable[..., Awaitable[None]], *args: object) -> None:
    """Be the step. What an operator must mend is told in one line, and Ctrl-C is no reason for a traceback."""
    try:
        trio.run(main, *args)
    except BaseException as error:
        sys.exit(last_words(error, sys.stderr))


def api_of(kubeconfig: Path, acting_as: Impersonation | None = None) -> ApiClient:
    """The API server of a kubeconfig, asked as its user or, where that user may, as somebody else. Raises StartFailed
    for a file that does not help."""
    access = replace(load_kubeconfig(kubeconfig), impersonation=acting_as)
    return ApiClient(Credentials(access, SystemClock(), os.environ), user_agent())


@asynccontextmanager
async def agent(name: str, kubeconfig: Path, *flags: str) -> AsyncIterator[Settings]:
    """A whole agent on the fake runtime, a node of the cluster for the length of the block, with its settings. What it
    keeps is gone afterwards; its node stays in the cluster, for others to see that nobody is there."""
    with tempfile.TemporaryDirectory(prefix="trikubelet-step-") as root:
        own = [f"--kubeconfig={kubeconfig}", f"--hostname-override={name}", f"--root-dir={root}", "--healthz-port=0"]
        own += ["--container-runtime-endpoint=fake:", f"--pod-manifest-path={root}/manifests", "--enable-server=false"]
        Path(root, "manifests").mkdir()
        settings = load_settings(
            parse_agent_flags([*own, *flags]), Surroundings(os.geteuid(), os.environ, socket.gethostname())
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(compose.run, settings, lambda: None, compose.find_access(settings))
            yield settings
            nursery.cancel_scope.cancel()


def ready_of(item: Item) -> k8s.NodeCondition:
    """How a node's Ready condition stands; "Unknown" while nobody has said anything."""
    status = decode_object(item.raw, k8s.Node).status or k8s.NodeStatus()
    unsaid = k8s.NodeCondition(type="Ready", status="Unknown", reason="nobody has said")
    return next((one for one in status.conditions if one.type == "Ready"), unsaid)


def say(text: str) -> None:
    """One line of output, now."""
    print(text, flush=True)
