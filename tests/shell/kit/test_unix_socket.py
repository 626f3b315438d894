"""Connecting to a Unix socket says why there is no connection."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import trio

from shell.portkit import full_queue
from trikubelet.kit.unix_socket import connect_unix

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_is_sent_arrives(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        async with await connect_unix(tmp_path / "s") as stream:
            await stream.send_all(b"x")
            with listener.accept()[0] as server:
                assert b"x" == server.recv(1)


async def test_a_full_queue_is_an_error_that_says_so(tmp_path: Path) -> None:
    with full_queue(tmp_path / "s"), pytest.raises(BlockingIOError, match="its queue is full: it does not accept"):
        await connect_unix(tmp_path / "s")


async def test_socket_without_a_listener_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await connect_unix(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    with pytest.raises(ConnectionRefusedError):
        await connect_unix(tmp_path / "left")


async def test_connecting_may_be_cancelled(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await connect_unix(tmp_path / "none")
    assert scope.cancelled_caught
