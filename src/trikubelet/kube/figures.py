"""How an API server was asked: upstream's ``rest_client_…`` metrics, and how often for each pod.

ApiClient ─► answered(host, method, code, …) ─► by host, method and code
          └► asked(method, path) ─► of the pod in the path, from there(namespace, name) to over(namespace, name)
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Final

from trikubelet.kit.distribution import Distributions

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Upper bounds of how long requests take: upstream's."""
BYTES: Final = (
    *(64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0),
    *(262144.0, 1048576.0, 4194304.0, 16777216.0),
)
"""Upper bounds of what is sent and received: upstream's."""
REQUESTS: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0)
VERBS: Final = ("GET", "PATCH", "DELETE")
"""The requests about a pod that has a name."""
FAILED: Final = "<error>"
"""Upstream's label in place of a code where there was no answer."""

_POD: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/?]+)")


class ApiFigures:
    """Owns what was measured. By host and method: ``durations`` until an answer began, ``sent`` and ``received`` bytes
    of bodies; by code, method and host: ``answers``, and ``retries``, those that put a question off. By method:
    ``of_pods``, how often each pod that is gone now was asked about or written while the API server had it."""

    def __init__(self) -> None:
        by_bytes = partial(Distributions[tuple[str, str]], BYTES)
        self.durations: Distributions[tuple[str, str]] = Distributions(SECONDS)
        self.sent, self.received = by_bytes(), by_bytes()
        self.answers: Counter[tuple[str, str, str]] = Counter()
        self.retries: Counter[tuple[str, str, str]] = Counter()
        self.of_pods: Distributions[str] = Distributions(REQUESTS)
        self._living: dict[tuple[str, str], Counter[str]] = {}

    def asked(self, method: str, path: str) -> None:
        """A request begins. It is counted now: the answer to a pod's last one may come after the watch reported its
        end."""
        if (pod := _POD.search(path)) is not None and (counts := self._living.get((pod[1], pod[2]))) is not None:
            counts[method] += 1

    def answered(self, host: str, method: str, code: str, seconds: float, sent_bytes: int) -> None:
        """An answer began, or will not come (``FAILED``)."""
        self.durations[method, host].add(seconds)
        self.answers[code, method, host] += 1
        self.sent[method, host].add(sent_bytes)

    def there(self, namespace: str, name: str) -> None:
        """The API server has that pod, until it is ``over``. Only of such pods anything is kept."""
        self._living.setdefault((namespace, name), Counter())

    def over(self, namespace: str, name: str) -> None:
        """The API server has no such pod any more."""
        counts = self._living.pop((namespace, name), None)
        if counts is not None:
            for verb in VERBS:
                self.of_pods[verb].add(counts[verb])

    def __repr__(self) -> str:
        return f"<ApiFigures: {self.answers.total()} answers, {len(self._living)} pods>"
