"""Asks the API server who somebody is and what they may: TokenReview and SubjectAccessReview.

Both are objects that are created and answered in the same breath, and never stored. The node asks over connections of
their own, so that callers with made-up tokens delay no heartbeat. What cannot be asked raises: whoever asks fails
closed.

Anybody can make up tokens, faster than they are reviewed. So of those connections some are kept for what is asked about
callers who are known, and tokens have the others in turn, by the network they came from: who makes them up waits for
himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import trio

from trikubelet.kit.fair_queue import FairPlaces
from trikubelet.model import k8s
from trikubelet.model.api import ACCESS_REVIEWS, TOKEN_REVIEWS
from trikubelet.model.api_errors import ApiError, ApiFailure, ApiLost, ApiUnreachable
from trikubelet.model.callers import Caller, recognised
from trikubelet.model.decoding import decode_object
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.kit.outage import Outage
    from trikubelet.model.api import Resource
    from trikubelet.ports import Api

T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 10.0
"""A caller is answered no sooner than a client gives up, and the API server's own client waits for longer."""
TOKEN_REVIEWS_MAX: Final = 6
"""At a time, less than there are connections (``app.member.REVIEW_CONNECTIONS_MAX``)."""
TOKENS_WAITING_MAX: Final = 64
"""Beyond those: ten seconds where a review takes one, and a fifth of a second where it takes 20 ms."""


class Reviews:
    """Asks for one node. ``api`` is the API server once there is one; ``outage`` is notified of how it answers."""

    def __init__(self, node_name: str, api: Callable[[], Api | None], outage: Outage) -> None:
        self._node_name = node_name
        self._api = api
        self._token_places = FairPlaces(TOKEN_REVIEWS_MAX, TOKENS_WAITING_MAX)
        self._outcomes = RequestOutcomes("reviewing who asks this node", outage)

    async def holder(self, token: str, network: str) -> Caller | None:
        """Whose token it is that came from a network; None when it is nobody's. Raises ApiError when that cannot be
        found out, and Crowded where too many others want to know such a thing: more than may wait, or so many that
        there is no time for an answer any more when its turn comes."""
        body = k8s.TokenReview(spec=k8s.TokenReviewSpec(token=token))
        # Who waits on would be cut off amid a review, and that would look like a token that is nobody's.
        begins_until = trio.current_effective_deadline() - ANSWER_SECONDS_MAX
        async with self._token_places.place(network, begins_until):
            status = (await self._reviewed(TOKEN_REVIEWS, body, k8s.TokenReview)).status
        if status is None or not status.authenticated or status.user is None:
            return None
        user = status.user
        extra = {key: tuple(values) for key, values in user.extra.items()}
        return recognised(user.username, user.groups, user.uid, extra)

    async def allows(self, caller: Caller, verb: str, subresource: str) -> bool:
        """Whether the caller may do that to this node's subresource. Raises ApiError when that cannot be found out."""
        wanted = k8s.ResourceAttributes(
            verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node_name
        )
        spec = k8s.SubjectAccessReviewSpec(
            user=caller.name, uid=caller.uid, groups=caller.groups, extra=dict(caller.extra), resource_attributes=wanted
        )
        review = k8s.SubjectAccessReview(spec=spec)
        status = (await self._reviewed(ACCESS_REVIEWS, review, k8s.SubjectAccessReview)).status
        return status is not None and status.allowed and status.denied is not True

    async def _reviewed(self, resource: Resource, review: T, type_: type[T]) -> T:
        """The review with its answer."""
        try:
            found = await self._create(resource, review)
        except ApiError as error:
            self._outcomes.failed(error)
            raise
        self._outcomes.worked()
        try:
            return decode_object(found, type_)
        except msgspec.DecodeError as error:
            raise ApiFailure(f"the server's answer is no {resource.kind}: {error}") from error

    async def _create(self, resource: Resource, review: object) -> bytes:
        api = self._api()
        if api is None:
            raise ApiUnreachable("this node has not joined its cluster yet")
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            return (await api.create(resource, review)).raw
        raise ApiLost(f"nothing was heard of a {resource.kind} for {ANSWER_SECONDS_MAX:g} s")
