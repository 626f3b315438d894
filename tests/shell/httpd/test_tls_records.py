"""TLS read in one step, beside Trio's own: the same bytes and the same ends, in fewer turns."""

from __future__ import annotations

import itertools
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from trikubelet.httpd.tls_records import RECORDS_MAX, AllRecords
from trikubelet.kit.wide_socket import STEP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

AUTHORITY = trustme.CA()
LEAF = AUTHORITY.issue_cert("n1.test")
GO = (4, 4, 4088, 12288, 16384, 8)
"""The records in which Go's SPDY sends 32 KiB."""


@dataclass
class Peer:
    """A client whose TLS is written by hand, record by record; ``stream`` is the server's end, as Trio has it."""

    version: ssl.TLSVersion
    read_by: type[ssl.SSLObject]
    incoming: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)
    outgoing: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)

    def __post_init__(self) -> None:
        ours, its = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.configure_trust(ours)
        LEAF.configure_cert(its)
        its.minimum_version = its.maximum_version = self.version
        its.sslobject_class = self.read_by
        self.tls = ours.wrap_bio(self.incoming, self.outgoing, server_hostname="n1.test")
        self.wire, far = memory_stream_pair()
        self.stream = trio.SSLStream(far, its, server_side=True, https_compatible=True)

    async def shake_hands(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.stream.do_handshake)
            while True:
                try:
                    self.tls.do_handshake()
                except ssl.SSLWantReadError:
                    await self.flush()
                    self.incoming.write(await self.wire.receive_some())
                else:
                    return await self.flush()

    async def flush(self) -> None:
        await self.wire.send_all(self.outgoing.read())

    def said(self, *sizes: int) -> bytes:
        """Return the bytes on the wire for numbered records of these sizes."""
        for number, size in enumerate(sizes):
            self.tls.write(bytes((number,)) * size)
        return self.outgoing.read()

    def said_all(self) -> bytes:
        """Return the last bytes on the wire."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.outgoing.read()


async def connected(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, by: type[ssl.SSLObject] = AllRecords) -> Peer:
    peer = Peer(version, by)
    await peer.shake_hands()
    return peer


def of(sizes: Sequence[int]) -> bytes:
    return b"".join(bytes((number,)) * size for number, size in enumerate(sizes))


BOTH_VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
BOTH_READERS = pytest.mark.parametrize("by", [ssl.SSLObject, AllRecords])


@BOTH_VERSIONS
async def test_all_records_that_have_come_are_one_piece(version: ssl.TLSVersion) -> None:
    peer = await connected(version)
    await peer.wire.send_all(peer.said(*GO))

    assert of(GO) == await peer.stream.receive_some(65536)


@pytest.mark.parametrize(
    ("records", "turns"),
    [(GO * 8, [8 * sum(GO)]), ((1,) * 200, [RECORDS_MAX, RECORDS_MAX, RECORDS_MAX, 200 - 3 * RECORDS_MAX])],
    ids=["Go's", "tiny"],
)
async def test_a_step_of_gos_records_is_one_turn_and_as_many_tiny_ones_are_several(
    records: Sequence[int], turns: list[int]
) -> None:
    peer = await connected()
    await peer.wire.send_all(peer.said(*records) + peer.said_all())

    assert turns == [len(await peer.stream.receive_some(2 * STEP_BYTES)) for _ in turns]


async def test_trio_by_itself_gives_one_record_at_a_time() -> None:
    """Where this fails, ``AllRecords`` has nothing left to do."""
    peer = await connected(by=ssl.SSLObject)
    await peer.wire.send_all(peer.said(*GO))

    assert b"\0" * 4 == await peer.stream.receive_some(65536)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 60_000), min_size=1, max_size=5),
    asked=st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
)
async def test_however_the_wire_is_cut_and_read_the_bytes_are_the_same(
    sizes: list[int], cuts: list[int], asked: list[int]
) -> None:
    peer = await connected()
    wire, heard = peer.said(*sizes) + peer.said_all(), b""

    async def send() -> None:
        at = 0
        for cut in (*cuts, len(wire)):
            await peer.wire.send_all(wire[at : at + cut])
            at += cut

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        for size in itertools.chain(asked, itertools.repeat(65536)):
            data = await peer.stream.receive_some(size)
            assert len(data) <= size
            heard += data
            if not data:
                break

    assert of(sizes) == heard


@BOTH_VERSIONS
@BOTH_READERS
async def test_a_client_that_has_said_all_may_still_be_told_something(
    version: ssl.TLSVersion, by: type[ssl.SSLObject]
) -> None:
    peer = await connected(version, by)
    await peer.wire.send_all(peer.said(5) + peer.said_all())

    assert of((5,)) == await peer.stream.receive_some(65536)
    assert [b"", b""] == [await peer.stream.receive_some(65536) for _ in range(2)]
    if version is ssl.TLSVersion.TLSv1_3:  # before it, close_notify was meant for both directions (RFC 5246, 7.2.1)
        await peer.stream.send_all(b"answer")
        peer.incoming.write(await peer.wire.receive_some())
        assert b"answer" == peer.tls.read()


@BOTH_READERS
@pytest.mark.parametrize("cut", [0, 1, 7, 30])
async def test_a_connection_that_ends_without_a_word_has_ended_after_its_whole_records(
    by: type[ssl.SSLObject], cut: int
) -> None:
    peer = await connected(by=by)
    first, second = peer.said(100), peer.said(200)
    await peer.wire.send_all(first + second[:cut])
    await peer.wire.send_stream.aclose()

    assert of((100,)) == await peer.stream.receive_some(65536)
    assert b"" == await peer.stream.receive_some(65536)


@BOTH_READERS
async def test_what_came_before_a_forged_record_is_heard_and_nothing_after_it(by: type[ssl.SSLObject]) -> None:
    peer = await connected(by=by)
    first, second, third = peer.said(100), bytearray(peer.said(200)), peer.said(300)
    second[-1] ^= 1
    await peer.wire.send_all(first + second + third)

    assert of((100,)) == await peer.stream.receive_some(65536)
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError):
            await peer.stream.receive_some(65536)


async def test_cancelled_read_within_a_record_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    peer = await connected()
    wire = peer.said(10, 10)
    await peer.wire.send_all(wire[:-1])
    assert b"\0" * 10 == await peer.stream.receive_some(65536)
    with trio.move_on_after(1) as waiting:
        await peer.stream.receive_some(65536)
    assert waiting.cancelled_caught
    await peer.wire.send_all(wire[-1:])

    assert b"\1" * 10 == await peer.stream.receive_some(65536)
