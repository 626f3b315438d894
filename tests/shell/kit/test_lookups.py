"""Lookups: names are looked up in threads that nothing else needs."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
import trio

from trikubelet.kit.lookups import LOOKUPS_MAX, Lookups

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


def refuse_names(asked: tuple[Any, ...]) -> None:
    """Trio asks first, and in no thread, whether the name is an address already."""
    if asked[-1] & socket.AI_NUMERICHOST:
        raise socket.gaierror(socket.EAI_NONAME, "not an address")


async def test_a_name_server_that_does_not_answer_stops_lookups_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def hanging(*asked: Any) -> list[Any]:
        refuse_names(asked)
        answered.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    Lookups.use()
    found: list[Any] = []

    async def look_up() -> None:
        found.extend(await trio.socket.getaddrinfo("api.test", 80))

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(LOOKUPS_MAX + 50):  # more than Trio has threads for everybody
                nursery.start_soon(look_up)
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(60):
                assert "something else" == await trio.to_thread.run_sync(lambda: "something else")
            assert [] == found
            answered.set()
    finally:
        answered.set()

    assert LOOKUPS_MAX + 50 == len(found)


async def test_a_name_that_does_not_exist_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    Lookups.use()

    with pytest.raises(OSError, match="not known"):
        await trio.open_tcp_stream("no.such.host", 443)
