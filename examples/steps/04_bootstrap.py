"""Step 4: from a token to a node of the cluster.

Steps 2 and 3 in one, as a machine does it in its first minute. All it has is the bootstrap kubeconfig of step 2; with
it, it asks for a certificate, which the cluster approves without anybody's help (a controller does, for the group
system:bootstrappers, where the cluster is set up as kubeadm sets it up). Then it writes the kubeconfig it will live
with and registers its node, with the certificate and no longer with the token. The node is there and NotReady: that
a name is registered says nothing of whether anybody lives there. See steps 1 and 5 for that.
"""

import secrets
import tempfile
from pathlib import Path

from step import api_of, parser, ready_of, run, say

from trikubelet.core.node_status import Identity, new_node
from trikubelet.host.clock import SystemClock
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.kube.kubeconfig_file import load_kubeconfig, save_kubeconfig
from trikubelet.model import k8s
from trikubelet.model.api import NODES
from trikubelet.model.api_errors import Forbidden
from trikubelet.model.certificates import CLIENT_SIGNER, node_subject
from trikubelet.node.signing import sign

NAME = f"newcomer-{secrets.token_hex(3)}"


async def main(bootstrap: Path, directory: Path) -> None:
    by_token = api_of(bootstrap)
    store = CertificateFiles(directory / "pki", "kubelet-client", SystemClock())
    request = store.request(node_subject(NAME), CLIENT_SIGNER)
    held = store.keep(await sign(by_token, request, CLIENT_SIGNER))
    say(f"the cluster signed a certificate for {held.common_name}")

    kubeconfig = directory / "kubelet.conf"
    save_kubeconfig(kubeconfig, load_kubeconfig(bootstrap).server, store.current_path)
    say(f"{kubeconfig.name} is written: {oct(kubeconfig.stat().st_mode & 0o777)}, for its owner alone")

    node = new_node(Identity(NAME, NAME, "amd64"), k8s.NodeStatus())
    try:
        await by_token.create(NODES, node)
    except Forbidden:
        say("the token may not register a node")
    by_certificate = api_of(kubeconfig)
    made = await by_certificate.create(NODES, node)
    say(f"the certificate may: node {made.name} is registered, Ready: {ready_of(made).status}")
    another = new_node(Identity("another", "another", "amd64"), k8s.NodeStatus())
    try:
        await by_certificate.create(NODES, another)
    except Forbidden:
        say("but no other: NodeRestriction holds a node to its own name")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        run(main, parser(__doc__).parse_args().kubeconfig, Path(place))
