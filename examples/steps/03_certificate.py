"""Step 3: a certificate asked for, approved, fetched.

A key is made on the machine and never leaves it; what travels is a request for a certificate, an object of the cluster
that everybody allowed to can look at. It takes three: one who asks, one who approves, and the signer, a controller with
the cluster's key that signs what was approved. Client certificates of nodes are approved by a controller, see step 4.
Serving certificates, by which a node's own HTTPS port is known, are not: nobody but an operator knows whether a machine
is at the addresses it claims. So this step asks for one as the node "by-hand" (an administrator may act as anybody)
and approves it as the administrator, as `kubectl certificate approve` does. `sign` is what an agent itself uses: it
makes the request, or finds it when it was made before a restart, and watches it until somebody has decided.
"""

import json
import tempfile
from pathlib import Path

import trio
from step import api_of, parser, run, say

from trikubelet.core.timestamps import rfc3339
from trikubelet.host.clock import SystemClock
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.kube.client import ApiClient
from trikubelet.model.api import SIGNING_REQUESTS, ChangeKind, Selection
from trikubelet.model.certificates import SERVING_SIGNER, node_subject
from trikubelet.model.kubeconfig import Impersonation
from trikubelet.node.signing import sign


async def approve(api: ApiClient, name: str) -> None:
    async with api.watch(SIGNING_REQUESTS, Selection(fields=f"metadata.name={name}"), resource_version="") as changes:
        first = await anext(changes)
        while first.kind is ChangeKind.BOOKMARK:
            first = await anext(changes)
    request = json.loads(first.item.raw)
    say(f"asked:    {request['spec']['username']} asks {request['spec']['signerName']}")
    approval = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "step 3 has looked at it"}
    request["status"] = {"conditions": [approval]}
    await api.replace(SIGNING_REQUESTS, name, request, subresource="approval")
    say("approved: by the administrator")


async def main(kubeconfig: Path, directory: Path) -> None:
    node = api_of(kubeconfig, Impersonation("system:node:by-hand", groups=("system:nodes", "system:authenticated")))
    store = CertificateFiles(directory, "kubelet-server", SystemClock())
    request = store.request(node_subject("by-hand", ["by-hand"], ["192.0.2.3"]), SERVING_SIGNER)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(approve, api_of(kubeconfig), request.name)
        held = store.keep(await sign(node, request, SERVING_SIGNER))
    say(f"fetched:  a certificate of {held.common_name} for {', '.join(sorted(held.names))}")
    say(f"          good from {rfc3339(held.not_before_ns)} to {rfc3339(held.not_after_ns)}")
    for path in sorted(directory.iterdir()):
        say(f"          {path.name}" + (f" -> {path.readlink()}" if path.is_symlink() else ""))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        run(main, parser(__doc__).parse_args().kubeconfig, Path(place))
