"""Tokens of service accounts, one for each pod, audience and life that is asked for, by a volume or for a credential
plugin: kept in memory, and had again before they are old.

A token is bound to its pod by UID: the API server refuses it once the pod is gone. A pod that needs it asks again at
each sync of the pod, at the latest after its resync; so nothing runs here by itself. An account itself is asked for
each time: a node may not watch them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import trio

from trikubelet.core.names import object_ref
from trikubelet.model import k8s
from trikubelet.model.api import SERVICE_ACCOUNTS
from trikubelet.model.api_errors import ApiError, ApiLost
from trikubelet.model.decoding import read_item
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.model.objects import ServiceAccountToken

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable

    from trikubelet.model.api import Item
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Api

log = logging.getLogger(__name__)

LIFE_USED_MAX: Final = 0.8
AGE_SECONDS_MAX: Final = 24 * 3600.0
JITTER_SECONDS_MAX: Final = 10.0
"""A token is renewed when so much of its life is over, or at that age, or a little sooner (all as upstream has it)."""
LIFE_SECONDS_MAX: Final = 1 << 32
"""The longest that a server lets a client ask for; a longer life in an answer is no time."""
ANSWER_SECONDS_MAX: Final = 10.0
REQUESTS_MAX: Final = 8
"""Under way at once: each is a connection, and a node may get all its pods in one moment."""
AGAIN_SECONDS: Final = 30.0
"""After a renewal that failed, while the old token is good."""


class _Spec(msgspec.Struct, rename="camel"):
    expiration_seconds: int


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: str
    token: str


class _TokenRequest(msgspec.Struct):
    """The server's answer; it may grant another life than was asked for."""

    spec: _Spec
    status: _Status


class _Account(msgspec.Struct):
    metadata: k8s.ObjectMeta


class _Key(NamedTuple):
    uid: str
    account: str
    audience: str
    seconds: int


@dataclass(slots=True)
class _Token:
    """Times are Trio's, from when it was asked for: neither the server's clock nor a jump of ours matters."""

    token: ServiceAccountToken
    renew_at: float
    ends_at: float

    def __repr__(self) -> str:
        return f"<token until {self.ends_at:.0f}>"


class ServiceAccountTokens:
    """Owns the tokens of this node's pods."""

    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api = api
        self._chance = chance
        self._tokens: dict[_Key, _Token] = {}
        self._turns = trio.CapacityLimiter(REQUESTS_MAX)

    async def get(self, pod: Pod, audience: str, seconds: int) -> ServiceAccountToken:
        """A token with enough life left. Raises ObjectUnavailable where there is none and none can be had."""
        key = _Key(pod.metadata.uid, _name(pod), audience, seconds)
        known = self._tokens.get(key)
        now = trio.current_time()
        if known is not None and now < known.renew_at:
            return known.token
        try:
            async with self._turns:
                known = self._tokens[key] = await self._asked(pod, key)
        except ApiError as error:
            if known is None or now >= known.ends_at:
                raise ObjectUnavailable(f"failed to fetch token: {error}") from error
            log.warning("Pod %s keeps its service account token: no newer one: %s", object_ref(pod), error)
            known.renew_at = now + AGAIN_SECONDS
        return known.token

    async def account(self, pod: Pod) -> k8s.ObjectMeta:
        """Return the metadata of the pod's service account now. Raises ObjectUnavailable."""
        name, namespace = _name(pod), pod.metadata.namespace
        try:
            async with self._turns:
                item = await _in_time(self._api.get(SERVICE_ACCOUNTS, name, namespace))
                return read_item(item, _Account).metadata
        except ApiError as error:
            raise ObjectUnavailable(f"failed to fetch service account {namespace}/{name}: {error}") from error

    def release(self, uid: str) -> None:
        """The pod needs none any more."""
        for key in [key for key in self._tokens if key.uid == uid]:
            del self._tokens[key]

    async def _asked(self, pod: Pod, key: _Key) -> _Token:
        began, under = trio.current_time(), f"{key.account}/token"
        body = _request(pod, key)
        item = await _in_time(self._api.create(SERVICE_ACCOUNTS, body, pod.metadata.namespace, under=under))
        answer = read_item(item, _TokenRequest)
        life = float(min(max(answer.spec.expiration_seconds, 0), LIFE_SECONDS_MAX))
        used = min(LIFE_USED_MAX * life, AGE_SECONDS_MAX) - JITTER_SECONDS_MAX * self._chance.random()
        token = ServiceAccountToken(answer.status.token, answer.status.expiration_timestamp)
        return _Token(token, began + used, began + life)

    def __repr__(self) -> str:
        return f"<ServiceAccountTokens: {len(self._tokens)}>"


async def _in_time(answer: Awaitable[Item]) -> Item:
    with trio.move_on_after(ANSWER_SECONDS_MAX):
        return await answer
    raise ApiLost(f"no answer within {ANSWER_SECONDS_MAX:g} s")


def _name(pod: Pod) -> str:
    return pod.spec.service_account_name or "default"


def _request(pod: Pod, key: _Key) -> object:
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": key.uid}
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [key.audience] if key.audience else [],
            "expirationSeconds": key.seconds,
            "boundObjectRef": bound,
        },
    }
