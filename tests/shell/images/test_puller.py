"""Images: pulled when they must be, once, within the bound, with back-off, and told in upstream's words."""

from __future__ import annotations

import base64
import json
import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Said
from trikubelet.app.translate import bounds_of
from trikubelet.images import puller
from trikubelet.images.credentials import PodCredentials
from trikubelet.images.puller import Puller, PullRules
from trikubelet.images.rights import PullRights
from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import ImageUnavailable, ImportFailed, RetryAt
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.model.registry import Login
from trikubelet.model.runtime_config import SandboxConfig
from trikubelet.model.runtime_errors import RuntimeFailure, RuntimeTimeout, RuntimeUnavailable
from trikubelet.sources.objects import ManifestObjects
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trio.testing import MockClock

    from trikubelet.model.runtime import ImageInfo

MINE, WRONG = Login("joe", "s3cret"), Login("joe", "guessed")
PRIVATE = "private:1"
SANDBOX = SandboxConfig("u", "web", "default", 0)


def secret(name: str, login: Login) -> k8s.Secret:
    """A Secret with a login for the default registry."""
    config = {"auths": {"docker.io": {"username": login.username, "password": login.password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    meta = k8s.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    return k8s.Secret(metadata=meta, type="kubernetes.io/dockerconfigjson", data=data)


class Registry(MemoryImages):
    """Images whose pulls take a second, and that count how many run at a time."""

    def __init__(
        self, present: list[str], registry: list[str], private: Mapping[str, Collection[Login]] | None = None
    ) -> None:
        super().__init__(present, registry, private=private)
        self.at_once = 0
        self.at_once_most = 0
        self.hangs = False
        self.status_fails = False
        self.breaks: Exception | None = None

    async def image_status(self, image: str) -> ImageInfo | None:
        if self.status_fails:
            raise RuntimeFailure("disk is gone")
        if self.hangs:
            await trio.sleep_forever()
        return await super().image_status(image)

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        try:
            await trio.sleep(1)
            if self.breaks is not None:
                raise self.breaks
            return await super().pull_image(image, sandbox, login)
        finally:
            self.at_once -= 1


class Bench:
    """A puller, its registry, what the node has written down, the Secrets there are, and what was said."""

    def __init__(
        self,
        present: list[str],
        registry: list[str],
        rules: PullRules = PullRules(5),  # noqa: B008 - it is frozen
        private: Mapping[str, Collection[Login]] | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
    ) -> None:
        self.registry = Registry(present, registry, private)
        self.said = Said()
        self.records = MemoryPullRecords()
        objects = ManifestObjects(["file"])
        objects.replace("file", [secret("mine", MINE), secret("wrong", WRONG)])
        credentials = PodCredentials(objects, MemoryLogins(), (), self.said)
        rights = PullRights(self.records, rules.verification, VirtualClock())
        self._make = partial(Puller, self.registry, credentials, rights, self.said, bounds, rules)
        self.puller = self._make()

    def use(self, imports: Imports) -> None:
        """There is an image directory."""
        self.puller = self._make(imports)

    async def ensure(
        self, image: str, policy: str = "IfNotPresent", uid: str = "u", secrets: Sequence[str] = ()
    ) -> ImageInfo:
        asking = container(image=image, image_pull_policy=policy)
        references = tuple(k8s.LocalObjectReference(name=name) for name in secrets)
        return await self.puller.ensure(pod("web", asking, uid=uid, image_pull_secrets=references), asking, SANDBOX)


async def test_an_image_that_is_there_is_not_pulled(autojump_clock: MockClock) -> None:
    bench = Bench(["app:1"], [])
    await bench.ensure("app:1")

    assert [] == bench.registry.pulls
    assert [
        ("Normal", "Pulled", 'Container image "app:1" already present on machine and can be accessed by the pod')
    ] == bench.said.events


async def test_an_image_that_is_missing_is_pulled_and_the_time_it_took_is_reported(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    await bench.ensure("web:2")

    assert [
        ("Normal", "Pulling", 'Pulling image "web:2"'),
        (
            "Normal",
            "Pulled",
            'Successfully pulled image "web:2" in 1s (1s including waiting). Image size: 1000 bytes.',
        ),
    ] == bench.said.events


@pytest.mark.parametrize(
    ("expected", "slow_seconds"), [(["Pod default/web: pulled image web:2 in 1s"], 1.0), ([], 1.5)]
)
async def test_a_pull_that_takes_long_is_logged(
    expected: list[str],
    slow_seconds: float,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(puller, "SLOW_SECONDS", slow_seconds)

    await Bench([], ["web:2"]).ensure("web:2")

    assert expected == [line for line in caplog.messages if "pulled" in line]


async def test_always_pulls_although_it_is_there(autojump_clock: MockClock) -> None:
    bench = Bench(["web:2"], ["web:2"])
    await bench.ensure("web:2", "Always")

    assert ["web:2"] == bench.registry.pulls


@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
async def test_of_the_machine_itself_nothing_is_pulled_and_the_event_says_why(
    policy: str, autojump_clock: MockClock
) -> None:
    bench = Bench(["host:latest"], [], PullRules(5, is_machine=lambda image: image == "host:latest"))
    await bench.ensure("host", policy)

    assert [] == bench.registry.pulls
    assert [("Normal", "Pulled", 'Image "host" is this machine itself; nothing to pull')] == bench.said.events


async def test_an_image_that_the_machine_is_not_is_refused_as_any_other(autojump_clock: MockClock) -> None:
    bench = Bench([], [], PullRules(5, is_machine=lambda _: True))
    with pytest.raises(ImageUnavailable):
        await bench.ensure("host/none")

    assert ["Pulling", "Failed", "Failed"] == bench.said.reasons


async def test_never_does_not_pull(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("web:2", "Never")

    assert "ErrImageNeverPull" == told.value.reason
    assert 'Container image "web:2" is not present with pull policy of Never' == told.value.message
    assert ["ErrImageNeverPull", "Failed"] == bench.said.reasons
    assert ("Warning", "Failed", "Error: ErrImageNeverPull") == bench.said.events[1]


async def test_a_name_without_a_tag_means_latest(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:latest"])
    await bench.ensure("web")

    assert ["web:latest"] == bench.registry.pulls


async def test_a_name_that_is_none_is_refused(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("UPPER CASE")

    assert "InvalidImageName" == told.value.reason
    assert [] == bench.registry.pulls
    assert [
        ("Warning", "InspectFailed", told.value.message),
        ("Warning", "Failed", "Error: InvalidImageName"),
    ] == bench.said.events


async def test_a_runtime_that_cannot_say_is_told_as_such(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    bench.registry.status_fails = True
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure("web:2")

    assert ("ImageInspectError", 'Failed to inspect image "web:2": disk is gone') == (
        told.value.reason,
        told.value.message,
    )
    assert ["InspectFailed", "Failed"] == bench.said.reasons
    assert ("Warning", "Failed", "Error: ImageInspectError") == bench.said.events[1]


async def test_a_runtime_that_hangs_is_given_up_after_the_time_of_a_call(autojump_clock: MockClock) -> None:
    bench = Bench([], [], bounds=bounds_of(KubeletConfiguration(runtime_request_timeout=11.0)))
    bench.registry.hangs = True
    with pytest.raises(ImageUnavailable, match="did not answer within 11s"):
        await bench.ensure("web:2")

    assert 11 == trio.current_time()


async def test_a_failed_pull_backs_off_twice_as_long_each_time_up_to_five_minutes(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    waits = []
    for _ in range(8):
        with pytest.raises(ImageUnavailable) as failed:
            await bench.ensure("nowhere:1")
        with pytest.raises(RetryAt) as later:
            await bench.ensure("nowhere:1")
        waits.append(later.value.at - trio.current_time())
        await trio.sleep_until(later.value.at)

    assert [10, 20, 40, 80, 160, 300, 300, 300] == waits
    assert "ErrImagePull" == failed.value.reason
    assert "ImagePullBackOff" == later.value.reason
    assert f'Back-off pulling image "nowhere:1": ErrImagePull: {failed.value.message}' == later.value.message
    assert ["Pulling", "Failed", "Failed", "BackOff", "Failed"] == bench.said.reasons[:5]
    assert ("Warning", "Failed", "Error: ErrImagePull") == bench.said.events[2]
    assert ("Normal", "BackOff", 'Back-off pulling image "nowhere:1"') == bench.said.events[3]
    assert ("Warning", "Failed", "Error: ImagePullBackOff") == bench.said.events[4]


async def test_a_back_off_is_each_pods_own_and_ends_with_success(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    with pytest.raises(ImageUnavailable):
        await bench.ensure("web:2", "Always", uid="a")
    bench.registry._registry.add("web:2")
    await bench.ensure("web:2", "Always", uid="b")
    with pytest.raises(RetryAt):
        await bench.ensure("web:2", "Always", uid="a")
    await trio.sleep(10)
    await bench.ensure("web:2", "Always", uid="a")
    bench.registry._registry.clear()
    with pytest.raises(ImageUnavailable):
        await bench.ensure("web:2", "Always", uid="a")
    with pytest.raises(RetryAt) as later:
        await bench.ensure("web:2", "Always", uid="a")

    assert 10 == later.value.at - trio.current_time()


async def test_of_too_many_failures_the_oldest_is_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose failure is forgotten has the first back-off again. The second failure of a is newer than that of b."""
    monkeypatch.setattr(puller, "FAILURES_KEPT_MAX", 2)
    bench = Bench([], [])

    async def waits_after_a_failure(uid: str) -> float:
        with pytest.raises(ImageUnavailable):
            await bench.ensure("nowhere:1", uid=uid)
        with pytest.raises(RetryAt) as later:
            await bench.ensure("nowhere:1", uid=uid)
        return later.value.at - trio.current_time()

    assert [10, 10] == [await waits_after_a_failure(uid) for uid in "ab"]
    await trio.sleep(10)
    assert [20, 10, 10] == [await waits_after_a_failure(uid) for uid in "acb"]


async def test_many_pods_that_want_one_image_pull_it_once(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(bench.ensure, "web:2", "IfNotPresent", f"u{n}")

    assert ["web:2"] == bench.registry.pulls
    assert 20 == bench.said.reasons.count("Pulled")
    assert {} == bench.puller._pulling


async def test_many_pods_that_want_one_image_in_vain_get_the_answer_of_one_pull(autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    refused: list[float] = []

    async def ask(uid: str, *secrets: str) -> None:
        with pytest.raises(ImageUnavailable, match=r"no basic auth credentials|insufficient_scope"):
            await bench.ensure(PRIVATE, uid=uid, secrets=secrets)
        refused.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(ask, f"u{n}")
    assert [None] == bench.registry.logins
    assert {1.0} == set(refused)
    assert 20 == bench.said.reasons.count("Failed") / 2  # each pod is told, and each has its own back-off
    with pytest.raises(RetryAt):
        await bench.ensure(PRIVATE, uid="u7")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "stranger")
        await trio.sleep(0.1)
        nursery.start_soon(ask, "a", "wrong")
        nursery.start_soon(ask, "b", "wrong")
        await trio.sleep(0.1)
        nursery.start_soon(bench.ensure, PRIVATE, "IfNotPresent", "c", ["mine"])
    assert [None, None, WRONG, MINE] == bench.registry.logins
    assert {} == bench.puller._pulling


async def test_earlier_failure_is_not_reported_to_new_pods(autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})

    async def ask(uid: str, *secrets: str) -> None:
        with pytest.raises(ImageUnavailable):
            await bench.ensure(PRIVATE, uid=uid, secrets=secrets)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "a")
        await trio.sleep(0.5)
        nursery.start_soon(ask, "b", "wrong")
        await trio.sleep(1)
        nursery.start_soon(ask, "late")

    assert [None, WRONG, None] == bench.registry.logins


async def test_a_waiting_pod_pulls_itself_when_the_one_it_waited_for_is_gone(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.5):
            nursery.start_soon(bench.ensure, "web:2", "IfNotPresent", "patient")
            async with trio.open_nursery() as hasty:
                hasty.start_soon(bench.ensure, "web:2", "IfNotPresent", "hasty")

    assert ["web:2"] == bench.registry.pulls
    assert {} == bench.puller._pulling


@pytest.mark.parametrize("pulls_max", [1, 3])
async def test_no_more_images_are_pulled_at_a_time_than_the_bound_allows(
    pulls_max: int, autojump_clock: MockClock
) -> None:
    names = [f"web:{n}" for n in range(9)]
    bench = Bench([], names, PullRules(pulls_max))
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(bench.ensure, name)

    assert pulls_max == bench.registry.at_once_most
    assert 9 / pulls_max == trio.current_time()
    assert any("(3s including waiting)" in message for _, _, message in bench.said.events)


async def test_a_pod_with_many_images_does_not_keep_another_from_its_turn(autojump_clock: MockClock) -> None:
    many = [f"many:{n}" for n in range(10)]
    bench = Bench([], [*many, "web:2"], PullRules(1))

    async def greedy() -> None:
        for image in many:
            await bench.ensure(image, uid="greedy")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(greedy)
        await trio.sleep(3.5)
        await bench.ensure("web:2", uid="modest")
        assert 5 == trio.current_time()


async def test_only_so_many_pulls_begin_in_a_second_and_the_others_wait(autojump_clock: MockClock) -> None:
    names = [f"web:{n}" for n in range(12)]
    bench = Bench([], names, PullRules(100, per_second=5, burst=2))
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(bench.ensure, name)

    assert 3 == pytest.approx(trio.current_time())
    assert 12 == bench.said.reasons.count("Pulled")


async def test_a_private_image_is_pulled_with_the_secret_that_will_do(autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    await bench.ensure(PRIVATE, secrets=["wrong", "mine"])

    assert [WRONG, MINE] == bench.registry.logins
    assert set() == bench.records.pulling


@pytest.mark.parametrize(
    ("expected", "secrets"),
    [("insufficient_scope", ["wrong"]), ("no basic auth credentials", []), ("no basic auth credentials", ["gone"])],
)
async def test_without_the_right_secret_a_private_image_is_not_pulled(
    expected: str, secrets: list[str], autojump_clock: MockClock
) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    with pytest.raises(ImageUnavailable, match=f"ErrImagePull: .*: {expected}"):
        await bench.ensure(PRIVATE, secrets=secrets)

    assert set() == bench.records.pulling
    told = [event for event in bench.said.events if event[1] == "FailedToRetrieveImagePullSecret"]
    expected_event = (
        "Warning",
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed.",
    )
    assert told == ([expected_event] if secrets == ["gone"] else [])


async def test_a_missing_secret_is_not_reported_if_the_image_comes_without_it(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:1"])
    await bench.ensure("web:1", secrets=["gone"])

    assert "Pulled" in bench.said.reasons
    assert "FailedToRetrieveImagePullSecret" not in bench.said.reasons


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
async def test_a_pod_without_the_right_does_not_get_what_another_pulled(policy: str, autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    await bench.ensure(PRIVATE, uid="first", secrets=["mine"])
    with pytest.raises(ImageUnavailable, match="no basic auth credentials"):
        await bench.ensure(PRIVATE, policy, uid="second")
    await bench.ensure(PRIVATE, uid="third", secrets=["mine"])

    assert [MINE, None] == bench.registry.logins


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
async def test_nor_does_one_that_waited_for_the_other_s_pull(policy: str, autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    refused = []

    async def stranger() -> None:
        with pytest.raises(ImageUnavailable, match="no basic auth credentials") as told:
            await bench.ensure(PRIVATE, policy, uid="stranger")
        refused.append(told.value.reason)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.ensure, PRIVATE, policy, "a", ["mine"])
        await trio.sleep(0.1)
        nursery.start_soon(stranger)
        nursery.start_soon(bench.ensure, PRIVATE, policy, "b", ["mine"])

    assert ["ErrImagePull"] == refused
    assert [MINE, None] == bench.registry.logins


async def test_never_is_refused_what_is_there_and_not_the_pods(autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: [MINE]})
    await bench.ensure(PRIVATE, uid="first", secrets=["mine"])
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure(PRIVATE, "Never", uid="second")
    await bench.ensure(PRIVATE, "Never", uid="third", secrets=["mine"])

    message = (
        f'Container image "{PRIVATE}" is present on machine but not accessible by the pod, with pull policy of Never'
    )
    assert ("ErrImageNeverPull", message) == (told.value.reason, told.value.message)


async def test_public_image_is_for_every_pod(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    await bench.ensure("web:2", uid="first")
    await bench.ensure("web:2", uid="second", secrets=["mine"])

    assert 1 == len(bench.registry.pulls)


async def test_without_the_feature_what_is_there_is_everybodys_but_always_still_asks(
    autojump_clock: MockClock,
) -> None:
    bench = Bench([], [], PullRules(5, verification=None), private={PRIVATE: [MINE]})
    await bench.ensure(PRIVATE, uid="first", secrets=["mine"])
    await bench.ensure(PRIVATE, uid="second")
    with pytest.raises(ImageUnavailable):
        await bench.ensure(PRIVATE, "Always", uid="third")


async def test_a_registry_that_is_away_has_a_reason_of_its_own(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    bench.registry.breaks = RuntimeFailure("RegistryUnavailable: connection refused")
    with pytest.raises(ImageUnavailable) as failed:
        await bench.ensure("web:2")
    with pytest.raises(RetryAt) as later:
        await bench.ensure("web:2")

    message = "image pull failed for web:2 because the registry is unavailable: connection refused"
    assert ("RegistryUnavailable", message) == (failed.value.reason, failed.value.message)
    assert f'Back-off pulling image "web:2": RegistryUnavailable: {message}' == later.value.message
    assert ("Warning", "Failed", "Error: RegistryUnavailable") in bench.said.events


@pytest.mark.parametrize(
    ("expected", "error"),
    [({"web:2"}, RuntimeTimeout("late")), (set(), RuntimeUnavailable("away")), (set(), RuntimeFailure("no"))],
)
async def test_a_pull_that_may_have_happened_is_not_forgotten(
    expected: set[str], error: Exception, autojump_clock: MockClock
) -> None:
    bench = Bench([], ["web:2"])
    bench.registry.breaks = error
    with pytest.raises(ImageUnavailable):
        await bench.ensure("web:2", secrets=["mine"])

    assert expected == bench.records.pulling


async def test_cancelled_pull_gives_its_image_to_no_pod(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    with trio.move_on_after(0.5):
        await bench.ensure("web:2")

    assert {"web:2"} == bench.records.pulling
    assert {} == bench.puller.progress("u")


async def test_an_image_is_not_pulled_where_that_cannot_be_written_down(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    bench.records.fails = OSError(28, "No space left on device", "/root/pulling")
    expected = "cannot record the image pull: /root/pulling: No space left on device"
    with pytest.raises(ImageUnavailable, match=expected):
        await bench.ensure("web:2")

    assert [] == bench.registry.pulls


async def test_what_all_logins_were_told_is_reported_once_each(autojump_clock: MockClock) -> None:
    bench = Bench([], [], private={PRIVATE: []})
    with pytest.raises(ImageUnavailable) as told:
        await bench.ensure(PRIVATE, secrets=["wrong", "mine"])

    assert f"{PRIVATE}: insufficient_scope" == told.value.message
    assert 2 == len(bench.registry.logins)


async def test_how_a_pull_stands_can_be_looked_at(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:1", "web:2"], PullRules(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.ensure, "web:1", "IfNotPresent", "a")
        await trio.sleep(0.4)
        nursery.start_soon(bench.ensure, "web:1", "IfNotPresent", "b")
        nursery.start_soon(bench.ensure, "web:2", "IfNotPresent", "c")
        await trio.sleep(0.1)
        told = {uid: dict(bench.puller.progress(uid)) for uid in "abcd"}

    assert {
        "a": {"main": "pulling web:1, for 0s"},
        "b": {"main": "waiting for another pod's pull of web:1, for 0s"},
        "c": {"main": "web:2 is queued to be pulled, 1 ahead of it, for 0s"},
        "d": {},
    } == told
    assert {} == bench.puller.progress("a")


async def test_the_records_are_looked_through_at_start_and_every_five_minutes(autojump_clock: MockClock) -> None:
    bench = Bench(["app:1"], [])
    bench.records.pulling.add("app:1")
    async with trio.open_nursery() as nursery:
        await nursery.start(bench.puller.run)
        await trio.sleep(1)
        assert set() == bench.records.pulling
        bench.registry._present.clear()
        await trio.sleep(250)
        assert 1 == len(bench.records.records)
        await trio.sleep(100)
        assert {} == bench.records.records
        nursery.cancel_scope.cancel()


async def test_an_image_that_was_pulled_and_cannot_be_looked_at_is_nobodys(autojump_clock: MockClock) -> None:
    bench = Bench([], ["web:2"])
    async with trio.open_nursery() as nursery:

        async def asking() -> None:
            with pytest.raises(ImageUnavailable, match="disk is gone"):
                await bench.ensure("web:2")

        nursery.start_soon(asking)
        await trio.sleep(0.5)
        bench.registry.status_fails = True

    assert {"web:2"} == bench.records.pulling


class Imports:
    """An image directory with one archive, which may be damaged."""

    def __init__(self, registry: Registry, image: str, *, damaged: bool = False) -> None:
        self._registry = registry
        self._image = image
        self._damaged = damaged

    async def bring_sandbox_images(self) -> None:
        self._registry._present.add("pause:1")

    async def bring(self, image: str) -> str | None:
        await trio.sleep(3)
        if image != self._image:
            return None
        if self._damaged:
            raise ImportFailed("/images/app.tar: ctr ended with 1: broken")
        self._registry._present.add(image)
        return "/images/app.tar"


@pytest.mark.parametrize("policy", ["Never", "IfNotPresent"])
async def test_an_archived_image_is_imported_and_not_pulled(autojump_clock: MockClock, policy: str) -> None:
    bench = Bench([], ["web:2"])
    bench.use(Imports(bench.registry, "app:1"))
    await bench.ensure("app:1", policy)
    await bench.ensure("app:1", policy, uid="v")
    assert [] == bench.registry.pulls
    present = ("Normal", "Pulled", 'Container image "app:1" already present on machine and can be accessed by the pod')
    assert [
        ("Normal", "Imported", 'Imported image "app:1" from /images/app.tar in 3s'),
        present,
        present,
    ] == bench.said.events

    await bench.ensure("web:2")
    assert ["web:2"] == bench.registry.pulls, "which no archive has"


async def test_an_archived_image_is_also_pulled_with_the_policy_always(autojump_clock: MockClock) -> None:
    bench = Bench([], ["app:1"])
    bench.use(Imports(bench.registry, "app:1"))
    await bench.ensure("app:1", "Always")
    assert ["app:1"] == bench.registry.pulls


@pytest.mark.parametrize(
    ("message", "policy"),
    [
        ('Container image "app:1" is not present with pull policy of Never', "Never"),
        ("app:1: not found", "IfNotPresent"),
    ],
)
async def test_without_its_image_a_pod_is_told_why_the_archive_was_not_imported(
    autojump_clock: MockClock, message: str, policy: str
) -> None:
    bench = Bench([], [])
    bench.use(Imports(bench.registry, "app:1", damaged=True))
    with pytest.raises(ImageUnavailable) as failed:
        await bench.ensure("app:1", policy)
    assert f"{message}; it was not imported: /images/app.tar: ctr ended with 1: broken" == failed.value.message
    said = 'Failed to import image "app:1": /images/app.tar: ctr ended with 1: broken'
    assert ("Warning", "Failed", said) == bench.said.events[0]


async def test_a_damaged_archive_does_not_keep_an_image_from_being_pulled(autojump_clock: MockClock) -> None:
    bench = Bench([], ["app:1"])
    bench.use(Imports(bench.registry, "app:1", damaged=True))
    await bench.ensure("app:1")
    assert ["app:1"] == bench.registry.pulls


async def test_an_import_that_is_under_way_is_shown(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    bench.use(Imports(bench.registry, "app:1"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.ensure, "app:1")
        await trio.sleep(2)
        assert {"main": "looking for app:1 in the image directory, for 2s"} == bench.puller.progress("u")
    assert {} == bench.puller.progress("u")


async def test_images_of_sandboxes_are_imported_before_a_pod_asks(autojump_clock: MockClock) -> None:
    bench = Bench([], [])
    bench.use(Imports(bench.registry, "app:1"))
    async with trio.open_nursery() as nursery:
        await nursery.start(bench.puller.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert {"pause:1"} == bench.registry._present
