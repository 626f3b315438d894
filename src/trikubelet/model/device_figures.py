"""The measurements of device plugins and of the pod resources API, as plain data."""

from __future__ import annotations

from collections import Counter

from trikubelet.kit.distribution import Distributions


class DeviceFigures:
    """Owns the counts of registrations and the seconds of allocations, both by resource, and the counts of calls to the
    pod resources API: by method (``list``, ``get``, ``get_allocatable``) and version. ``errors``: those calls that
    failed; a call that the rate limit refused is in neither."""

    def __init__(self) -> None:
        self.registrations: Counter[str] = Counter()
        self.allocations: Distributions[str] = Distributions()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
