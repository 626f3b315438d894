"""Certificates of pods: for each source of a volume that wants one, a key made here and the chain a signer makes of it.

    wanted ─► key (thread) ─► PodCertificateRequest created ─► watched ─┬─► issued: the pod is looked at again
       ▲                                                               ├─► denied, failed: final, and logged
       └─ time to refresh it; the old one counts until then ◄─ issued  └─► gone: another one

Kept in memory alone, so an agent that restarts makes new keys, while the pods' files stay what they were. One watch of
this node's requests, for as long as a pod needs some: clusters need not serve them (certificates.k8s.io/v1 from 1.37,
v1beta1 before). A pod that needs a certificate asks again at each of its syncs, so nothing runs here by itself but the
watch. (KEP-4317)
"""

from __future__ import annotations

import base64
import logging
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import trio

from trikubelet.core.names import object_ref
from trikubelet.core.pod_certificate import Issued, Refused, Request, outcome
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.informer import Informer
from trikubelet.kube.served_versions import ServedVersions
from trikubelet.model.api import POD_CERTIFICATE_REQUESTS, SERVICE_ACCOUNTS, Selection
from trikubelet.model.api_errors import ApiError
from trikubelet.model.decoding import decode_object
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.model.objects import PodCertificate

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Collection

    from trikubelet.kit.outage import Outage
    from trikubelet.kube.known import Key
    from trikubelet.model.k8s import Node, Pod, PodCertificateProjection
    from trikubelet.ports import Api, Events

log = logging.getLogger(__name__)

ANSWER_SECONDS_MAX: Final = 10.0
"""For one request to the server, and for a signer, by who asked it: after that the pod's user is notified, and an
answer wakes the pod."""
REQUESTS_MAX: Final = 8
"""Begun at once."""
AGAIN_SECONDS: Final = 30.0
"""After a refresh that could not be begun, while the old certificate is good."""
JITTER_SECONDS_MAX: Final = 300.0
"""A refresh begins up to so much later, so that not all begin at once."""
UNSEEN_SECONDS_MAX: Final = 600.0
"""A request that the watch has not shown after so long has gone."""
OVERDUE_SECONDS: Final = 600.0
"""A refresh that is still not done so long after it was due is reported (all three as upstream has it)."""


class _Key(NamedTuple):
    """The request for a certificate, but not the paths of its files."""

    uid: str
    wanted: bytes


@dataclass(slots=True)
class _UnderWay:
    """A request that is not answered yet. ``abandon_at``: when it counts as gone (Trio's clock)."""

    place: tuple[str, str]
    key_pem: bytes = field(repr=False)
    abandon_at: float
    was_seen: bool = False


@dataclass(slots=True)
class _Held:
    """The state of a key. ``refused``: why it never will be more, which is reported once, as is that a certificate is
    ``overdue_at`` and ``ends_at``. Times are Trio's."""

    lock: trio.Lock = field(default_factory=trio.Lock)
    changed: trio.Event = field(default_factory=trio.Event)
    certificate: PodCertificate | None = None
    refresh_at: float = -math.inf
    under_way: _UnderWay | None = None
    overdue_at: float = math.inf
    ends_at: float = math.inf
    refused: Refused | None = None
    is_refusal_said: bool = False


