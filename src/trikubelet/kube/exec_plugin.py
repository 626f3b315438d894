"""Runs a credential plugin: a program that says on its standard output who we are to the API server.

    KUBERNETES_EXEC_INFO ─► plugin ─► ExecCredential ─► token, certificate, when they end

The protocol is client.authentication.k8s.io, v1 and v1beta1. A plugin's answer is kept until its end, or, without one,
until the server does not believe it any more (``forget``). One run at a time, and none right after another; a caller
that comes meanwhile waits for the run that is under way, so a slow plugin needs no caller as patient as itself.
"""

from __future__ import annotations

import logging
import os
import shutil
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.barrier import Barrier
from trikubelet.kit.program import NotStarted, ProgramFailed, run_program
from trikubelet.model.api_errors import NothingToShow
from trikubelet.model.errors import StartFailed
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.model.kubeconfig import ClusterAccess, ExecPlugin
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

RUN_SECONDS_MAX: Final = 30.0
"""A plugin asks some cloud's service over the network. Less than the 40 s of a node's lease: where it hangs once, the
next run may still be in time."""
WAIT_SECONDS_MAX: Final = 5.0
"""So long a request waits for a run, which goes on without it. Less than any request has: whose time ran out would say
that the server gave no answer."""
PAUSE_SECONDS: Final = 5.0
"""The time for which the outcome of a run is used for the next callers, good or bad: a dozen clients wait for one
plugin, and a server that refuses all is not to have it run for each request."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a plugin: a token ("" for none), a certificate with its key in PEM (b"" for none), and when
    both end, in nanoseconds since the epoch (None: unknown)."""

    token: str
    pem: bytes
    ends_ns: int | None


class _Made(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Made | None = None


class Plugin:
    """Owns what a credential plugin last said. ``ca`` gives the authority's PEM of this moment, to be passed to it."""

    def __init__(
        self,
        plugin: ExecPlugin,
        access: ClusterAccess,
        ca: Callable[[], bytes],
        environment: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._plugin = plugin
        self._server = access.server
        self._origin = access.origin
        self._ca = ca
        self._environment = {**environment, **dict(plugin.environment)}
        self._clock = clock
        self._running: trio.Event | None = None
        self._kept: Credential | None = None
        self._failure = ""
        self._ran_at = float("-inf")

    def require_program(self) -> None:
        """Raises StartFailed when there is no such program."""
        plugin = self._plugin
        if shutil.which(plugin.command, path=os.pathsep.join(os.get_exec_path(self._environment))) is None:
            problem = f'Invalid value: "{plugin.command}": there is no such program that can be run'
            remedy = plugin.install_hint or "install it, or correct the command"
            raise StartFailed(
                str(Fault(self._origin.source, None, f"{self._origin.user}.exec.command", problem, remedy))
            )

    def __str__(self) -> str:
        return f"the credential plugin {self._plugin.command} ({self._origin.user}.exec in {self._origin.source})"

    async def credential(self) -> Credential:
        """Return a valid credential. Raises NothingToShow when the plugin does not make anything, or takes long."""
        kept = self._kept
        if kept is not None and (kept.ends_ns is None or self._clock.now_ns() < kept.ends_ns):
            return kept
        ended = self._running
        if ended is None and trio.current_time() >= self._ran_at + PAUSE_SECONDS:
            ended = self._running = trio.Event()
            # A run belongs to none of its callers: the next goes on waiting for it. Its bound is its own, and the
            # agent's end.
            trio.lowlevel.spawn_system_task(self._run, ended)
        if ended is not None:
            with trio.move_on_after(WAIT_SECONDS_MAX):
                await ended.wait()
            if not ended.is_set():
                raise NothingToShow(f"{self} has not ended yet; after {RUN_SECONDS_MAX:g} s it is killed")
        if self._kept is None:
            raise NothingToShow(self._failure)
        return self._kept

    def forget(self) -> None:
        """The server did not believe it: make another one when it is next asked for."""
        self._kept = None
        self._failure = f"the API server does not believe what {self} makes"

    async def _run(self, ended: trio.Event) -> None:
        try:
            with Barrier(self._found_bug):  # what leaves a system task ends the agent
                await self._learn()
        finally:
            self._running, self._ran_at = None, trio.current_time()
            ended.set()

    async def _learn(self) -> None:
        try:
            self._kept = self._understood(await self._output())
        except ProgramFailed as error:
            self._kept, self._failure = None, f"{self} {error}"

    def _found_bug(self, bug: Exception) -> None:
        log.error("%s cannot be run", self, exc_info=bug)
        self._kept, self._failure = None, f"{self} cannot be run: {bug!r}"

    async def _output(self) -> bytes:
        """Return the output of a run. Raises ProgramFailed."""
        command = [self._plugin.command, *self._plugin.arguments]
        environment = {**self._environment, "KUBERNETES_EXEC_INFO": self._exec_info()}
        try:
            return await run_program(command, environment, run_seconds_max=RUN_SECONDS_MAX)
        except NotStarted as error:
            hint = f". {self._plugin.install_hint}" if self._plugin.install_hint else ""
            raise NotStarted(f"{error}{hint}") from error

    def _exec_info(self) -> str:
        """The ExecCredential that the plugin receives."""
        spec: dict[str, object] = {"interactive": False}
        server = self._server
        if self._plugin.provides_cluster_info:
            cluster = {
                "server": server.url,
                "tls-server-name": server.tls_name,
                "insecure-skip-tls-verify": server.insecure,
                "certificate-authority-data": b64encode(self._ca()).decode(),
                "proxy-url": server.proxy,
                "disable-compression": not server.compression,
                "config": self._plugin.cluster_config,
            }
            spec["cluster"] = {name: value for name, value in cluster.items() if value}
        exec_info = {"apiVersion": self._plugin.version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(exec_info).decode()

    def _understood(self, output: bytes) -> Credential:
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except (ValueError, RecursionError) as error:
            raise ProgramFailed(f"does not print an ExecCredential: {error}") from error
        if (answer.kind, answer.api_version) != ("ExecCredential", self._plugin.version):
            raise ProgramFailed(
                f"prints a {answer.api_version} {answer.kind}, where the kubeconfig says {self._plugin.version}"
            )
        made = answer.status or _Made()
        certificate, key = made.client_certificate_data or "", made.client_key_data or ""
        if bool(certificate) != bool(key):
            raise ProgramFailed("prints half of a certificate and its key")
        if not (made.token or certificate):
            raise ProgramFailed("prints neither a token nor a certificate")
        try:
            ends_ns = parse_rfc3339(made.expiration_timestamp) if made.expiration_timestamp else None
        except ValueError as error:
            raise ProgramFailed(f"says when it ends, but not as a timestamp: {error}") from error
        # A token as printed by a shell script ends with a line break, which no header may have.
        return Credential((made.token or "").strip(), f"{certificate}\n{key}".encode() if certificate else b"", ends_ns)
