"""The contract of an API server: which statuses of a pod it refuses."""

from __future__ import annotations

import pytest

from contract.api_subject import Subject, tree
from trikubelet.model.api import PODS, PatchKind
from trikubelet.model.api_errors import Invalid

NEVER, ALWAYS, ON_FAILURE = ({"restartPolicy": policy} for policy in ("Never", "Always", "OnFailure"))


def own(policy: str, action: str = "") -> dict[str, object]:
    """A container's own policy; with an action, of a rule for an exit with 1."""
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [1]}}
    return {"restartPolicy": policy} | ({"restartPolicyRules": [rule]} if action else {})


class Statuses:
    """A pod's status as the server lets it change."""

    @pytest.mark.parametrize(
        ("pod", "main", "exit_code"),
        [
            (NEVER, {}, 0),
            (NEVER, {}, 1),
            (ON_FAILURE, {}, 0),
            (ALWAYS, own("Never"), 1),
            (ALWAYS, own("OnFailure"), 0),
            (NEVER, own("Never", "Restart"), 2),
        ],
    )
    async def test_a_container_that_ended_for_good_does_not_run_again(
        self, subject: Subject, clock: object, pod: dict[str, object], main: dict[str, object], exit_code: int
    ) -> None:
        with pytest.raises(Invalid) as caught:
            await self.restarted(subject, pod, main, exit_code)
        assert ("status.containerStatuses[0].state",) == caught.value.fields

    @pytest.mark.parametrize(
        ("pod", "main", "exit_code"),
        [
            (ALWAYS, {}, 0),
            (ON_FAILURE, {}, 1),
            (NEVER, own("Always"), 0),
            (NEVER, own("OnFailure"), 1),
            (NEVER, own("Never", "Restart"), 1),
            (NEVER, own("Never", "RestartAllContainers"), 1),
        ],
    )
    async def test_a_container_that_may_restart_runs_again(
        self, subject: Subject, clock: object, pod: dict[str, object], main: dict[str, object], exit_code: int
    ) -> None:
        assert "running" in await self.restarted(subject, pod, main, exit_code)

    async def test_a_container_that_another_may_restart_runs_again(self, subject: Subject, clock: object) -> None:
        side = {"name": "side", "image": "app:1"} | own("Never", "RestartAllContainers")

        assert "running" in await self.restarted(subject, NEVER, {}, 0, side)

    async def restarted(
        self,
        subject: Subject,
        pod: dict[str, object],
        main: dict[str, object],
        exit_code: int,
        *others: dict[str, object],
    ) -> dict[str, object]:
        """The state of a container of such a pod that ended, once it was written that it runs."""
        containers = [{"name": "main", "image": "app:1"} | main, *others]
        spec = {"containers": containers, "nodeName": subject.nowhere} | pod
        await subject.api.create(PODS, {"metadata": subject.meta("one"), "spec": spec}, subject.namespace)
        await subject.patch_pod("one", {"containerStatuses": [status_in(terminated={"exitCode": exit_code})]})
        running = status_in(running={"startedAt": "2027-01-01T00:00:00Z"})
        status = await subject.patch_pod("one", {"containerStatuses": [running]})
        return dict(status["containerStatuses"][0]["state"])

    @pytest.mark.parametrize("policy", ["", "Always"])
    async def test_of_init_containers_only_a_sidecar_runs_again(
        self, subject: Subject, clock: object, policy: str
    ) -> None:
        init = {"name": "main", "image": "app:1"} | ({"restartPolicy": policy} if policy else {})
        containers = [{"name": "side", "image": "app:1"}]
        spec = {"initContainers": [init], "containers": containers, "nodeName": subject.nowhere} | NEVER
        await subject.api.create(PODS, {"metadata": subject.meta("one"), "spec": spec}, subject.namespace)
        await subject.patch_pod("one", {"initContainerStatuses": [status_in(terminated={"exitCode": 0})]})

        again = {"initContainerStatuses": [status_in(waiting={"reason": "PodInitializing"})]}
        if policy:
            await subject.patch_pod("one", again)
        else:
            with pytest.raises(Invalid):
                await subject.patch_pod("one", again)

    async def test_an_ephemeral_container_never_runs_again(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        body = {"spec": {"ephemeralContainers": [{"name": "main-debug", "image": "app:1"}]}}
        await subject.api.patch(
            PODS, "one", body, subject.namespace, kind=PatchKind.STRATEGIC, subresource="ephemeralcontainers"
        )
        ended = status_in(terminated={"exitCode": 1}) | {"name": "main-debug"}
        await subject.patch_pod("one", {"ephemeralContainerStatuses": [ended]})

        again = status_in(running={"startedAt": "2027-01-01T00:00:00Z"}) | {"name": "main-debug"}
        with pytest.raises(Invalid):
            await subject.patch_pod("one", {"ephemeralContainerStatuses": [again]})

    async def test_a_status_of_a_container_may_go(self, subject: Subject, clock: object) -> None:
        spec = {"containers": [{"name": "main", "image": "app:1"}], "nodeName": subject.nowhere} | NEVER
        await subject.api.create(PODS, {"metadata": subject.meta("one"), "spec": spec}, subject.namespace)
        await subject.patch_pod("one", {"containerStatuses": [status_in(terminated={"exitCode": 0})]})

        assert [] == (await subject.patch_pod("one", {"containerStatuses": []})).get("containerStatuses", [])

    async def test_a_pod_stays_in_its_qos_class(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")

        with pytest.raises(Invalid) as caught:
            await subject.patch_pod("one", {"qosClass": "Guaranteed"})
        assert ("status.qosClass",) == caught.value.fields
        assert "BestEffort" == (await subject.patch_pod("one", {"qosClass": None}))["qosClass"]

    @pytest.mark.parametrize(
        "status",
        [
            pytest.param({"podIP": "not-an-ip", "podIPs": [{"ip": "not-an-ip"}]}, id="none"),
            pytest.param({"podIP": "not-an-ip"}, id="none, alone"),
            pytest.param({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, id="one family"),
            pytest.param({"hostIP": "10.0.0.2", "hostIPs": [{"ip": "10.0.0.1"}]}, id="another first"),
            pytest.param({"hostIPs": [{"ip": "10.0.0.1"}]}, id="no first"),
            pytest.param({"hostIP": "not-an-ip", "hostIPs": [{"ip": "not-an-ip"}]}, id="no host's"),
            pytest.param({"hostIP": "::1", "hostIPs": [{"ip": "::1"}, {"ip": "::2"}]}, id="one family of the host's"),
        ],
    )
    async def test_addresses_are_addresses_one_of_each_family(
        self, subject: Subject, clock: object, status: dict[str, object]
    ) -> None:
        await subject.pod("one")

        with pytest.raises(Invalid):
            await subject.patch_pod("one", status)

    async def test_addresses_of_both_families_are_taken(self, subject: Subject, clock: object) -> None:
        await subject.pod("one")
        both = [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]

        status = await subject.patch_pod(
            "one", {"podIP": "10.0.0.1", "podIPs": both, "hostIP": "10.0.0.1", "hostIPs": both}
        )

        assert (both, both) == (status["podIPs"], status["hostIPs"])
        assert status == tree(await subject.api.get(PODS, "one", subject.namespace))["status"]


def status_in(**state: dict[str, object]) -> dict[str, object]:
    """The status of the container main in a state."""
    return {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": 0, "state": state}
