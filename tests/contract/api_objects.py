"""The contract of an API server: names and UIDs, versions and preconditions, and what patches do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contract.api_subject import Subject, meta, tree
from trikubelet.model.api import CONFIG_MAPS, LEASES, PatchKind
from trikubelet.model.api_errors import ApiError, Conflict, Invalid, ObjectExists, ObjectMissing, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Names:
    """Creating, finding and removing."""

    async def test_what_was_created_can_be_asked_for(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one", key="value")

        found = await subject.api.get(CONFIG_MAPS, "one", subject.namespace)

        assert (made.namespace, made.name, made.uid, made.resource_version) == (
            subject.namespace,
            "one",
            found.uid,
            found.resource_version,
        )
        assert {"key": "value"} == tree(found)["data"]
        assert (meta(found)["uid"], meta(found)["resourceVersion"]) == (found.uid, found.resource_version)

    async def test_the_server_gives_uid_and_time_whatever_the_client_says(
        self, subject: Subject, clock: object
    ) -> None:
        said = subject.meta("one", uid="mine", creationTimestamp="2001-01-01T00:00:00Z")

        made = await subject.api.create(CONFIG_MAPS, {"metadata": said}, subject.namespace)

        assert made.uid not in ("", "mine")
        assert "2001-01-01T00:00:00Z" != meta(made)["creationTimestamp"]

    async def test_a_generated_name_begins_as_asked(self, subject: Subject, clock: object) -> None:
        body = {"metadata": {"generateName": "some-"}}

        names = {(await subject.api.create(CONFIG_MAPS, body, subject.namespace)).name for _ in range(3)}

        assert 3 == len(names)
        assert all(name.startswith("some-") and len(name) == len("some-") + 5 for name in names)

    async def test_a_name_is_taken_once(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one")

        with pytest.raises(ObjectExists):
            await subject.config_map("one")

    async def test_a_name_is_free_again_and_gets_another_uid(self, subject: Subject, clock: object) -> None:
        first = await subject.config_map("one")
        await subject.api.delete(CONFIG_MAPS, "one", subject.namespace)

        second = await subject.config_map("one")

        assert first.uid != second.uid

    @pytest.mark.parametrize("name", ["", "No_Name", "-x"])
    async def test_a_bad_name_is_invalid(self, name: str, subject: Subject, clock: object) -> None:
        with pytest.raises(Invalid):
            await subject.config_map(name)

    async def test_nothing_is_created_in_a_namespace_that_is_not_there(self, subject: Subject, clock: object) -> None:
        with pytest.raises(ObjectMissing):
            await subject.api.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, f"{subject.namespace}-not")

    async def test_a_body_of_another_namespace_is_refused(self, subject: Subject, clock: object) -> None:
        with pytest.raises(Refused):
            await subject.api.create(
                CONFIG_MAPS, {"metadata": {"name": "one", "namespace": f"{subject.namespace}-not"}}, subject.namespace
            )

    @pytest.mark.parametrize("verb", ["get", "replace", "patch", "delete"])
    async def test_what_is_not_there_is_missing(self, verb: str, subject: Subject, clock: object) -> None:
        api, space, body = subject.api, subject.namespace, {"metadata": {"name": "none"}}
        asks: dict[str, Callable[[], Awaitable[object]]] = {
            "get": lambda: api.get(CONFIG_MAPS, "none", space),
            "replace": lambda: api.replace(CONFIG_MAPS, "none", body, space),
            "patch": lambda: api.patch(CONFIG_MAPS, "none", body, space, kind=PatchKind.MERGE),
            "delete": lambda: api.delete(CONFIG_MAPS, "none", space),
        }

        with pytest.raises(ObjectMissing):
            await asks[verb]()

    async def test_a_deletion_is_of_the_uid_it_names_or_of_nothing(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one")

        with pytest.raises(Conflict):
            await subject.api.delete(CONFIG_MAPS, "one", subject.namespace, uid="00000000-0000-4000-8000-000000000000")
        assert not await subject.is_gone(CONFIG_MAPS, "one")

        await subject.api.delete(CONFIG_MAPS, "one", subject.namespace, uid=made.uid)
        assert await subject.is_gone(CONFIG_MAPS, "one")


class Versions:
    """Who was first, and what a write is."""

    async def test_a_replacement_of_an_old_version_is_a_conflict(self, subject: Subject, clock: object) -> None:
        old = await subject.config_map("one", key="1")
        new = tree(old) | {"data": {"key": "2"}}
        newer = await subject.api.replace(CONFIG_MAPS, "one", new, subject.namespace)

        with pytest.raises(Conflict):
            await subject.api.replace(CONFIG_MAPS, "one", new, subject.namespace)

        assert int(newer.resource_version) > int(old.resource_version)
        assert newer == await subject.api.get(CONFIG_MAPS, "one", subject.namespace)

    async def test_a_replacement_that_names_no_version_counts(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", key="1")

        new = await subject.api.replace(
            CONFIG_MAPS, "one", {"metadata": {"name": "one"}, "data": {"key": "2"}}, subject.namespace
        )

        assert {"key": "2"} == tree(new)["data"]

    async def test_a_lease_is_never_replaced_blindly(self, subject: Subject, clock: object) -> None:
        body = {"metadata": subject.meta("one"), "spec": {"holderIdentity": "me"}}
        await subject.api.create(LEASES, body, subject.namespace)

        with pytest.raises(Invalid):
            await subject.api.replace(LEASES, "one", body, subject.namespace)

    async def test_a_replacement_for_another_uid_is_a_conflict(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one", key="1")
        other = meta(made) | {"uid": "00000000-0000-4000-8000-000000000000"}

        with pytest.raises(Conflict):
            await subject.api.replace(CONFIG_MAPS, "one", tree(made) | {"metadata": other}, subject.namespace)

    async def test_a_lease_that_is_gone_is_put_again_unless_a_certain_one_is_meant(
        self, subject: Subject, clock: object
    ) -> None:
        body = {"metadata": subject.meta("one"), "spec": {"holderIdentity": "me"}}
        old = await subject.api.replace(LEASES, "one", body, subject.namespace)
        await subject.api.delete(LEASES, "one", subject.namespace)

        with pytest.raises(Conflict):
            await subject.api.replace(LEASES, "one", tree(old), subject.namespace)
        unnamed = meta(old)
        del unnamed["uid"]
        new = await subject.api.replace(LEASES, "one", tree(old) | {"metadata": unnamed}, subject.namespace)

        assert old.uid != new.uid

    async def test_a_write_that_changes_nothing_is_none(self, subject: Subject, clock: object) -> None:
        made = await subject.config_map("one", key="1")

        again = await subject.api.patch(
            CONFIG_MAPS, "one", {"data": {"key": "1"}}, subject.namespace, kind=PatchKind.MERGE
        )

        assert made.resource_version == again.resource_version

    @pytest.mark.parametrize("kind", PatchKind)
    @pytest.mark.parametrize("field", ["uid", "resourceVersion"])
    async def test_a_patch_may_say_what_it_is_for(
        self, kind: PatchKind, field: str, subject: Subject, clock: object
    ) -> None:
        made = await subject.config_map("one", key="1")
        right, wrong = meta(made)[field], {"uid": "00000000-0000-4000-8000-000000000000", "resourceVersion": "1"}[field]

        with pytest.raises(Conflict):
            await subject.api.patch(
                CONFIG_MAPS, "one", {"metadata": {field: wrong}, "data": {"key": "2"}}, subject.namespace, kind=kind
            )
        new = await subject.api.patch(
            CONFIG_MAPS, "one", {"metadata": {field: right}, "data": {"key": "3"}}, subject.namespace, kind=kind
        )

        assert {"key": "3"} == tree(new)["data"]

    async def test_a_merge_patch_sets_and_takes_away(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", stays="1", goes="1", changes="1")

        new = await subject.api.patch(
            CONFIG_MAPS,
            "one",
            {"data": {"goes": None, "changes": "2", "comes": "1", "never": None}},
            subject.namespace,
            kind=PatchKind.MERGE,
        )

        assert {"stays": "1", "changes": "2", "comes": "1"} == tree(new)["data"]


class Merging:
    """What a patch does beyond setting a value; by config maps, since every object has metadata."""

    async def patched(self, subject: Subject, body: dict[str, object], kind: PatchKind) -> dict[str, Any]:
        """The object after the patch."""
        return tree(await subject.api.patch(CONFIG_MAPS, "one", body, subject.namespace, kind=kind))

    async def test_owners_are_merged_by_uid(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one")
        for name in ("a", "b"):
            body: dict[str, object] = {"metadata": {"ownerReferences": [owner(name)]}}
            await self.patched(subject, body, PatchKind.STRATEGIC)

        body = {"metadata": {"ownerReferences": [{"uid": "uid-a", "controller": True}]}}
        owners = (await self.patched(subject, body, PatchKind.STRATEGIC))["metadata"]["ownerReferences"]
        assert {"a": True, "b": None} == {one["name"]: one.get("controller") for one in owners}

        body = {"metadata": {"ownerReferences": [{"uid": "uid-a", "$patch": "delete"}]}}
        owners = (await self.patched(subject, body, PatchKind.STRATEGIC))["metadata"]["ownerReferences"]
        assert ["b"] == [one["name"] for one in owners]

    async def test_finalizers_are_a_set_but_to_a_merge_patch(self, subject: Subject, clock: object) -> None:
        async def left(body: dict[str, object], kind: PatchKind) -> list[str]:
            return list((await self.patched(subject, {"metadata": body}, kind))["metadata"].get("finalizers", []))

        a, b, c = (f"example.com/{name}" for name in "abc")
        await subject.config_map("one")
        try:
            await left({"finalizers": [a, b]}, PatchKind.STRATEGIC)
            assert {a, b, c} == {*await left({"finalizers": [b, c]}, PatchKind.STRATEGIC)}
            gone: dict[str, object] = {"$deleteFromPrimitiveList/finalizers": [b]}
            assert {a, c} == {*await left(gone, PatchKind.STRATEGIC)}
            assert [b] == await left({"finalizers": [b]}, PatchKind.MERGE)
        finally:  # else the namespace stays
            assert [] == await left({"finalizers": None}, PatchKind.MERGE)

    async def test_a_map_can_be_replaced(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", a="1", b="1")

        body: dict[str, object] = {"data": {"$patch": "replace", "c": "1"}}

        assert {"c": "1"} == (await self.patched(subject, body, PatchKind.STRATEGIC))["data"]

    async def test_a_map_can_be_emptied(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", a="1", b="1")

        body: dict[str, object] = {"data": {"$patch": "delete"}}

        assert not (await self.patched(subject, body, PatchKind.STRATEGIC)).get("data")

    async def test_of_a_map_only_some_keys_may_be_kept(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", a="1", b="1", c="1")

        body: dict[str, object] = {"data": {"$retainKeys": ["a", "b"], "b": "2"}}

        assert {"a": "1", "b": "2"} == (await self.patched(subject, body, PatchKind.STRATEGIC))["data"]

    async def test_an_unknown_directive_is_no_patch(self, subject: Subject, clock: object) -> None:
        await subject.config_map("one", a="1")

        with pytest.raises(ApiError):
            await self.patched(subject, {"data": {"$patch": "forget"}}, PatchKind.STRATEGIC)


def owner(name: str) -> dict[str, str]:
    """A reference to somebody who is not there, of a kind nobody looks after."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "name": name, "uid": f"uid-{name}"}
