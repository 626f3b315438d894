"""TLS of which all that has come is read in one step.

    SSLContext.sslobject_class = AllRecords ─► trio.SSLStream(…, context) ─► receive_some: every record that is there

A TLS record holds 16 KiB at most, and Go's SPDY sends each of its frames in half a dozen of them, some of four bytes.
Python's ``SSLObject.read`` reads from one record, and ``trio.SSLStream`` calls it once for each ``receive_some``: so
each record is a turn of the event loop, and a copy is written record by record. Here ``read`` goes on for as long as
there are whole records. Handshake, certificates, locks and ends stay Trio's and OpenSSL's.
"""

from __future__ import annotations

import ssl
from typing import Final

RECORD_BYTES_MAX: Final = 16 * 1024
"""The payload of one record (RFC 8446, 5.1)."""
RECORDS_MAX: Final = 64
"""Records in one step, which is a turn of the event loop. Go's SPDY fills a step of 256 KiB with 48
(``kit.wide_socket``); a peer that sends records of a byte has ten thousand in as much."""


class AllRecords(ssl.SSLObject):
    """Owns why nothing can be read any more, found behind data that had to be returned first."""

    _broken: ssl.SSLError | None = None

    def read(self, max_bytes: int = 1024) -> bytes:  # type: ignore[override]  # no caller here reads into a buffer
        """Return the payload of the records that are there, ``RECORDS_MAX`` of them and ``max_bytes`` of it at most;
        b"" once the peer has said its last (close_notify). Raises SSLWantReadError when not even one record is there,
        and what else ``ssl.SSLObject.read`` raises."""
        if self._broken is not None:
            raise self._broken
        # Memory is taken for as much as is asked for, so no more is asked for than one record can say.
        data = super().read(min(max_bytes, RECORD_BYTES_MAX))
        pieces, left = [data], max_bytes - len(data)
        while data and left and len(pieces) < RECORDS_MAX:
            try:
                data = super().read(min(left, RECORD_BYTES_MAX))
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                self._broken = error
                break
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces)
