"""A pod's credentials for an image: from its Secrets, the node, plugins; in their order, and without any of them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Said
from trikubelet.images import plugins
from trikubelet.images.credentials import PodCredentials
from trikubelet.model import k8s
from trikubelet.model.credential_plugin import CredentialPlugin, TokenAttributes
from trikubelet.model.objects import ServiceAccountToken
from trikubelet.model.registry import AccountOwner, Credential, Login, SecretOwner
from trikubelet.sources.objects import ManifestObjects
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_pulls import MemoryLogins

if TYPE_CHECKING:
    from trio.testing import MockClock

IMAGE = "r.example/team/app:1"
V1 = "credentialprovider.kubelet.k8s.io/v1"
PLUGIN = CredentialPlugin(name="p", match_images=("r.example",), default_cache_duration=60.0, api_version=V1)


def secret(name: str, place: str = "r.example", type_: str = "kubernetes.io/dockerconfigjson") -> k8s.Secret:
    config = json.dumps({"auths": {place: {"username": name, "password": "p"}}})
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    return k8s.Secret(metadata=k8s.ObjectMeta(name=name, namespace="default"), type=type_, data=data)


def of_secret(name: str) -> Credential:
    return Credential(Login(name, "p"), SecretOwner("", "default", name))


def says(username: str, key: str = "Registry") -> bytes:
    auth = {"r.example": {"username": username, "password": "p"}}
    answer = {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": key, "auth": auth}
    return json.dumps(answer).encode()


class Objects(ManifestObjects):
    """Those of manifests, and one service account: its ``annotations``, None where nobody answers for it. Each pod has
    a token of its own."""

    annotations: dict[str, str] | None = None

    async def service_account(self, pod: k8s.Pod) -> k8s.ObjectMeta:
        if self.annotations is None:
            return await super().service_account(pod)
        return k8s.ObjectMeta(name="robot", namespace="default", uid="r", annotations=self.annotations)

    async def token(self, pod: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        await trio.lowlevel.checkpoint()
        return ServiceAccountToken(f"{pod.metadata.name} for {audience} {seconds}", "")


class Bench:
    """A pod's view of manifests and a node."""

    def __init__(
        self, *secrets: k8s.Secret, node: MemoryLogins | None = None, plugin: CredentialPlugin | None = None
    ) -> None:
        self.said = Said()
        self.objects = Objects(["file"])
        self.objects.replace("file", secrets)
        self.node = node or MemoryLogins()
        self.credentials = PodCredentials(self.objects, self.node, [plugin] if plugin else [], self.said)
        self.missing: tuple[str, ...] = ()

    async def find(
        self, *names: str, image: str = IMAGE, account: str = "robot", name: str = "web"
    ) -> list[Credential]:
        secrets = tuple(k8s.LocalObjectReference(name=secret) for secret in names)
        wanted = pod(name, image_pull_secrets=secrets, service_account_name=account)
        found = await self.credentials.find(wanted, image)
        self.missing = found.missing
        return list(found.credentials)

    @property
    def tokens(self) -> list[str]:
        """Return the requests to the plugin so far."""
        return [json.loads(told).get("serviceAccountToken", "") for _, told in self.node.asked]


def wanting(cache_type: str = "ServiceAccount", *, must: bool = True, key: str = "") -> CredentialPlugin:
    wanted = TokenAttributes(
        service_account_token_audience="r",
        cache_type=cache_type,
        require_service_account=must,
        required_service_account_annotation_keys=(key,) if key else (),
    )
    return msgspec.structs.replace(PLUGIN, token_attributes=wanted)


JOE = Credential(Login("joe", "p"))
OF_ACCOUNT = Credential(JOE.login, AccountOwner("r", "default", "robot"))


async def test_a_pod_without_anything_has_nothing(autojump_clock: MockClock) -> None:
    bench = Bench(secret("unused"))
    assert [] == await bench.find()
    assert [] == bench.said.events


async def test_its_secrets_come_first_then_the_node_then_plugins(autojump_clock: MockClock) -> None:
    node = MemoryLogins({"r.example/team": Login("node", "p")}, {"p": lambda _: says("plugin")})
    bench = Bench(secret("a"), secret("b", "r.example/team"), secret("c", "other.example"), node=node, plugin=PLUGIN)
    assert [
        of_secret("b"),
        of_secret("a"),
        Credential(Login("node", "p")),
        Credential(Login("plugin", "p")),
    ] == await bench.find("a", "b", "c")


