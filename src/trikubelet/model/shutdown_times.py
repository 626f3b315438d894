"""When a node's pods were ended because its machine went down."""

from __future__ import annotations

import msgspec


class ShutdownTimes(msgspec.Struct, frozen=True, rename="camel"):
    """Times of the last shutdown: when the first pods were asked to end, and when the wait for the last one ended. RFC
    3339, "" for never; no end means that the machine was gone before."""

    start_time: str = ""
    end_time: str = ""