class PodCertificates:
    """Owns the keys and certificates of this node's pods, and which are asked for. ``watches`` is the API server for
    the watch, ``requests`` for what is asked once; ``new_key`` makes a key of a type, in PEM, and a request (PKCS #10,
    DER) signed with it; ``wake`` is given the UIDs of pods whose certificate came; ``events`` what is wrong with
    one."""

    def __init__(
        self,
        watches: Api,
        requests: Api,
        node: Callable[[], Node | None],
        new_key: Callable[[str], Awaitable[tuple[bytes, bytes]]],
        wake: Callable[[Collection[str]], None],
        events: Events,
        outage: Outage,
        chance: random.Random,
    ) -> None:
        self._watches = ServedVersions(watches)
        self._requests = ServedVersions(requests)
        self._node = node
        self._new_key = new_key
        self._wake = wake
        self._events = events
        self._outage = outage
        self._chance = chance
        self._turns = trio.CapacityLimiter(REQUESTS_MAX)
        self._held: dict[_Key, _Held] = {}
        self._informer: Informer[Request] | None = None
        self._scope = trio.CancelScope()
        self._tasks = BackgroundTasks()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the watch's nursery open until cancelled."""
        await self._tasks.run(task_status=task_status)

    async def get(self, pod: Pod, source: PodCertificateProjection) -> PodCertificate:
        """A certificate that need not be refreshed yet, or the last one while the next is waited for. Only who begins a
        request waits for its answer: later syncs of the pod are not to take that long each. Raises
        ObjectUnavailable."""
        held = self._held.setdefault(_Key(pod.metadata.uid, _wanted(source)), _Held())
        async with held.lock:
            if held.under_way is not None and self._has_gone(held.under_way):
                held.under_way = None
            if not held.refused and held.under_way is None and trio.current_time() >= held.refresh_at:
                await self._begin(pod, source, held)
                if held.certificate is None:
                    with trio.move_on_after(ANSWER_SECONDS_MAX):
                        await held.changed.wait()
        self._say(pod, held)
        if held.refused:
            raise ObjectUnavailable(held.refused.why)
        if held.certificate is None:
            assert held.under_way is not None, "neither asked for nor answered"
            raise ObjectUnavailable(f"PodCertificateRequest {'/'.join(held.under_way.place)} is not issued yet")
        return held.certificate

    def release(self, uid: str) -> None:
        """The pod needs none any more."""
        for key in [key for key in self._held if key.uid == uid]:
            del self._held[key]
        if not self._held and self._informer is not None:
            self._scope.cancel()
            self._informer = None

    def _say(self, pod: Pod, held: _Held) -> None:
        """Record, once each, that a signer said no, that a refresh is overdue, and that the certificate, which is shown
        on, has ended. The reasons are upstream's."""
        now = trio.current_time()
        if held.refused and not held.is_refusal_said:
            held.is_refusal_said = True
            self._events.record(object_ref(pod), "Warning", held.refused.reason, held.refused.why)
        if now >= held.overdue_at:
            held.overdue_at = math.inf
            what = ("CertificateOverdueForRefresh", "PodCertificate refresh overdue")
            self._events.record(object_ref(pod), "Warning", *what)
        if now >= held.ends_at:
            held.ends_at = math.inf
            self._events.record(object_ref(pod), "Warning", "CertificateExpired", "PodCertificate expired")

    async def _begin(self, pod: Pod, source: PodCertificateProjection, held: _Held) -> None:
        self._follow()
        held.changed = trio.Event()
        try:
            async with self._turns:
                asked = held.under_way = await self._ask(pod, source)
        except ObjectUnavailable as error:
            if held.certificate is None:
                raise
            log.warning("Pod %s keeps its certificate: no newer one: %s", object_ref(pod), error)
            held.refresh_at = trio.current_time() + AGAIN_SECONDS
            return
        self._take(held, asked)  # the watch may have been faster than the answer

    async def _ask(self, pod: Pod, source: PodCertificateProjection) -> _UnderWay:
        """Make a key, and a request of it. Raises ObjectUnavailable."""
        node, meta = self._node(), pod.metadata
        if node is None:
            raise ObjectUnavailable("the node is not registered yet")
        try:
            key_pem, request = await self._new_key(source.key_type)
        except (OSError, ValueError) as error:
            raise ObjectUnavailable(str(error)) from error
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                account = await self._requests.get(SERVICE_ACCOUNTS, _account(pod), meta.namespace)
                body = _body(pod, source, account.uid, node, request)
                made = await self._requests.create(POD_CERTIFICATE_REQUESTS, body, meta.namespace)
        except (ApiError, trio.TooSlowError) as error:
            why = error if isinstance(error, ApiError) else f"no answer within {ANSWER_SECONDS_MAX:g} s"
            raise ObjectUnavailable(f"while creating PodCertificateRequest: {why}") from error
        return _UnderWay((meta.namespace, made.name), key_pem, trio.current_time() + UNSEEN_SECONDS_MAX)

    # ---- what comes of it ----

    def _follow(self) -> None:
        """Begin to watch, unless that is done."""
        if self._informer is not None:
            return
        node = self._node()
        if node is None:
            return
        mine = Selection(fields=f"spec.nodeName={node.metadata.name}")
        made = Informer(self._watches, POD_CERTIFICATE_REQUESTS, mine, _decode, self._outage, self._chance)
        made.add_listener(self._changed)
        self._informer, self._scope = made, trio.CancelScope()
        self._tasks.start_soon(_until_cancelled, made, self._scope)

    def _changed(self, places: Collection[Key]) -> None:
        answered = set()
        for key, held in self._held.items():
            asked = held.under_way
            if asked is None or asked.place not in places:
                continue
            self._take(held, asked)
            # A caller that is waiting just now receives it by that.
            if not held.lock.locked() and (held.under_way is not asked or self._has_gone(asked)):
                answered.add(key.uid)
        self._wake(answered)

    def _take(self, held: _Held, asked: _UnderWay) -> None:
        """Take what has become of a request, if anything has."""
        request = self._informer.objects.get(asked.place) if self._informer is not None else None
        if request is None:
            return
        asked.was_seen = True
        try:
            found = outcome(request)
        except ValueError as error:
            place = "/".join(asked.place)
            found = Refused("Failed", f"the answer to PodCertificateRequest {place} cannot be read: {error}")
        match found:
            case Refused():
                held.refused = found
            case Issued(chain, fresh_seconds, life_seconds):
                held.certificate = PodCertificate(asked.key_pem, chain)
                now = trio.current_time()
                held.refresh_at = now + fresh_seconds + JITTER_SECONDS_MAX * self._chance.random()
                held.overdue_at, held.ends_at = held.refresh_at + OVERDUE_SECONDS, now + life_seconds
            case None:
                return
        held.under_way = None
        held.changed.set()

    def _has_gone(self, asked: _UnderWay) -> bool:
        is_there = self._informer is not None and asked.place in self._informer.objects
        return not is_there and (asked.was_seen or trio.current_time() >= asked.abandon_at)

    def __repr__(self) -> str:
        return f"<PodCertificates: {len(self._held)}>"


