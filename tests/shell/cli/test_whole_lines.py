"""Lines where others write between: none is torn, but one without an end."""

from __future__ import annotations

import pytest

from trikubelet.cli.whole_lines import LINE_BYTES_MAX, WholeLines


@pytest.mark.parametrize(
    ("blocks", "shown", "rest"),
    [
        ([b"a\nb\n"], [b"> a\n> b\n"], b""),
        ([b"a", b"b", b"c\nd"], [b"", b"", b"> abc\n"], b"> d"),
        ([b"\n\n", b"", b"a\n"], [b"> \n> \n", b"", b"> a\n"], b""),
    ],
)
def test_a_line_is_shown_when_it_has_ended(blocks: list[bytes], shown: list[bytes], rest: bytes) -> None:
    lines = WholeLines(b"> ")

    assert shown == [lines.of(block) for block in blocks]
    assert rest == lines.rest()


def test_a_line_without_an_end_is_broken() -> None:
    lines, part = WholeLines(b"> "), b"x" * (LINE_BYTES_MAX // 4)

    assert [b"", b"", b"", b"", b"> " + 5 * part + b"\n", b""] == [lines.of(part) for _ in range(6)]
    assert b"> " + part == lines.rest()
