"""Lines joined out of a log's records, of which no more is held than a bound."""

from __future__ import annotations

import tracemalloc

from trikubelet.host.logs import LogLine
from trikubelet.server.log_lines import LINE_BYTES_MAX, Joiner

PART = b"y" * 16384
NO_PLACE = (0, 0)


def test_a_line_too_long_to_hold_comes_in_pieces_of_no_more_than_a_part_beyond_the_bound() -> None:
    joiner = Joiner()
    parts = [*[PART] * 100, b"end\n"]
    fed = [joiner.feed(LogLine("t", "stdout", part), NO_PLACE) for part in parts]

    pieces = [piece for piece in fed if piece is not None]
    assert b"".join(parts) == b"".join(piece.text for piece in pieces)
    assert [LINE_BYTES_MAX, 100 * len(PART) + 4 - LINE_BYTES_MAX] == [len(piece.text) for piece in pieces]
    assert [True, False] == [piece.starts for piece in pieces]


def test_parts_of_nothing_and_of_single_characters_take_no_memory_each() -> None:
    joiner = Joiner()
    tracemalloc.start()
    for text in (b"", b"y"):
        for number in range(200_000):
            assert joiner.feed(LogLine("t", "stdout", text), (0, number)) is None
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [((0, 199_999), b"y" * 200_000)] == [(piece.at, piece.text) for piece in joiner.rest()]
    assert held < 1_000_000
