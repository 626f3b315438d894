"""Private images, from a real registry that asks for a password: who gets one, who does not, and who gets one that is
on the node already; with Secrets of the API server, with Secrets from manifests alone, with the node's own logins."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from live.kit.agent import Agent
from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, state, waiting_reason
from live.kit.private_registry import PASSWORD, USER, PrivateRegistry
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.registry import Registry

pytestmark = pytest.mark.slow

RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "registry-tokens"}}
ROBOT = [
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "robot", "namespace": "default", "annotations": {"example.com/registry": "yes"}},
    },
    # Nodes may ask for tokens of the audiences that a pod's volumes name, and of those that they are granted.
    RBAC
    | {
        "kind": "ClusterRole",
        "rules": [{"apiGroups": [""], "resources": ["registry"], "verbs": ["request-serviceaccounts-token-audience"]}],
    },
    RBAC
    | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "registry-tokens"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    },
]
REFUSED = ("ErrImagePull", "ImagePullBackOff")
PRESENT = "already present on machine and can be accessed by the pod"


def secret(name: str, config: str) -> str:
    """A manifest of a Secret."""
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    return yaml.safe_dump({**kind, "metadata": {"name": name}, "stringData": {".dockerconfigjson": config}})


def wants(name: str, image: str, *secrets: str) -> dict[str, Any]:
    """A pod of that image."""
    one = container("c", "serve", "8080", image=image, imagePullPolicy="IfNotPresent")
    return pod(name, one, imagePullSecrets=[{"name": secret} for secret in secrets])


def why(found: dict[str, Any]) -> str:
    """Why its container waits, and what is said about it."""
    waiting = state(found, "c").get("state", {}).get("waiting", {})
    return f"{waiting.get('reason')}: {waiting.get('message', '')}"


def said(agent: Agent, name: str) -> list[str]:
    """The messages of the pod's events."""
    events = agent.ask("/events")["items"]
    return [event["message"] for event in events if event["involvedObject"]["name"] == f"{name}-live"]


def add_plugin(agent: Agent, registry: PrivateRegistry, place: str, **more: object) -> None:
    """A credential plugin for the images at a place, which notes what it is asked."""
    plugins, version = agent.directory / "plugins", "credentialprovider.kubelet.k8s.io/v1"
    plugins.mkdir()
    answer = {
        "apiVersion": version,
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "auth": {registry.address: {"username": USER, "password": PASSWORD}},
    }
    program = plugins / "knows"
    program.write_text(
        f"#!/bin/sh\n{{ cat; echo; }} >> {agent.directory}/asked\ncat <<END\n{json.dumps(answer)}\nEND\n"
    )
    program.chmod(0o755)
    known = {
        "name": "knows",
        "matchImages": [f"{registry.address}/{place}"],
        "defaultCacheDuration": "1h",
        "apiVersion": version,
    }
    kind = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    (plugins / "config.yaml").write_text(yaml.safe_dump({**kind, "providers": [known | more]}))
    agent.words += [
        f"--image-credential-provider-config={plugins / 'config.yaml'}",
        f"--image-credential-provider-bin-dir={plugins}",
    ]


def asked(agent: Agent) -> list[dict[str, Any]]:
    """What the plugin was told, each time it was asked."""
    return [json.loads(line) for line in (agent.directory / "asked").read_text().splitlines() if line]


