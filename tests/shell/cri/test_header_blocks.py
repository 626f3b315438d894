"""Remembered header blocks: whatever is said in whatever order, with tables of whatever size, both ends understand the
same as without a memory.
"""

from __future__ import annotations

from hpack import Decoder, Encoder
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.cri import header_blocks
from trikubelet.cri.header_blocks import HeaderBlocks

Fields = tuple[tuple[bytes, bytes], ...]

# Few names and values, so that they come again; two of the names are in HPACK's own table.
fields = st.lists(
    st.tuples(
        st.sampled_from([b":path", b"content-type", b"x", b"grpc-status"]), st.sampled_from([b"", b"0", b"ab" * 9])
    ),
    max_size=4,
).map(tuple)
steps = st.lists(st.one_of(fields, fields, fields, st.sampled_from([0, 40, 100, 4096])), max_size=40)


def resize(encoder: Encoder, size: int) -> None:
    if size != encoder.header_table_size:  # told the same size twice, hpack forgets to tell the other end of the first
        encoder.header_table_size = size


@given(steps)
def test_blocks_written_from_memory_mean_what_was_to_be_said(said: list[Fields | int]) -> None:
    encoder, decoder = Encoder(), Decoder()
    blocks = HeaderBlocks[Fields, bytes](encoder.header_table)
    for step in said:
        if isinstance(step, int):
            resize(encoder, step)
            continue
        block = blocks.recall(step)
        if block is None:
            block = encoder.encode(step)
            blocks.remember(step, block)

        assert list(step) == [tuple(field) for field in decoder.decode(block, raw=True)]


@given(steps)
def test_blocks_read_from_memory_mean_what_hpack_makes_of_them(said: list[Fields | int]) -> None:
    encoder, decoder = Encoder(), Decoder()
    blocks = HeaderBlocks[bytes, Fields](decoder.header_table)
    for step in said:
        if isinstance(step, int):
            resize(encoder, step)
            continue
        block = encoder.encode(step)
        meaning = blocks.recall(block)
        if meaning is None:
            meaning = tuple((name, value) for name, value in decoder.decode(block, raw=True))
            blocks.remember(block, meaning)

        assert step == meaning


def test_what_comes_again_is_known_as_soon_as_the_table_stands_still() -> None:
    encoder, said = Encoder(), ((b"x", b"y"),)
    blocks = HeaderBlocks[Fields, bytes](encoder.header_table)

    for expected in (None, None, b"\xbe"):  # first it changes the table, then it is the table's first entry
        assert expected == blocks.recall(said)
        blocks.remember(said, encoder.encode(said))


def test_no_more_is_remembered_than_the_limit() -> None:
    blocks = HeaderBlocks[int, int](HeaderTable())
    for number in range(header_blocks.REMEMBERED_MAX + 1):
        assert blocks.recall(number) is None
        blocks.remember(number, number)

    assert blocks.recall(0) is None
    assert header_blocks.REMEMBERED_MAX == blocks.recall(header_blocks.REMEMBERED_MAX)