async def test_secrets_that_give_nothing_are_named_and_the_others_are_taken(autojump_clock: MockClock) -> None:
    bench = Bench(secret("a"), secret("odd", type_="Opaque"))
    assert [of_secret("a")] == await bench.find("gone", "a", "", "odd", "gone")
    assert ("gone", "odd") == bench.missing
    assert [] == bench.said.events


async def test_a_plugin_is_asked_only_for_its_images_and_its_answer_is_kept(autojump_clock: MockClock) -> None:
    node = MemoryLogins(answers={"p": lambda _: says("joe")})
    bench = Bench(node=node, plugin=PLUGIN)
    assert [] == await bench.find(image="other.example/app:1")
    assert [] == node.asked
    for image in (IMAGE, IMAGE, "r.example/other:2"):
        assert [Credential(Login("joe", "p"))] == await bench.find(image=image)
    assert 1 == len(node.asked)
    await trio.sleep(61)
    await bench.find()
    assert 2 == len(node.asked)


async def test_a_plugin_that_fails_or_says_nonsense_makes_no_login_and_is_asked_again(
    autojump_clock: MockClock,
) -> None:
    for node in (MemoryLogins(), MemoryLogins(answers={"p": lambda _: b"nonsense"})):
        bench = Bench(node=node, plugin=PLUGIN)
        assert [] == await bench.find()
        assert [] == await bench.find()
        assert 2 == len(node.asked)
        message = "Unable to get credentials from the credential plugin p (see the node's log); "
        message += "attempting to pull the image may not succeed."
        assert [("Warning", "CredentialPluginFailed", message)] * 2 == bench.said.events


@pytest.mark.parametrize(
    ("expected", "cache_type"),
    [(["web for r 3600"], "ServiceAccount"), (["web for r 3600", "other for r 3600"], "Token")],
)
async def test_a_plugin_that_wants_it_is_told_the_pods_account_and_its_answer_is_that_accounts(
    autojump_clock: MockClock, expected: list[str], cache_type: str
) -> None:
    bench = Bench(node=MemoryLogins(answers={"p": lambda _: says("joe")}), plugin=wanting(cache_type, key="a"))
    bench.objects.annotations = {"a": "1", "z": "9"}
    for name in ("web", "web", "other"):
        assert [OF_ACCOUNT] == await bench.find(name=name)

    assert expected == bench.tokens
    assert {"a": "1"} == json.loads(bench.node.asked[0][1])["serviceAccountAnnotations"]
    bench.objects.annotations = {"a": "2"}
    await bench.find()
    assert len(expected) + 1 == len(bench.tokens), "for another annotation it may have another answer"


@pytest.mark.parametrize(
    ("expected", "must", "account", "annotations"),
    [
        ([], True, "", {"a": "1"}),
        ([], True, "robot", {}),
        ([], True, "robot", None),
        ([JOE], False, "", {}),
    ],
    ids=["no account", "an annotation is missing", "nobody answers", "none is needed"],
)
async def test_a_pod_for_which_a_plugin_is_not_to_be_asked_does_without(
    autojump_clock: MockClock, expected: list[Credential], must: bool, account: str, annotations: dict[str, str] | None
) -> None:
    plugin = wanting(must=must, key="a" if must else "")
    bench = Bench(node=MemoryLogins(answers={"p": lambda _: says("joe")}), plugin=plugin)
    bench.objects.annotations = annotations

    assert expected == await bench.find(account=account)
    assert ["" for _ in expected] == bench.tokens


async def test_of_too_many_answers_the_oldest_is_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "ANSWERS_KEPT_MAX", 2)
    node = MemoryLogins(answers={"p": lambda _: says("joe", key="Image")})
    bench = Bench(node=node, plugin=PLUGIN)
    asked = []
    for name in "abcbca":
        before = len(node.asked)
        await bench.find(image=f"r.example/{name}:1")
        asked.append((name, len(node.asked) - before))

    assert [("a", 1), ("b", 1), ("c", 1), ("b", 0), ("c", 0), ("a", 1)] == asked


async def test_many_pods_at_once_run_a_plugin_a_few_times_only(autojump_clock: MockClock) -> None:
    node = MemoryLogins(answers={"p": lambda _: says("joe")})
    bench = Bench(node=node, plugin=PLUGIN)

    async def want(number: int) -> None:
        assert [Credential(Login("joe", "p"))] == await bench.find(image=f"r.example/app{number}:1")

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(want, number)
    assert len(node.asked) <= 4