def claims(token: str) -> dict[str, Any]:
    """What a token says."""
    middle = token.split(".")[1]
    said: dict[str, Any] = json.loads(urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    return said


def wait_refused(agent: Agent, *names: str) -> dict[str, dict[str, Any]]:
    return agent.wait(
        lambda now: all(waiting_reason(now.get(name, {}), "c") in REFUSED for name in names), f"{names} are refused"
    )


def test_secrets_from_manifests_open_a_private_image_for_their_pods_alone(
    containerd: Containerd, private_registry: PrivateRegistry
) -> None:
    containerd.trust(private_registry.address)
    image, foreign = private_registry.push("team/app"), private_registry.push("team/foreign", platform="s390x")
    with Agent(containerd, serializeImagePulls=False) as agent:
        agent.put(secret("good", private_registry.docker_config()), "good.yaml")
        agent.put(secret("bad", private_registry.docker_config("guessed")), "bad.yaml")
        for name, *secrets in (("none",), ("wrong", "bad"), ("gone", "nowhere")):
            agent.put(wants(name, image, *secrets))
        agent.put(wants("foreign", foreign, "good"))
        found = wait_refused(agent, "none", "wrong", "gone", "foreign")
        assert "authoriz" in why(found["wrong"]).lower()
        # The runtime's own words follow the reason, as upstream has it.
        assert "ErrImagePull: failed to pull image" not in why(found["foreign"])
        assert "no match for platform" in why(found["foreign"])
        missing = "Unable to retrieve some image pull secrets (nowhere); attempting to pull the image may not succeed."
        assert missing in said(agent, "gone")

        agent.put(wants("owner", image, "bad", "good"))
        agent.wait_phase("owner", "Running")
        agent.put(wants("stranger", image))
        agent.put(wants("friend", image, "good"))
        agent.wait_phase("friend", "Running")
        assert any(PRESENT in message for message in said(agent, "friend"))
        assert not any("Pulling" in message for message in said(agent, "friend"))
        wait_refused(agent, "stranger")

        # What is written down outlives the agent.
        agent.kill()
        agent.start()
        agent.put(wants("latecomer", image))
        wait_refused(agent, "latecomer", "stranger", "none")
        agent.put(wants("guest", image, "good"))
        agent.wait_phase("guest", "Running")
        assert any(PRESENT in message for message in said(agent, "guest"))


def test_the_nodes_own_logins_are_for_every_pod(containerd2: Containerd, private_registry: PrivateRegistry) -> None:
    containerd2.trust(private_registry.address)
    of_file, of_plugin = private_registry.push("file/app"), private_registry.push("plugin/app")
    agent = Agent(containerd2)
    agent.root.mkdir(parents=True)
    login = json.loads(private_registry.docker_config())["auths"][private_registry.address]
    (agent.root / "config.json").write_text(json.dumps({"auths": {f"{private_registry.address}/file": login}}))
    add_plugin(agent, private_registry, "plugin")
    with agent:
        agent.put(wants("file", of_file))
        for name in ("plugin", "other"):  # two at once may each ask the plugin
            agent.put(wants(name, of_plugin))
            agent.wait_phase(name, "Running")
        agent.wait_phase("file", "Running")
        assert [f"{private_registry.address}/plugin/app"] == [one["image"] for one in asked(agent)]


def test_a_digest_says_which_image_it_is_and_a_pull_under_way_is_shown(
    containerd: Containerd, private_registry: PrivateRegistry, registry: Registry
) -> None:
    for address in (private_registry.address, registry.address):
        containerd.trust(address)
    by_digest = private_registry.by_digest(private_registry.push("digest/app"))
    name, _, digest = by_digest.partition("@")
    wrong = f"{name}@sha256:{'0' * 64}"
    registry.answering.clear()
    with Agent(containerd, serializeImagePulls=False) as agent:
        agent.put(secret("good", private_registry.docker_config()), "good.yaml")
        agent.put(wants("digest", by_digest, "good"))
        # The digest counts where both are said: there is no such tag.
        agent.put(wants("both", f"{name}:never@{digest}", "good"))
        agent.put(wants("wrong", wrong, "good"))
        agent.put(wants("slow", registry.image))
        for running in [agent.wait_phase(one, "Running") for one in ("digest", "both")]:
            assert state(running, "c")["imageID"].endswith(digest)
        assert "not found" in why(wait_refused(agent, "wrong")["wrong"])
        assert f'Failed to pull image "{wrong}"' in "\n".join(said(agent, "wrong"))

        is_pulled = f"pulling {registry.image}, for "
        await_that(lambda: is_pulled in agent.command("describe", "pod", "slow-live").stdout, 60, agent.story, 1)
        registry.answering.set()
        agent.wait_phase("slow", "Running")


def test_secrets_and_accounts_of_the_cluster_open_a_private_image_for_their_pods_alone(
    control_plane: ControlPlane, containerd2: Containerd, private_registry: PrivateRegistry
) -> None:
    kubectl = control_plane.kubectl
    containerd2.trust(private_registry.address)
    image, accounts = private_registry.push("cluster/app"), private_registry.push("account/app")
    log_in = ["create", "secret", "docker-registry", "good", f"--docker-server={private_registry.address}"]
    member = ClusterAgent(containerd2, control_plane)
    wanted = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": True,
        "requiredServiceAccountAnnotationKeys": ["example.com/registry"],
    }
    add_plugin(member, private_registry, "account", tokenAttributes=wanted)
    try:
        kubectl("create", "-f-", manifests=yaml.safe_dump_all(ROBOT))
        with member, member.watch(PODS) as pods:
            member.wait_ready()
            kubectl("create", "-f-", manifests=wants("owner", image, "good"))
            found = pods.wait(
                lambda now: any(waiting_reason(one, "c") in REFUSED for one in now.values()),
                "it waits",
                story=member.story,
            )
            assert "authoriz" in why(found["owner"]).lower()
            # The Secret comes, and the pod has its image without being touched.
            kubectl(*log_in, f"--docker-username={USER}", f"--docker-password={PASSWORD}")
            pods.wait(lambda now: is_ready(now["owner"]), "the owner runs", 90, member.story)
            kubectl("create", "-f-", manifests=wants("stranger", image))
            kubectl("create", "-f-", manifests=wants("friend", image, "good"))
            pods.wait(lambda now: "friend" in now and is_ready(now["friend"]), "the friend runs", story=member.story)
            found = pods.wait(
                lambda now: waiting_reason(now["stranger"], "c") in REFUSED, "the stranger waits", story=member.story
            )
            assert "authoriz" in why(found["stranger"]).lower()
            uids = {one["metadata"]["uid"]: name for name, one in found.items()}

            def told(words: str) -> set[str]:
                """Whose events say so. They are written some time after what they tell of."""
                events = kubectl.get("events")["items"]
                return {uids.get(one["involvedObject"].get("uid"), "") for one in events if words in str(one)} - {""}

            await_that(lambda: {"friend"} == told(PRESENT), 60, member.story)
            await_that(lambda: bool(told("FailedToRetrieveImagePullSecret")), 60, member.story)
            kubectl("delete", "pod", "owner", "stranger", "friend")
            pods.wait(lambda now: not now, "all are gone", story=member.story)

            of_robot = [wants(name, accounts) for name in ("first", "second")]
            for one in of_robot:
                one["spec"]["serviceAccountName"] = "robot"
                kubectl("create", "-f-", manifests=one)
                name = one["metadata"]["name"]
                pods.wait(lambda now, name=name: name in now and is_ready(now[name]), "it runs", 90, member.story)
            kubectl("create", "-f-", manifests=wants("stranger", accounts))
            pods.wait(
                lambda now: "stranger" in now and waiting_reason(now["stranger"], "c") in REFUSED,
                "who has no such account waits",
                story=member.story,
            )
            (asking,) = asked(member)
            assert {"example.com/registry": "yes"} == asking["serviceAccountAnnotations"]
            said = claims(asking["serviceAccountToken"])
            assert (["registry"], "system:serviceaccount:default:robot") == (said["aud"], said["sub"])
            assert "first" == said["kubernetes.io"]["pod"]["name"]
            kubectl("delete", "pod", "first", "second", "stranger")
            pods.wait(lambda now: not now, "all are gone", story=member.story)
    finally:
        kubectl("delete", "secret", "good", "--ignore-not-found")
        kubectl("delete", "-f-", "--ignore-not-found", manifests=yaml.safe_dump_all(ROBOT))
