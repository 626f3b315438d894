"""Reads the body of a response, within bounds, and leaves one that is not read to its end."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from trikubelet.kube.transport import Body
from trikubelet.model.api_errors import ApiFailure

if TYPE_CHECKING:
    import httpx

_GZIP: Final = 16 + zlib.MAX_WBITS


def body_of(response: httpx.Response) -> Body:
    """What is still to come of a response that our own transport has brought."""
    assert isinstance(response.stream, Body)
    return response.stream


async def read_body(response: httpx.Response, bytes_max: int) -> bytearray:
    """The whole body, unpacked. Raises ApiFailure when it is larger than ``bytes_max`` or does not unpack, and what
    the transport raises."""
    packed = response.headers.get("content-encoding", "identity") == "gzip"
    unpacker = zlib.decompressobj(_GZIP)
    body, chunks = bytearray(), body_of(response)
    try:
        async for chunk in chunks:
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
    return body
