"""Which pods may use an image that is on the node: checked before each use, recorded when an image was pulled.

    begin ─► pull ─┬─ succeeded ─► record (with the credentials that worked), intent removed
                   ├─ failed ────► intent removed
                   └─ cut short ─► the intent stays: pods must show credentials for the image it may have left

The decisions are ``core.pull_rights``. Errors fail closed: a record that cannot be read proves nothing, and an image
whose record cannot be written keeps its intent.
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
    """Owns the records, the images pulled since the last ``tidy``, and the images of which an interrupted pull may have
    left something. Without a ``policy`` nothing is recorded and every pod may use every image on the node."""

    def __init__(self, records: PullRecords, policy: VerificationPolicy | None, clock: Clock) -> None:
        self._records = records
        self._policy = policy
        self._clock = clock
        self._one_writer = trio.Lock()
        self._just_pulled: set[str] = set()
        self._left: set[str] = set()

    async def may_have(self, image: str, image_ref: str, find: Callable[[], Awaitable[Sequence[Credential]]]) -> bool:
        """True if a pod may use an image that is on the node as ``image_ref``; ``find`` looks up its credentials, and
        is called only if they are needed."""
        if self._policy is None:
            return True
        try:
            record, is_ours = await self._known(image, image_ref)
        except OSError as error:
            log.warning("Pulling %s again: cannot read the record of the credentials for it: %s", image, error)
            return False
        if not self._policy.must_prove(image, pulled_by_us=is_ours):
            return True
        return record is not None and await self.has_shown(image, image_ref, await find())

    async def has_shown(self, image: str, image_ref: str, credentials: Sequence[Credential]) -> bool:
        """True if the records show that these credentials give access to the image, whatever the policy."""
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
            log.warning("Pulling %s again: cannot read its record: %s", image, error)
            return False
        return True

    async def _keep_proofs(self, image: str, kept: PulledRecord) -> None:
        """Record additional credentials for an image. A failure is only logged, because the right is proved already."""
        try:
            await self._records.keep(kept)
        except OSError as error:
            log.warning("Cannot record additional credentials for %s: %s", image, error)

    async def begin(self, image: str) -> None:
        """Record that the image is about to be pulled; it is in ``busy`` already. Raises OSError: do not pull then."""
        if self._policy is None:
            return
        async with self._one_writer:
            # An intent from before: that pull was cut short. The failure of this one must not remove its intent.
            if await self._records.is_intended(image):
                self._left.add(image)
            else:
                await self._records.intend(image)

    async def succeeded(self, image: str, image_ref: str, credential: Credential | None) -> None:
        """Record that the image was pulled, with this credential or, if None, without one."""
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
            log.warning("Cannot record the pull of %s; pods must show their credentials again: %s", image, error)

    async def failed(self, image: str) -> None:
        """Record that the image was not pulled. The intent of an earlier, interrupted pull stays until ``tidy``."""
        if self._policy is None or image in self._left:
            return
        try:
            await self._settle(image)
        except OSError as error:
            log.warning("Cannot remove the record that %s is being pulled: %s", image, error)

    async def tidy(self, list_images: Callable[[], Awaitable[Sequence[ImageInfo]]], busy: Collection[str]) -> None:
        """Remove the records of images that are no longer on the node, and settle the intents of pulls that were cut
        short: all except ``busy``, the pulls in progress. Raises OSError and the errors of ``list_images``."""
        if self._policy is None:
            return
        # Before the listing: an image that is pulled while it is awaited is not in it, and must keep its record.
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
                # The image may have been pulled again since the listing.
                if record.image_ref not in known and record.image_ref not in self._just_pulled:
                    await self._records.forget(record.image_ref)

    async def _give_up(self, image: str, there: Sequence[str], busy: Collection[str]) -> None:
        """Settle the intent of a pull that was cut short: its images are recorded as pulled by the agent, without any
        credentials."""
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
        """Return the record of an image, and whether the agent pulled the image."""
        try:
            record = await self._records.pulled(image_ref)
        except ValueError as error:
            log.warning("Cannot read a record of pulled images; it proves nothing: %s", error)
            return None, True  # fails closed: an image pulled by the agent needs a proof, a preloaded one does not
        return record, record is not None or await self._records.is_intended(image)

    def _now(self) -> str:
        return rfc3339(self._clock.now_ns())
