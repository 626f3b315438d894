"""The contract of an API server: what is special to pods, their tokens, and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from contract.api_subject import Subject, meta, tree
from trikubelet.model.api import NODES, PODS, SERVICE_ACCOUNTS, Item, PatchKind
from trikubelet.model.api_errors import ApiError, Conflict, Invalid, ObjectMissing


class Pods:
    """What is special to pods: defaults, two halves, merging, and how they end."""

    async def test_a_new_pod_waits_and_has_defaults(self, subject: Subject, clock: object) -> None:
        made = tree(await subject.pod("one"))

        assert ("Pending", "BestEffort") == (made["status"]["phase"], made["status"]["qosClass"])
        assert ("Always", "ClusterFirst") == (made["spec"]["restartPolicy"], made["spec"]["dnsPolicy"])
        assert "/dev/termination-log" == made["spec"]["containers"][0]["terminationMessagePath"]
        assert 1 == made["metadata"]["generation"]

    async def test_a_pod_without_containers_is_invalid(self, subject: Subject, clock: object) -> None:
        with pytest.raises(Invalid):
            await subject.api.create(PODS, {"metadata": {"name": "one"}, "spec": {"containers": []}}, subject.namespace)

    async def test_what_runs_cannot_be_changed_but_its_images(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")

        async def patched(container: dict[str, object]) -> dict[str, Any]:
            body = {"spec": {"containers": [container]}}
            return tree(await subject.api.patch(PODS, "one", body, subject.namespace, kind=PatchKind.STRATEGIC))

        with pytest.raises(Invalid):
            await patched({"name": "side", "command": ["other"]})
        changed = await patched({"name": "side", "image": "app:2"})

        assert ["app:1", "app:2"] == sorted(c["image"] for c in changed["spec"]["containers"])
        assert 2 == changed["metadata"]["generation"]

    async def test_status_and_spec_are_written_apart(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        body = {"spec": {"activeDeadlineSeconds": 99}, "status": {"message": "hello"}}

        spec = await subject.api.patch(PODS, "one", body, subject.namespace, kind=PatchKind.STRATEGIC)
        assert "message" not in tree(spec)["status"]
        assert 99 == tree(spec)["spec"]["activeDeadlineSeconds"]

        body = {"spec": {"activeDeadlineSeconds": 11}, "status": {"message": "hello"}}
        status = await subject.api.patch(
            PODS, "one", body, subject.namespace, kind=PatchKind.STRATEGIC, subresource="status"
        )
        assert "hello" == tree(status)["status"]["message"]
        assert 99 == tree(status)["spec"]["activeDeadlineSeconds"]
        assert meta(spec)["generation"] == meta(status)["generation"]

    async def test_a_new_pods_status_is_the_servers(self, subject: Subject, clock: object) -> None:
        spec = {"containers": [{"name": "main", "image": "app:1"}], "nodeName": subject.nowhere}
        body = {"metadata": {"name": "one"}, "spec": spec, "status": {"phase": "Running"}}

        made = await subject.api.create(PODS, body, subject.namespace)

        assert "Pending" == tree(made)["status"]["phase"]

    async def test_conditions_are_merged_by_type(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"conditions": [condition("Foreign", "True"), condition("Ready", "False")]})

        status = await subject.patch_pod("one", {"conditions": [condition("Ready", "True")]})

        assert {"Foreign": "True", "Ready": "True"} == {c["type"]: c["status"] for c in status["conditions"]}

    async def test_a_condition_is_deleted_when_asked(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"conditions": [condition("Foreign", "True"), condition("Ready", "False")]})

        status = await subject.patch_pod("one", {"conditions": [{"$patch": "delete", "type": "Ready"}]})

        assert ["Foreign"] == [c["type"] for c in status["conditions"]]

    async def test_conditions_stand_in_the_order_asked_for(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"conditions": [condition(t, "True") for t in ("A", "B", "C", "D")]})

        status = await subject.patch_pod(
            "one",
            {
                "$setElementOrder/conditions": [{"type": t} for t in ("D", "New", "A")],
                "conditions": [condition("New", "True")],
            },
        )

        assert ["B", "C", "D", "New", "A"] == [c["type"] for c in status["conditions"]]

    async def test_container_statuses_are_replaced(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"containerStatuses": [container_status("main"), container_status("side")]})

        status = await subject.patch_pod("one", {"containerStatuses": [container_status("side")]})

        assert ["side"] == [c["name"] for c in status["containerStatuses"]]

    async def test_a_state_there_is_none_of_is_reported_as_an_empty_one(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")

        status = await subject.patch_pod("one", {"containerStatuses": [container_status("main")]})

        assert [({}, {})] == [(c["state"], c["lastState"]) for c in status["containerStatuses"]]

    async def test_addresses_are_merged_and_can_be_replaced(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"})

        status = await subject.patch_pod(
            "one", {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "replace"}]}
        )

        assert [{"ip": "10.0.0.2"}] == status["podIPs"]

    async def test_an_element_without_its_key_is_refused(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"conditions": [condition("Ready", "False")]})

        with pytest.raises(ApiError):
            await subject.patch_pod("one", {"conditions": [{"status": "True"}]})

    async def test_a_pod_ends_with_its_grace(self, subject: Subject, clock: object) -> None:
        made = await subject.pod("one", grace=25)

        await subject.api.delete(PODS, "one", subject.namespace)

        ending = await subject.api.get(PODS, "one", subject.namespace)
        assert (25, 2) == (meta(ending)["deletionGracePeriodSeconds"], meta(ending)["generation"])
        assert meta(ending)["deletionTimestamp"] > meta(made)["creationTimestamp"]
        assert int(ending.resource_version) > int(made.resource_version)

    async def test_an_end_comes_sooner_but_never_later(self, subject: Subject, clock: object) -> None:
        async def asked(grace: int | None) -> tuple[int, str]:
            await subject.api.delete(PODS, "one", subject.namespace, grace_seconds=grace)
            now = meta(await subject.api.get(PODS, "one", subject.namespace))
            return now["deletionGracePeriodSeconds"], now["deletionTimestamp"]

        await subject.pod("one")
        first = await asked(20)

        assert first == await asked(60)
        assert first == await asked(None)
        sooner = await asked(5)
        assert (5, True) == (sooner[0], sooner[1] < first[1])

    async def test_no_grace_removes_a_pod_at_once(self, subject: Subject, clock: object) -> None:
        made = await subject.pod("one")
        await subject.api.delete(PODS, "one", subject.namespace)

        with pytest.raises(Conflict):
            await subject.api.delete(
                PODS, "one", subject.namespace, grace_seconds=0, uid="00000000-0000-4000-8000-000000000000"
            )
        await subject.api.delete(PODS, "one", subject.namespace, grace_seconds=0, uid=made.uid)

        assert await subject.is_gone(PODS, "one")

    async def test_a_pod_that_is_nowhere_goes_at_once(self, subject: Subject, clock: object) -> None:
        await subject.pod("one", node="")

        await subject.api.delete(PODS, "one", subject.namespace)

        assert await subject.is_gone(PODS, "one")

    async def test_a_finished_pod_goes_at_once(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        await subject.patch_pod("one", {"phase": "Succeeded"})

        await subject.api.delete(PODS, "one", subject.namespace)

        assert await subject.is_gone(PODS, "one")

    async def test_a_finalizer_holds_a_pod_until_it_is_taken_away(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        body: dict[str, object] = {"metadata": {"finalizers": ["example.com/hold"]}}
        await subject.api.patch(PODS, "one", body, subject.namespace, kind=PatchKind.MERGE)

        await subject.api.delete(PODS, "one", subject.namespace, grace_seconds=0)
        assert 0 == meta(await subject.api.get(PODS, "one", subject.namespace))["deletionGracePeriodSeconds"]

        body = {"metadata": {"finalizers": None}}
        await subject.api.patch(PODS, "one", body, subject.namespace, kind=PatchKind.MERGE)
        assert await subject.is_gone(PODS, "one")


class EphemeralContainers:
    """Containers added to a pod that is there: by a subresource of their own, and never changed nor taken away."""

    async def test_one_is_added_with_the_defaults_and_nothing_else_is_written(
        self, subject: Subject, clock: object
    ) -> None:
        before = tree(await subject.pod("p"))
        after = tree(await self.attached(subject, {"name": "debug", "image": "app:2"}, labels={"new": "label"}))

        (added,) = after["spec"].pop("ephemeralContainers")
        assert ("debug", "app:2", "IfNotPresent", "/dev/termination-log") == tuple(
            added[name] for name in ("name", "image", "imagePullPolicy", "terminationMessagePath")
        )
        assert before["spec"] == after["spec"]
        assert before["metadata"]["labels"] == after["metadata"]["labels"]
        assert before["metadata"]["generation"] + 1 == after["metadata"]["generation"]

    async def test_what_was_added_stays_as_it_is(self, subject: Subject, clock: object) -> None:
        await subject.pod("p")
        first = tree(await self.attached(subject, {"name": "debug", "image": "app:1"}))
        second = tree(await self.attached(subject, {"name": "more", "image": "app:1"}))

        assert {"debug", "more"} == {one["name"] for one in second["spec"]["ephemeralContainers"]}
        with pytest.raises(Invalid):
            await self.attached(subject, {"name": "debug", "image": "app:2"})
        body = first | {"metadata": {**first["metadata"], "resourceVersion": ""}}
        with pytest.raises(Invalid):
            await subject.api.replace(PODS, "p", body, subject.namespace, subresource="ephemeralcontainers")

    async def attached(self, subject: Subject, container: dict[str, str], **meta: object) -> Item:
        body = {"metadata": meta, "spec": {"ephemeralContainers": [container]}}
        return await subject.api.patch(
            PODS, "p", body, subject.namespace, kind=PatchKind.STRATEGIC, subresource="ephemeralcontainers"
        )


class Tokens:
    """Tokens of a service account for a pod: made under the account, and stored nowhere."""

    async def test_a_token_is_made_for_a_pod_and_says_how_long_it_is_meant_to_live(
        self, subject: Subject, clock: object
    ) -> None:
        pod = await subject.pod("p")
        first, second = [tree(await self.asked(subject, {"name": "p", "uid": pod.uid})) for _ in range(2)]

        assert first["status"]["token"] != second["status"]["token"] != ""
        assert (600, ["vault"]) == (first["spec"]["expirationSeconds"], first["spec"]["audiences"])

    async def test_a_token_for_another_pod_of_the_name_is_refused(self, subject: Subject, clock: object) -> None:
        await subject.pod("p")

        with pytest.raises(Conflict):
            await self.asked(subject, {"name": "p", "uid": "11111111-1111-4111-8111-111111111111"})

    async def test_there_is_no_token_for_a_pod_or_an_account_that_is_not_there(
        self, subject: Subject, clock: object
    ) -> None:
        pod = await subject.pod("p")

        with pytest.raises(ObjectMissing):
            await self.asked(subject, {"name": "q", "uid": pod.uid})
        with pytest.raises(ObjectMissing):
            await self.asked(subject, {"name": "p", "uid": pod.uid}, "nobody")

    async def asked(self, subject: Subject, pod: dict[str, str], account: str = "default") -> Item:
        bound = {"apiVersion": "v1", "kind": "Pod", **pod}
        body = {"spec": {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": bound}}
        return await subject.api.create(SERVICE_ACCOUNTS, body, subject.namespace, under=f"{account}/token")


class Nodes:
    """A node is created with its status, and has no namespace."""

    async def test_a_nodes_status_is_its_creators(self, subject: Subject, clock: object) -> None:
        body = {"metadata": subject.meta(subject.mark), "status": {"capacity": {"cpu": "2"}}}
        try:
            made = await subject.api.create(NODES, body)

            assert ("", subject.mark) == (made.namespace, made.name)
            assert {"cpu": "2"} == tree(made)["status"]["capacity"]
            assert {"kubeletEndpoint": {"Port": 0}} == tree(made)["status"]["daemonEndpoints"]  # nobody said so
        finally:
            await subject.api.delete(NODES, subject.mark)

    async def test_a_nodes_addresses_can_be_replaced(self, subject: Subject, clock: object) -> None:
        addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"}]
        await subject.api.create(NODES, {"metadata": subject.meta(subject.mark), "status": {"addresses": addresses}})
        try:
            new = await subject.api.patch(
                NODES,
                subject.mark,
                {"status": {"addresses": [*reversed(addresses), {"$patch": "replace"}]}},
                kind=PatchKind.STRATEGIC,
                subresource="status",
            )

            assert [*reversed(addresses)] == tree(new)["status"]["addresses"]
        finally:
            await subject.api.delete(NODES, subject.mark)


def condition(type_: str, status: str) -> dict[str, str]:
    """A pod's condition."""
    return {"type": type_, "status": status}


def container_status(name: str) -> dict[str, object]:
    """A container's status, with what the API demands of one."""
    return {"name": name, "image": "app:1", "imageID": "", "ready": False, "restartCount": 0}
