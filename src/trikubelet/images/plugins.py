"""Asks credential plugins for logins, and caches their answers for the duration that each answer states.

    does the plugin serve the image? ─► does it need the pod's service account? ─► the account, a token ─► cached?
        ─► run the program

A plugin that fails yields no login and an event. The image is then pulled without a login; the next pull asks again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.credential_plugins import Bearer, annotations_for, cache_keys, kept_for, request, understood
from trikubelet.core.keyring import covers
from trikubelet.core.names import object_ref
from trikubelet.model.errors import LoginUnavailable, ObjectUnavailable
from trikubelet.model.registry import AccountOwner, Credential

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trikubelet.core.credential_plugins import Answer
    from trikubelet.model.credential_plugin import CredentialPlugin, TokenAttributes
    from trikubelet.model.k8s import Pod
    from trikubelet.model.registry import Login
    from trikubelet.ports import Events, NodeLogins, PodObjects

log = logging.getLogger(__name__)

RUNS_MAX: Final = 4
"""Concurrent runs of one plugin. One run often answers for a whole registry, so the next in line finds it cached."""
ANSWERS_KEPT_MAX: Final = 1000
TOKEN_SECONDS: Final = 3600
"""The lifetime of the tokens that plugins get: the API server's default."""


class _NotForPod(Exception):
    """The plugin must not run for a pod with this service account."""


class Plugin:
    """Owns the cached answers of one plugin, until they expire."""

    def __init__(self, plugin: CredentialPlugin, node: NodeLogins, objects: PodObjects, events: Events) -> None:
        self._plugin = plugin
        self._node = node
        self._objects = objects
        self._events = events
        self._turns = trio.CapacityLimiter(RUNS_MAX)
        self._kept: dict[tuple[str, Hashable], tuple[Answer, float]] = {}

    async def credentials(self, pod: Pod, repository: str) -> Mapping[str, Credential]:
        """Return the plugin's credentials of a pod for a repository, by place; empty if it has none, or fails. Waits
        for the program and for an API server, within their bounds."""
        if not any(covers(place, repository) for place in self._plugin.match_images):
            return {}
        wanted = self._plugin.token_attributes
        try:
            bearer = None if wanted is None else await self._bearer(pod, wanted)
        except _NotForPod as error:
            log.debug("Credential plugin %s is not run for pod %s: %s", self._plugin.name, object_ref(pod), error)
            return {}
        except ObjectUnavailable as error:
            return self._unavailable(pod, f"for pod {object_ref(pod)}: {error}")
        try:
            logins = await self._logins(repository, bearer)
        except (LoginUnavailable, ValueError) as error:
            return self._unavailable(pod, f"for {repository}: {error}")
        owner = None if bearer is None else bearer.account
        return {place: Credential(login, owner) for place, login in logins.items()}

    def _unavailable(self, pod: Pod, problem: str) -> Mapping[str, Credential]:
        """Report a failure; returns no credentials."""
        # The event names only the plugin: its output may contain secrets, and belongs to the operator's log.
        log.warning("Credential plugin %s failed %s", self._plugin.name, problem)
        message = f"Unable to get credentials from the credential plugin {self._plugin.name} (see the node's log); "
        message += "attempting to pull the image may not succeed."
        self._events.record(object_ref(pod), "Warning", "CredentialPluginFailed", message)
        return {}

    async def _bearer(self, pod: Pod, wanted: TokenAttributes) -> Bearer | None:
        """Return the pod's service account with a token; None for a pod without an account. Raises _NotForPod and
        ObjectUnavailable."""
        if not pod.spec.service_account_name:
            if wanted.require_service_account:
                raise _NotForPod("it has no service account")
            return None
        meta = await self._objects.service_account(pod)
        annotations = annotations_for(wanted, meta.annotations)
        if annotations is None:
            raise _NotForPod(f"service account {meta.name} lacks a required annotation")
        token = await self._objects.token(pod, wanted.service_account_token_audience, TOKEN_SECONDS)
        return Bearer(AccountOwner(meta.uid, meta.namespace, meta.name), token.text, annotations)

    async def _logins(self, repository: str, bearer: Bearer | None) -> Mapping[str, Login]:
        """Return the plugin's answer, cached or new. Raises LoginUnavailable, and ValueError for an invalid answer."""
        whose = kept_for(self._plugin, bearer)
        async with self._turns:
            # Looked up after the wait, because the run before this one may have answered for the whole registry.
            known = self._known(repository, whose)
            if known is not None:
                return known
            output = await self._node.ask(self._plugin, request(self._plugin, repository, bearer))
            answer = understood(self._plugin, repository, output, bearer)
            self._keep(answer, whose)
            return answer.logins

    def _known(self, repository: str, whose: Hashable) -> Mapping[str, Login] | None:
        for key in cache_keys(repository):
            answer, ends_at = self._kept.get((key, whose), (None, 0.0))
            if answer is not None and trio.current_time() < ends_at:
                return answer.logins
        return None

    def _keep(self, answer: Answer, whose: Hashable) -> None:
        if answer.seconds <= 0:
            return
        # Removed first, so that a renewed answer counts as the newest: the bound drops the oldest.
        self._kept.pop((answer.key, whose), None)
        self._kept[answer.key, whose] = (answer, trio.current_time() + answer.seconds)
        while len(self._kept) > ANSWERS_KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    def __repr__(self) -> str:
        return f"<Plugin {self._plugin.name}: {len(self._kept)} answers cached>"
