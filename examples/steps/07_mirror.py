"""Step 7: a static pod and its mirror.

A pod can be given to an agent without any API server: as a file in a directory. That is how a control plane starts
itself. So that it is seen all the same, the agent makes a mirror in the cluster: a pod object with the static pod's
name and spec and the hash of its manifest in an annotation. The mirror shows, and that is all it does. Whoever deletes
it sees it come back, and the container never hears of it. When the file goes, the pod ends, and the mirror with it.
"""

import json
from contextlib import suppress
from pathlib import Path

import trio
from step import agent, api_of, parser, run, say

from trikubelet.kube.client import ApiClient
from trikubelet.model.api import PODS
from trikubelet.model.api_errors import ObjectMissing

NAME, MIRROR = "with-files", "web-with-files"  # a static pod's name ends in its node's
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "registry.example/web:1"}]},
}


async def running(api: ApiClient, but: str = "") -> tuple[str, str, str]:
    """The UID, manifest hash and container of the mirror, once one that is not ``but`` shows a running container."""
    while True:
        with suppress(ObjectMissing):
            pod = json.loads((await api.get(PODS, MIRROR, "default")).raw)
            meta, shown = pod["metadata"], pod["status"].get("containerStatuses", [{}])[0]
            if meta["uid"] != but and "running" in shown.get("state", {}):
                return meta["uid"], meta["annotations"]["kubernetes.io/config.hash"], shown["containerID"]
        await trio.sleep(0.2)


async def main(kubeconfig: Path) -> None:
    api = api_of(kubeconfig)
    async with agent(NAME, kubeconfig) as settings:
        manifest = settings.root_dir / "manifests/web.json"
        manifest.write_text(json.dumps(POD))
        first, hash_, container = await running(api)
        say(f"mirror:  {first}, of hash {hash_}")
        say(f"shows:   {container}")
        await api.delete(PODS, MIRROR, "default")
        second, *same = await running(api, first)
        say(f"deleted: back as {second}; hash and container are the same: {same == [hash_, container]}")
        manifest.unlink()
        with suppress(ObjectMissing):
            while (await api.get(PODS, MIRROR, "default")).uid:
                await trio.sleep(0.2)
        say("file gone, mirror gone")


if __name__ == "__main__":
    run(main, parser(__doc__).parse_args().kubeconfig)
