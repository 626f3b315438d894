"""One contract for any API server behind ``ports.Api``: what the agent relies on.

In scope: names and UIDs, versions and preconditions, merging, the two halves of an object, which statuses are refused,
how pods end, pages, watches, and reviews. Out of scope: what time alone brings (bookmarks, old versions that are
forgotten), and what admission adds. A test file makes a `Subject` in a fixture ``subject`` and lets a class inherit
from ``ApiContract``. ``clock`` is an autojump clock where time is virtual, and nothing in particular where it is not.
"""

from __future__ import annotations

from contract.api_objects import Merging, Names, Versions
from contract.api_pods import EphemeralContainers, Nodes, Pods, Tokens
from contract.api_reading import Lists, Watches
from contract.api_reviews import Reviews
from contract.api_statuses import Statuses


class ApiContract(
    Names, Versions, Merging, Pods, Statuses, EphemeralContainers, Tokens, Nodes, Lists, Watches, Reviews
):
    """The whole contract."""
