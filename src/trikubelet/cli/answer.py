"""The agent's answer to one request, read as it comes: HTTP/1.1 from a server of our own, over a connection for one
request.

    bytes ─► head ─► a body of so many bytes, of chunks, or to the end of the connection
                └──► 101: what follows is of another protocol

Apart from a library because loading h11, which the agent has, takes a tenth of the time of ``get pods``.
"""

from __future__ import annotations

from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
"""The longest head, and the longest line between two chunks."""
_SWITCHED: Final = 101
_END_OF_HEAD: Final = b"\r\n\r\n"


class NotAnAnswer(ValueError):
    """The bytes that came are no answer; the message says why."""


class Answer:
    """Owns how far the answer has been read. ``status`` is 0 until its head has come; ``is_whole``: nothing more
    belongs to it."""

    def __init__(self) -> None:
        self.status = 0
        self.is_whole = False
        self._held = bytearray()
        self._left: int | None = 0  # of the body, or of the chunk under way; None: all that comes
        self._is_chunked = False

    @property
    def is_changed(self) -> bool:
        """True if the protocol changes behind this answer."""
        return self.status == _SWITCHED

    @property
    def after(self) -> bytes:
        """The bytes that came after the answer."""
        return bytes(self._held)

    def feed(self, data: bytes) -> bytes:
        """The part of the body that the next bytes bring; no bytes are the end of the connection. Raises
        NotAnAnswer, and EOFError where the answer is not whole then."""
        if not data:
            if not self.status or self._left is not None:
                raise EOFError("the answer ends too soon")
            self.is_whole = True
        self._held += data
        while not self.status and (head := self._upto(_END_OF_HEAD)) is not None:
            self._read_head(head)
        if not self.status or self.is_whole:
            return b""
        return self._chunks() if self._is_chunked else self._take()

    def _upto(self, mark: bytes) -> bytes | None:
        """Take what comes before a mark, which is dropped; None where that has not come yet."""
        if (at := self._held.find(mark)) < 0:
            if len(self._held) > HEAD_BYTES_MAX:
                raise NotAnAnswer(f"its head is longer than {HEAD_BYTES_MAX} bytes")
            return None
        found = bytes(self._held[:at])
        del self._held[: at + len(mark)]
        return found

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, code = first.split(" ")[:2] if " " in first else (first, "")
        if not version.startswith("HTTP/1.") or len(code) != 3:
            raise NotAnAnswer(f"it begins with {first[:80]!r}")
        status = _number(code, 10)
        if status < 200 and status != _SWITCHED:  # the answer follows
            return
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.status = status
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        if self._is_chunked:
            self._left = 0
        elif self.is_changed or length is None:
            self._left = None
            self.is_whole = self.is_changed
        else:
            self._left = _number(length, 10)
            self.is_whole = not self._left

    def _take(self) -> bytes:
        """As much of the body, or of the chunk, as has come."""
        size = len(self._held) if self._left is None else min(self._left, len(self._held))
        data = bytes(self._held[:size])
        del self._held[:size]
        if self._left is not None:
            self._left -= size
            self.is_whole = not (self._left or self._is_chunked)
        return data

    def _chunks(self) -> bytes:
        parts = []
        while True:
            parts.append(self._take())
            if self._left or (line := self._upto(b"\r\n")) is None:
                return b"".join(parts)
            if line:  # it is empty behind a chunk
                self._left = _number(line.partition(b";")[0].decode("latin-1").strip(), 16)
                if not self._left:
                    self.is_whole = True
                    return b"".join(parts)


def _number(said: str, base: int) -> int:
    if not said.isascii() or not said.isalnum():
        raise NotAnAnswer(f"a length of {said[:80]!r}")
    try:
        return int(said, base)
    except ValueError:
        raise NotAnAnswer(f"a length of {said[:80]!r}") from None
