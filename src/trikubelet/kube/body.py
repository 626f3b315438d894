"""Reads the body of a response, within bounds, and leaves one that is not read to its end.

A body is taken as it came, or unpacked with gzip, once. A server that packs it in another way, or twice, was not asked
to: a few kilobytes packed twice are gigabytes when they are unpacked, and httpx would unpack all of it before the
count.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from trikubelet.kube.transport import Body
from trikubelet.model.api_errors import ApiFailure

if TYPE_CHECKING:
    import httpx

_GZIP: Final = 16 + zlib.MAX_WBITS
_IS_GZIP: Final = {"": False, "identity": False, "gzip": True, "x-gzip": True}
"""The accepted values of Content-Encoding, in lower case; RFC 9110 has the last two as one."""
_SHOWN_CHARS_MAX: Final = 100
_GOES_ON: Final = "the answer goes on behind the end of what is packed"


async def read_body(response: httpx.Response, bytes_max: int) -> bytearray:
    """The whole body, unpacked. Raises ApiFailure when it is larger than ``bytes_max``, does not unpack, or is packed
    otherwise than with gzip, once, and what the transport raises."""
    body, chunks = bytearray(), _body_of(response)
    unpacker = zlib.decompressobj(_GZIP)
    try:
        packed = _is_packed(response)
        async for chunk in chunks:
            if unpacker.eof:  # it would keep all that is still to come, and count nothing of it
                raise ApiFailure(_GOES_ON)
            # One byte more than is allowed is enough to know, whatever a small packet blows up to.
            body += unpacker.decompress(chunk, bytes_max - len(body) + 1) if packed else chunk
            if len(body) > bytes_max:
                raise ApiFailure(f"the answer is larger than {bytes_max} bytes")
    except zlib.error as error:
        raise ApiFailure(f"the answer does not unpack: {error}") from error
    finally:
        chunks.close()
    if packed and not unpacker.eof:
        raise ApiFailure("the answer ends in the middle of what is packed")
    if unpacker.unused_data:
        raise ApiFailure(_GOES_ON)
    return body


def plain_body(response: httpx.Response) -> Body:
    """Return the rest of a response that is read as it comes. Raises ApiFailure where it is packed; then it is left."""
    body = _body_of(response)
    try:
        if _is_packed(response):
            raise ApiFailure("the answer is packed, which it was not to be (Content-Encoding: gzip)")
    except ApiFailure:
        body.close()
        raise
    return body


def _body_of(response: httpx.Response) -> Body:
    assert isinstance(response.stream, Body)  # our own transport has brought it
    return response.stream


def _is_packed(response: httpx.Response) -> bool:
    coding = response.headers.get("content-encoding", "").strip()
    is_gzip = _IS_GZIP.get(coding.lower())
    if is_gzip is None:
        shown = coding[:_SHOWN_CHARS_MAX]
        raise ApiFailure(f"the answer is packed in a way that is not read here (Content-Encoding: {shown})")
    return is_gzip
