"""Keeps a certificate of this node fresh: a new one is requested between 70 and 90 percent of the old one's life.

    held ─► sleep until the drawn time ─► request ─► keep ─► notify its users ─► held …
                                             ├ refused ─► drop the key, back off ─► again
                                             ├ server away, disk full ─► back off ─► again, with the same key
                                             └ the new one is due as it comes ─► back off ─► again
    not in use, for example of another node's name, or removed ─► request, as for a node that has none
    its addresses are not known yet ─► wait until the node's status has some
    client certificate expired for five minutes ─► as at the first start, with the bootstrap kubeconfig ─► held …

The time is drawn anew for each certificate, so that nodes that were bootstrapped together do not renew together. Wall
time decides, and is checked at least every minute: a clock that jumps must not sleep through a certificate's end. A new
certificate may be due at once: the signer dropped a requested name, or this node's clock is ahead by more than the
certificate's life. The next one would be the same, so requests back off exponentially, up to every five minutes while
the one in use lasts, and the log gives the reason each time.

An expired client certificate, after an outage longer than its life, cannot request the next one. Upstream ends its
process five minutes later and bootstraps at the next start (upstream-behaviour.md §1.18); here that happens while
everything else goes on. Without a bootstrap kubeconfig that is logged once, and the requests go on, slowly, because it
may be this node's clock that is wrong.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.disk import on_disk
from trikubelet.kit.every import Every
from trikubelet.model.api_errors import ApiError
from trikubelet.model.certificates import CLIENT_SIGNER, CertificateRefused, CertificateUnusable
from trikubelet.model.errors import StartFailed
from trikubelet.node.figures import RotationFigures
from trikubelet.node.signing import sign

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.certificates import Certificate, Subject
    from trikubelet.ports import Api, CertificateStore, Clock

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
SUBJECT_SECONDS: Final = 1.0
"""The time between two checks for a known subject."""
SOON_SECONDS: Final = 5.0
"""A certificate that must be replaced this soon after it was received was due at once."""
EARLIEST: Final = 0.7
LATEST: Final = 0.9
OVER_SECONDS: Final = 300.0
"""How long after its end, by this node's clock, a client certificate is given up; upstream's value."""


class CertificateRotation:
    """Owns when the certificate of one store is replaced; ``figures``: its measurements."""

    def __init__(
        self,
        *,
        api: Api,
        store: CertificateStore,
        subject: Callable[[], Subject | None],
        signer: str,
        clock: Clock,
        changed: Callable[[], None],
        chance: random.Random,
        threads: ThreadPool,
        afresh: Callable[[], Awaitable[object]] | None = None,
        is_known: Callable[[], bool] = lambda: False,
        is_used: Callable[[Certificate], bool] = lambda _: True,
    ) -> None:
        """``subject`` is called before each request, because addresses change; while it is None there is nothing to
        request. ``changed`` is called after each new one. ``threads`` are for keys and files, one at a time for each
        signer. ``afresh`` puts a client certificate in force as for a node that has none, or raises StartFailed; None
        if there is no such way. ``is_known``: true if the server accepts this node, by a token or the kubeconfig's
        certificate, although the store's certificate has expired. ``is_used``: true if the store's certificate is in
        use; otherwise another is requested at once."""
        self._api = api
        self._store = store
        self._subject = subject
        self._signer = signer
        self._clock = clock
        self._changed = changed
        self._chance = chance
        self._threads = threads
        self._afresh = afresh
        self._is_known = is_known
        self._is_used = is_used
        self._given_up = False
        self.figures: Final = RotationFigures(signer)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Rotate until cancelled."""
        task_status.started()
        backoff = Backoff(2.0, 300.0, jitter=0.1, chance=self._chance)
        received_at = float("-inf")
        while True:
            try:
                held = await self._due()
                was_due = trio.current_time() < received_at + SOON_SECONDS
                await self._until_known()
                if was_due:
                    await self._pause(held, self._pause_seconds(held, backoff.next_seconds()))
                await self._replace(held)
            except (ApiError, OSError, StartFailed, CertificateRefused, CertificateUnusable) as error:
                self.figures.failures += 1
                if isinstance(error, CertificateRefused | CertificateUnusable):
                    self._store.drop_request()
                level = logging.DEBUG if self._given_up else logging.WARNING
                log.log(level, "No new certificate from signer %s: %s", self._signer, error)
                await trio.sleep(backoff.next_seconds())
                continue
            if not was_due:
                backoff.reset()
            received_at = trio.current_time()
            if held is not None:
                self.figures.lived.add((self._clock.now_ns() - held.not_before_ns) / SECOND_NS)
            self._changed()

    async def _until_known(self) -> None:
        """Wait until the node has addresses, which a cloud's controller may set."""
        async for _ in Every(SUBJECT_SECONDS):
            if self._subject() is not None:
                return

    def _missing(self, held: Certificate) -> frozenset[str]:
        subject = self._subject()
        return frozenset() if subject is None else subject.names - held.names

    async def _pause(self, held: Certificate | None, seconds: float) -> None:
        """Wait before a certificate is replaced that was due at once."""
        why = "it cannot be read, or is not used" if held is None else self._why_due(held)
        log.warning(
            "The certificate from signer %s must be replaced at once: %s; the next is requested in %.0f s",
            self._signer,
            why,
            seconds,
        )
        await trio.sleep(seconds)

    def _pause_seconds(self, held: Certificate | None, seconds: float) -> float:
        """Return the pause: at most these seconds, and half of the rest of the certificate's life, so that it stays
        valid."""
        left = 0.0 if held is None else (held.not_after_ns - self._clock.now_ns()) / SECOND_NS
        return min(seconds, max(left / 2, SOON_SECONDS)) if left > 0 else seconds

    def _why_due(self, held: Certificate) -> str:
        if missing := sorted(self._missing(held)):
            return f"it is not valid for {', '.join(missing)}, which was requested (check which names the signer drops)"
        begins, ends, now = map(rfc3339, (held.not_before_ns, held.not_after_ns, self._clock.now_ns()))
        return f"it is valid from {begins} until {ends}, but this node's clock shows {now} (check which clock is wrong)"

    async def _replace(self, held: Certificate | None) -> None:
        """Put a new certificate in force. Raises the errors of ``renew`` and ``afresh``."""
        if held is None or not self._is_over(held):
            self._given_up = False
            await self.renew()
            return
        ended = rfc3339(held.not_after_ns)
        if self._afresh is not None:
            log.warning("This node's client certificate was valid until %s: bootstrapping again", ended)
            await self._afresh()
            return
        if not self._given_up:
            log.error(
                "This node's client certificate was valid until %s, and it cannot ask for another without one: "
                "start the agent with --bootstrap-kubeconfig, or with another --kubeconfig",
                ended,
            )
        self._given_up = True
        await self.renew()

    def _is_over(self, held: Certificate) -> bool:
        """True if it cannot be used to request the next one. A serving certificate never is."""
        has_ended = self._clock.now_ns() > held.not_after_ns + OVER_SECONDS * SECOND_NS
        return self._signer == CLIENT_SIGNER and has_ended and not self._is_known()

    async def renew(self) -> Certificate:
        """Request a new certificate now and put it in force. Raises ApiError, CertificateRefused, CertificateUnusable
        and OSError."""
        subject = self._subject()
        if subject is None:
            raise CertificateRefused("this node's addresses are not known any more")
        asking = partial(self._store.request, subject, self._signer)
        request = await on_disk(self._threads, asking, self._signer)
        keeping = partial(self._store.keep, await sign(self._api, request, self._signer))
        found = await on_disk(self._threads, keeping, self._signer)
        log.info("New certificate from signer %s, valid until %s", self._signer, rfc3339(found.not_after_ns))
        return found

    def _held(self) -> Certificate | None:
        """Return the certificate in force; None if it is missing or unusable. Raises OSError."""
        try:
            held = self._store.current()
        except CertificateUnusable as error:
            log.warning("%s", error)
            held = None
        if held is not None and not self._is_used(held):
            held = None
        self.figures.not_after_ns = 0 if held is None else held.not_after_ns
        return held

    async def _due(self) -> Certificate | None:
        """Wait until the certificate in force must be replaced, and return it; None, at once, if there is none."""
        while (held := self._held()) is not None and not await self._is_due(held):
            pass
        return held

    async def _is_due(self, held: Certificate) -> bool:
        """Sleep until this certificate must be replaced; also if its addresses differ, or if it is not in use. False as
        soon as it is no longer in force, because it was removed or replaced by another program."""
        share = EARLIEST + (LATEST - EARLIEST) * self._chance.random()
        due_ns = held.not_before_ns + round((held.not_after_ns - held.not_before_ns) * share)
        async for _ in Every(LOOK_SECONDS):
            left_ns = due_ns - self._clock.now_ns()
            if not self._is_in_force(held):
                return False
            if self._missing(held) or not self._is_used(held):
                return True
            if left_ns < LOOK_SECONDS * SECOND_NS:
                await trio.sleep(max(0, left_ns) / SECOND_NS)
                return self._is_in_force(held)
        raise AssertionError("Every does not end")

    def _is_in_force(self, held: Certificate) -> bool:
        try:
            return self._store.current() == held
        except CertificateUnusable:
            return False  # its next reader reports the fault
