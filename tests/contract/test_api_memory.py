"""The memory API server keeps the contract, on virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from contract.api_subject import Subject
from contract.api_suite import ApiContract
from trikubelet.model.api import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, ChangeKind
from trikubelet.model.api_errors import Expired
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.world import wall_ns


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Virtual time."""
    return autojump_clock


@pytest.fixture
async def subject(clock: MockClock) -> Subject:
    """A server of its own for each test."""
    server = ApiServer(wall_ns)
    server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    return Subject(MemoryApi(server), "default", "this-test")


class TestMemoryApi(ApiContract):
    """The whole contract, and what a real server does in time or when it starts again."""

    async def test_a_watch_from_a_forgotten_version_has_expired(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")
        await subject.config_map("two")
        server(subject).store.forget()

        with pytest.raises(Expired):
            await changes_after(subject, made.resource_version)

    async def test_a_token_from_a_forgotten_version_has_expired(self, subject: Subject, clock: object) -> None:
        for name in ("one", "two", "three"):
            await subject.config_map(name)
        page = await subject.api.list(CONFIG_MAPS, subject.marked, limit=1)
        await subject.config_map("four")
        server(subject).store.forget()

        with pytest.raises(Expired):
            await subject.api.list(CONFIG_MAPS, subject.marked, limit=1, continue_token=page.continue_token)

    async def test_only_so_many_writes_are_remembered(self, clock: object) -> None:
        subject = Subject(MemoryApi(ApiServer(wall_ns, writes_kept_max=2)), "default", "this-test")
        made = [await subject.config_map(f"m-{n}") for n in range(4)]

        assert ["m-2", "m-3"] == await changes_after(subject, made[1].resource_version)
        with pytest.raises(Expired):
            await changes_after(subject, made[0].resource_version)

    async def test_a_bookmark_tells_the_newest_version_each_minute(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=made.resource_version) as changes:
            other = await subject.api.create(SECRETS, {"metadata": {"name": "other"}}, subject.namespace)
            begun = trio.current_time()
            change = await anext(changes)

        assert (ChangeKind.BOOKMARK, other.resource_version) == (change.kind, change.item.resource_version)
        assert 60 == trio.current_time() - begun


def server(subject: Subject) -> ApiServer:
    """Return the server behind the memory API."""
    assert isinstance(subject.api, MemoryApi)
    return subject.api.server


async def changes_after(subject: Subject, version: str) -> list[str]:
    """The names a watch tells that were there before it."""
    async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=version) as changes:
        assert isinstance(subject.api, MemoryApi)
        subject.api.link.finish()
        return [change.item.name async for change in changes]
