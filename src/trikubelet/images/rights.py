"""Who may have an image that is on the node: asked before one is given out, written down when one was pulled.

    begin ─► pull ─┬─ succeeded ─► record (who showed his right), intent gone
                   ├─ failed ────► intent gone
                   └─ cut short ─► the intent stays: whoever wants what came of it shows his right

The decisions are ``core.pull_rights``. What cannot be read is no proof, and what cannot be written gives none away: an
image whose record is missing keeps its intent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.pull_rights import proof_of, with_proof, with_proofs
from trikubelet.core.timestamps import rfc3339
from trikubelet.model.pull_records import PulledRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from trikubelet.core.pull_rights import VerificationPolicy
    from trikubelet.model.registry import Credential
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.ports import Clock, PullRecords

log = logging.getLogger(__name__)


class PullRights:
    """Owns the records, which images were pulled since they were last looked through, and of which an earlier pull may
    have left something. With no ``policy`` nothing is
    written and everybody may have what is there."""

    def __init__(self, records: PullRecords, policy: VerificationPolicy | None, clock: Clock) -> None:
        self._records = records
        self._policy = policy
        self._clock = clock
        self._one_writer = trio.Lock()
        self._just_pulled: set[str] = set()
        self._left: set[str] = set()

    async def may_have(self, image: str, image_ref: str, find: Callable[[], Awaitable[Sequence[Credential]]]) -> bool:
        """Whether a pod may have an image that is there as ``image_ref``; ``find`` brings its credentials, if they are
        needed."""
        if self._policy is None:
            return True
        try:
            record, is_ours = await self._known(image, image_ref)
        except OSError as error:
            log.warning("%s is pulled again, because the record of who may have it cannot be read: %s", image, error)
            return False
        if not self._policy.must_prove(image, pulled_by_us=is_ours):
            return True
        return record is not None and await self.has_shown(image, image_ref, await find())

    async def has_shown(self, image: str, image_ref: str, credentials: Sequence[Credential]) -> bool:
        """Whether somebody with these credentials may have it by what is written down, whatever the policy."""
        if self._policy is None:
            return False
        try:
            async with self._one_writer:
                record, _ = await self._known(image, image_ref)
                proofs = proof_of(record, image, credentials)
                if record is None or proofs is None:
                    return False
                kept = with_proofs(record, image, proofs, self._now())
                if kept is not record:
                    await self._keep_proofs(image, kept)
        except OSError as error:
            log.warning("%s is pulled again, because what is known of it cannot be read: %s", image, error)
            return False
        return True

    async def _keep_proofs(self, image: str, kept: PulledRecord) -> None:
        """Write down another way to prove a right that is proved already; it is proved anew where that fails."""
        try:
            await self._records.keep(kept)
        except OSError as error:
            log.warning("Another proof of who may have %s cannot be written down: %s", image, error)

    async def begin(self, image: str) -> None:
        """The image is about to be pulled, and is among ``busy``. Raises OSError: then it must not be."""
        if self._policy is None:
            return
        async with self._one_writer:
            if await self._records.is_intended(image):
                self._left.add(image)
            else:
                await self._records.intend(image)

    async def succeeded(self, image: str, image_ref: str, credential: Credential | None) -> None:
        """It was pulled, by that credential or by nobody in particular."""
        if self._policy is None:
            return
        try:
            async with self._one_writer:
                self._just_pulled.add(image_ref)
                record, _ = await self._known(image, image_ref)
                kept = with_proof(record, image, image_ref, credential, self._now())
                if kept != record:
                    await self._records.keep(kept)
            await self._settle(image)
        except OSError as error:
            log.warning("Who may have %s cannot be written down, so everybody has to prove it again: %s", image, error)

    async def failed(self, image: str) -> None:
        """It was not pulled. What an earlier pull may have left has its intent still: that is tidied away."""
        if self._policy is None or image in self._left:
            return
        try:
            await self._settle(image)
        except OSError as error:
            log.warning("The note that %s was to be pulled stays: %s", image, error)

    async def tidy(self, list_images: Callable[[], Awaitable[Sequence[ImageInfo]]], busy: Collection[str]) -> None:
        """Forget the records of images that are not there any more, and settle the intents of pulls that were cut
        short: all but those of ``busy``, the pulls under way now. Raises what the lister raises, and OSError."""
        if self._policy is None:
            return
        self._just_pulled.clear()
        left, records = await self._records.intents(), await self._records.all_pulled()
        if not left and not records:
            return
        images = await list_images()
        for image in left:
            there = [one.id for one in images if image in (*one.repo_tags, *one.repo_digests, one.id)]
            await self._give_up(image, there, busy)
        known = {image.id for image in images}
        for record in records:
            async with self._one_writer:
                # It may have come back since it was not among the images.
                if record.image_ref not in known and record.image_ref not in self._just_pulled:
                    await self._records.forget(record.image_ref)

    async def _give_up(self, image: str, there: Sequence[str], busy: Collection[str]) -> None:
        """A pull was cut short: what came of it is ours, and nobody has shown his right to it."""
        async with self._one_writer:
            if image in busy:
                return
            for image_ref in there:
                record, _ = await self._known(image, image_ref)
                if record is None:
                    await self._records.keep(PulledRecord(image_ref=image_ref, last_updated_time=self._now()))
            await self._settle(image)

    async def _settle(self, image: str) -> None:
        await self._records.settle(image)
        self._left.discard(image)

    async def _known(self, image: str, image_ref: str) -> tuple[PulledRecord | None, bool]:
        """What is written down of an image, and whether it was we who pulled it."""
        try:
            record = await self._records.pulled(image_ref)
        except ValueError as error:
            log.warning("A record of pulled images cannot be read, and proves nothing: %s", error)
            return None, True
        return record, record is not None or await self._records.is_intended(image)

    def _now(self) -> str:
        return rfc3339(self._clock.now_ns())