async def _until_cancelled(informer: Informer[Request], scope: trio.CancelScope) -> None:
    with scope:
        await informer.run()


def new_key_in_thread() -> Callable[[str], Awaitable[tuple[bytes, bytes]]]:
    """Return a maker of keys, one after another in a thread: a large one takes seconds."""
    threads = ThreadPool("keys of pods", 1)

    async def new_key(key_type: str) -> tuple[bytes, bytes]:
        return await threads.run(partial(_new_key, key_type))

    return new_key


def _new_key(key_type: str) -> tuple[bytes, bytes]:
    from trikubelet.kube.new_certificates import pod_key  # noqa: PLC0415 - 11 MB that few nodes need

    return pod_key(key_type)


def _account(pod: Pod) -> str:
    return pod.spec.service_account_name or "default"


def _wanted(source: PodCertificateProjection) -> bytes:
    signed_for = (
        source.signer_name,
        source.key_type,
        source.max_expiration_seconds,
        sorted(source.user_annotations.items()),
    )
    return msgspec.json.encode(signed_for)


def _body(pod: Pod, source: PodCertificateProjection, account_uid: str, node: Node, request: bytes) -> object:
    meta = pod.metadata
    spec: dict[str, object] = {
        "signerName": source.signer_name,
        "podName": meta.name,
        "podUID": meta.uid,
        "serviceAccountName": _account(pod),
        "serviceAccountUID": account_uid,
        "nodeName": node.metadata.name,
        "nodeUID": node.metadata.uid,
        "stubPKCS10Request": base64.b64encode(request).decode(),
    }
    if source.max_expiration_seconds is not None:
        spec["maxExpirationSeconds"] = source.max_expiration_seconds
    if source.user_annotations:
        spec["unverifiedUserAnnotations"] = source.user_annotations
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": POD_CERTIFICATE_REQUESTS.api_version,
        "kind": POD_CERTIFICATE_REQUESTS.kind,
        "metadata": {"generateName": "req-", "namespace": meta.namespace, "ownerReferences": [owner]},
        "spec": spec,
    }


def _decode(raw: bytes) -> Request:
    return decode_object(raw, Request)
