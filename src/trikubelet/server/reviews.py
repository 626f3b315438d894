"""Sends TokenReviews and SubjectAccessReviews, by which the API server authenticates and authorizes callers.

Both are objects that the API server answers at once and never stores. They have connections of their own, so that
callers with invented tokens delay no heartbeat. A failed review raises, and the request is rejected.

Clients can invent tokens faster than they are reviewed. So some of those connections are reserved for authenticated
callers. Tokens use the others in turn, by the network they came from: a client that invents tokens delays only its own
network.
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
"""Time for a review, in seconds. Callers time out later, and the API server's own client waits longer."""
TOKEN_REVIEWS_MAX: Final = 6
"""Concurrent token reviews, fewer than there are connections (``app.member.REVIEW_CONNECTIONS_MAX``)."""
TOKENS_WAITING_MAX: Final = 64
"""Queued token reviews: the queue takes ten seconds if a review takes one, and a fifth of a second if it takes 20 ms.
"""


class Reviews:
    """Sends the reviews of one node. ``api``: the API server once there is one; ``outage``: is notified of successes
    and failures."""

    def __init__(self, node_name: str, api: Callable[[], Api | None], outage: Outage) -> None:
        self._node_name = node_name
        self._api = api
        self._token_places = FairPlaces(TOKEN_REVIEWS_MAX, TOKENS_WAITING_MAX)
        self._outcomes = RequestOutcomes("reviewing who asks this node", outage)

    async def holder(self, token: str, network: str) -> Caller | None:
        """Return the user of a token that came from a network; None if it is invalid. Raises ApiError if the review
        fails, and Crowded if the queue is full or the deadline would expire before the token's turn."""
        body = k8s.TokenReview(spec=k8s.TokenReviewSpec(token=token))
        # Waiting longer would cut the review off, and that would look like an invalid token.
        begins_until = trio.current_effective_deadline() - ANSWER_SECONDS_MAX
        async with self._token_places.place(network, begins_until):
            status = (await self._reviewed(TOKEN_REVIEWS, body, k8s.TokenReview)).status
        if status is None or not status.authenticated or status.user is None:
            return None
        user = status.user
        extra = {key: tuple(values) for key, values in user.extra.items()}
        return recognised(user.username, user.groups, user.uid, extra)

    async def allows(self, caller: Caller, verb: str, subresource: str) -> bool:
        """True if the caller may do that to this node's subresource. Raises ApiError if the review fails."""
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
        """Return the review with its answer."""
        try:
            found = await self._create(resource, review)
        except ApiError as error:
            self._outcomes.failed(error)
            raise
        self._outcomes.worked()
        try:
            return decode_object(found, type_)
        except msgspec.DecodeError as error:
            raise ApiFailure(f"the server's answer is not a {resource.kind}: {error}") from error

    async def _create(self, resource: Resource, review: object) -> bytes:
        api = self._api()
        if api is None:
            raise ApiUnreachable("this node has not joined its cluster yet")
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            return (await api.create(resource, review)).raw
        raise ApiLost(f"no answer to a {resource.kind} within {ANSWER_SECONDS_MAX:g} s")
