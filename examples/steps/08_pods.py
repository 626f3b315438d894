"""Step 8: GET /pods, asking the node itself.

The API server knows what the node told it last; the node knows what is so. On its HTTPS port 10250 a kubelet answers
GET /pods to whoever the API server says may ask. This agent answers the same on a Unix socket in its directory, to
whoever may open it; `trikubelet get pods` is a client of it, and so is this step. Two pods are bound to
the node, and the node is asked until it says that both run: not one question goes to the API server for that.
"""

import json
from pathlib import Path

import trio
from step import agent, api_of, parser, run, say

from trikubelet.cli.client import AgentClient
from trikubelet.model.api import PODS
from trikubelet.server.node_view import SOCKET_NAME

NAME = "asked-itself"


async def main(kubeconfig: Path) -> None:
    api = api_of(kubeconfig)
    async with agent(NAME, kubeconfig) as settings:
        for name in ("one", "two"):
            spec = {
                "nodeName": NAME,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "registry.example/any:1"}],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await api.create(PODS, pod, "default")
        node = AgentClient(str(settings.run_dir / SOCKET_NAME))
        while True:
            answer = json.loads(await node.get("/pods"))
            if [pod["status"].get("phase") for pod in answer["items"]] == ["Running", "Running"]:
                break
            await trio.sleep(0.2)
        say(f"GET /pods: a {answer['kind']} of {answer['apiVersion']}")
        for pod in sorted(answer["items"], key=lambda pod: str(pod["metadata"]["name"])):
            (shown,) = pod["status"]["containerStatuses"]
            since = shown["state"]["running"]["startedAt"]
            say(f"  {pod['metadata']['name']}: {pod['status']['phase']}, container {shown['name']} since {since}")
        for name in ("one", "two"):
            await api.delete(PODS, name, "default", grace_seconds=0)


if __name__ == "__main__":
    run(main, parser(__doc__).parse_args().kubeconfig)
