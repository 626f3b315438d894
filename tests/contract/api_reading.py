"""The contract of an API server: lists and watches."""

from __future__ import annotations

import pytest
import trio

from contract.api_subject import WAIT_SECONDS_MAX, Subject, meta, told
from trikubelet.model.api import CONFIG_MAPS, PODS, ChangeKind, PatchKind, Selection
from trikubelet.model.api_errors import Expired, Refused


class Lists:
    """Selections and pages."""

    async def test_labels_and_fields_select(self, subject: Subject, clock: object) -> None:
        await subject.pod("here", node=subject.mark)
        await subject.pod("there")

        async def names(fields: str) -> list[str]:
            page = await subject.api.list(PODS, Selection(fields=fields, labels=subject.marked.labels))
            return [item.name for item in page.items]

        assert ["here", "there"] == await names("")
        assert ["here"] == await names(f"spec.nodeName={subject.mark}")
        assert ["there"] == await names(f"spec.nodeName!={subject.mark}")
        assert ["there"] == await names("metadata.name=there")
        assert [] == await names(f"spec.nodeName={subject.mark},metadata.name=there")

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ("tier", ["back", "front"]),
            ("!tier", ["plain"]),
            ("tier=front", ["front"]),
            ("tier==front", ["front"]),
            ("tier!=front", ["back", "plain"]),
            ("tier,tier!=front", ["back"]),
        ],
    )
    async def test_labels_select_by_value_and_by_being_there(
        self, labels: str, expected: list[str], subject: Subject, clock: object
    ) -> None:
        for name, own in (("front", {"tier": "front"}), ("back", {"tier": "back"}), ("plain", {})):
            metadata = {"name": name, "labels": {"contract": subject.mark, **own}}
            await subject.api.create(CONFIG_MAPS, {"metadata": metadata}, subject.namespace)

        selection = Selection(subject.namespace, labels=f"{subject.marked.labels},{labels}")
        page = await subject.api.list(CONFIG_MAPS, selection)

        assert expected == [item.name for item in page.items]

    @pytest.mark.parametrize("labels", ["a b", "=x", "a=b=c"])
    async def test_invalid_selector_is_rejected(self, labels: str, subject: Subject, clock: object) -> None:
        with pytest.raises(Refused):
            await subject.api.list(CONFIG_MAPS, Selection(subject.namespace, labels=labels))

    async def test_a_field_that_cannot_be_selected_by_is_refused(self, subject: Subject, clock: object) -> None:
        with pytest.raises(Refused):
            await subject.api.list(PODS, Selection(subject.namespace, fields="spec.hostname=x"))

    async def test_pages_are_one_list(self, subject: Subject, clock: object) -> None:
        names = [f"m-{n}" for n in range(5)]
        made = [await subject.config_map(name) for name in names]

        first = await subject.api.list(CONFIG_MAPS, subject.marked, limit=2)
        late = await subject.config_map("m-4-late")
        pages = [first]
        while pages[-1].continue_token:
            token = pages[-1].continue_token
            pages.append(await subject.api.list(CONFIG_MAPS, subject.marked, limit=2, continue_token=token))

        items = [list(page.items) for page in pages]
        assert [2, 2, 1] == [len(part) for part in items]
        assert [(m.name, m.uid, m.resource_version) for m in made] == [
            (i.name, i.uid, i.resource_version) for part in items for i in part
        ]
        assert {first.resource_version} == {page.resource_version for page in pages}
        assert int(first.resource_version) < int(late.resource_version)

    async def test_unknown_token_is_rejected(self, subject: Subject, clock: object) -> None:
        with pytest.raises(Refused):
            await subject.api.list(CONFIG_MAPS, subject.marked, limit=2, continue_token="bm90IG9uZQ")

    @pytest.mark.parametrize("limit", [0, 1])
    async def test_a_list_is_as_new_as_asked(self, limit: int, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")
        new = await subject.config_map("two")

        page = await subject.api.list(CONFIG_MAPS, subject.marked, limit=limit, resource_version=made.resource_version)

        assert int(made.resource_version) <= int(page.resource_version)
        page = await subject.api.list(CONFIG_MAPS, subject.marked, resource_version=new.resource_version)
        assert ["one", "two"] == [item.name for item in page.items]

    async def test_a_list_from_the_future_is_not_waited_for(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")

        with pytest.raises(Expired):
            await subject.api.list(
                CONFIG_MAPS, subject.marked, resource_version=str(int(made.resource_version) + 1_000_000)
            )


class Watches:
    """What a watch tells."""

    async def test_a_watch_goes_on_where_a_list_ended(self, subject: Subject, clock: object) -> None:
        await subject.config_map("before")
        page = await subject.api.list(CONFIG_MAPS, subject.marked)

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=page.resource_version) as changes:
            await subject.config_map("one", key="1")
            await subject.api.patch(CONFIG_MAPS, "one", {"data": {"key": "2"}}, subject.namespace, kind=PatchKind.MERGE)
            await subject.api.delete(CONFIG_MAPS, "one", subject.namespace)

            assert [
                (ChangeKind.ADDED, "one"),
                (ChangeKind.MODIFIED, "one"),
                (ChangeKind.DELETED, "one"),
            ] == await told(changes, 3)

    async def test_versions_only_grow_and_a_deletion_has_one_of_its_own(self, subject: Subject, clock: object) -> None:
        page = await subject.api.list(CONFIG_MAPS, subject.marked)
        made = await subject.config_map("one")
        await subject.api.delete(CONFIG_MAPS, "one", subject.namespace)

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=page.resource_version) as changes:
            with trio.fail_after(WAIT_SECONDS_MAX):
                added, deleted = [await anext(changes) for _ in range(2)]

        assert (made.resource_version, made.uid) == (added.item.resource_version, deleted.item.uid)
        assert int(page.resource_version) < int(made.resource_version) < int(deleted.item.resource_version)
        assert deleted.item.resource_version == meta(deleted.item)["resourceVersion"]

    async def test_a_watch_goes_on_where_another_ended(self, subject: Subject, clock: object) -> None:
        made = [await subject.config_map(name) for name in ("a", "b", "c")]

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=made[0].resource_version) as changes:
            assert [(ChangeKind.ADDED, "b"), (ChangeKind.ADDED, "c")] == await told(changes, 2)

    async def test_what_is_no_longer_meant_counts_as_deleted(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version=made.resource_version) as changes:
            for mark in ("other", subject.mark):
                body = {"metadata": {"labels": {"contract": mark}}}
                await subject.api.patch(CONFIG_MAPS, "one", body, subject.namespace, kind=PatchKind.MERGE)

            assert [(ChangeKind.DELETED, "one"), (ChangeKind.ADDED, "one")] == await told(changes, 2)

    @pytest.mark.parametrize("count", [0, 3])
    async def test_a_watch_may_begin_with_what_is_there(self, count: int, subject: Subject, clock: object) -> None:
        made = [await subject.config_map(f"m-{n}") for n in range(count)]

        async with subject.api.watch(CONFIG_MAPS, subject.marked, resource_version="", initial=True) as changes:
            with trio.fail_after(WAIT_SECONDS_MAX):
                there = [await anext(changes) for _ in made]
                end = await anext(changes)
            await subject.config_map("later")

            assert [(ChangeKind.ADDED, "later")] == await told(changes, 1)
        assert {(ChangeKind.ADDED, item.name, item.resource_version) for item in made} == {
            (change.kind, change.item.name, change.item.resource_version) for change in there
        }
        assert (ChangeKind.BOOKMARK, True) == (end.kind, end.initial_end)
        assert all(int(item.resource_version) <= int(end.item.resource_version) for item in made)
