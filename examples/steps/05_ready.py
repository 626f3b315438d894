"""Step 5: a node that is Ready, and a pod that runs there, on a runtime that only pretends.

All of an agent's parts together: lease, node status, informers, sync loop, PLEG. The runtime is the fake one, which
says yes to everything and runs nothing, so this needs no root, no containerd and no image. The cluster cannot tell:
the node becomes Ready, a pod bound to it becomes Running, and a deleted pod goes only when its containers have gone.
"""

from pathlib import Path

from step import agent, api_of, parser, ready_of, run, say

from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS, ChangeKind, Item, Selection
from trikubelet.model.decoding import decode_object

NAME = "pretender"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "first", "namespace": "default"},
    "spec": {
        "nodeName": NAME,  # what a scheduler would have written there
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "registry.example/any:1"}],
    },
}


async def main(kubeconfig: Path) -> None:
    api = api_of(kubeconfig)
    async with agent(NAME, kubeconfig):
        async with api.watch(NODES, Selection(fields=f"metadata.name={NAME}"), resource_version="") as changes:
            async for change in changes:
                if change.kind is not ChangeKind.BOOKMARK and ready_of(change.item).status == "True":
                    break
        say("node: Ready")
        before = ""
        async with api.watch(PODS, Selection("default", "metadata.name=first"), resource_version="") as changes:
            await api.create(PODS, POD, "default")  # in here: what became of it before would not be seen
            async for change in changes:
                if change.kind is ChangeKind.DELETED:
                    break
                if change.kind is not ChangeKind.BOOKMARK and (now := told(change.item)) != before:
                    say(f"pod:  {now}")
                    before = now
                    if now == "Running":
                        await api.delete(PODS, "first", "default")
        say("pod:  gone")


def told(item: Item) -> str:
    pod = decode_object(item.raw, k8s.Pod)
    phase = pod.status.phase if pod.status else ""
    return f"{phase}, to be deleted" if pod.metadata.deletion_timestamp else phase


if __name__ == "__main__":
    run(main, parser(__doc__).parse_args().kubeconfig)
