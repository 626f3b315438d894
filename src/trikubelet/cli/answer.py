"""Parses the agent's answer to one request as it arrives: HTTP/1.1 from our own server, over a connection for one
request.

    bytes ─► head ─► a body of known length, of chunks, or to the end of the connection
                └──► 101: the rest belongs to another protocol

No library is used because loading h11, which the agent has, takes a tenth of the time of ``get pods``.
"""

from __future__ import annotations

from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
"""Bytes of the longest head, and of the longest line between two chunks."""
_SWITCHED: Final = 101
_END_OF_HEAD: Final = b"\r\n\r\n"


class NotAnAnswer(ValueError):
    """The bytes are not an HTTP answer; the message has the reason."""


class Answer:
    """Owns the parser's state. ``status`` is 0 until the head is complete; ``is_whole``: the answer is complete."""

    def __init__(self) -> None:
        self.status = 0
        self.is_whole = False
        self._held = bytearray()
        self._left: int | None = 0  # of the body, or of the current chunk; None: until the connection's end
        self._is_chunked = False

    @property
    def is_changed(self) -> bool:
        """True if the protocol changes after this answer."""
        return self.status == _SWITCHED

    @property
    def after(self) -> bytes:
        """Return the bytes after the answer."""
        return bytes(self._held)

    def feed(self, data: bytes) -> bytes:
        """Return the part of the body in the next bytes; no bytes are the end of the connection. Raises NotAnAnswer,
        and EOFError if the answer is incomplete then."""
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
        """Take the bytes before a mark, and drop the mark; None if it has not arrived yet."""
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
        """Take the available bytes of the body, or of the chunk."""
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
