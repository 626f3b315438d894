"""Step 2: a bootstrap token made, and what it is worth.

A machine that is to become a node has no certificate, and gets one only if it can ask for it. For that there are
bootstrap tokens: a Secret of a certain name and type in kube-system, and whoever shows its token is taken for a user
of the group system:bootstrappers. That user may ask for a certificate and do little else. This step makes such a
Secret, asks the API server who it believes the bearer of the token to be, and writes the bootstrap kubeconfig that
step 4 begins with.
"""

import json
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from step import api_of, parser, run, say

from trikubelet.core.kubeconfig import write_kubeconfig
from trikubelet.kit.private_file import write_privately
from trikubelet.kube.kubeconfig_file import load_kubeconfig
from trikubelet.model.api import SECRETS, Resource
from trikubelet.model.api_errors import Unauthorized
from trikubelet.model.kubeconfig import Token

WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def main(kubeconfig: Path, out: Path) -> None:
    id_, secret = secrets.token_hex(3), secrets.token_hex(8)
    name = f"bootstrap-token-{id_}"
    said = {
        "token-id": id_,
        "token-secret": secret,
        "expiration": (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds"),
        "usage-bootstrap-authentication": "true",
    }
    body = {"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "metadata": {"name": name}}
    await api_of(kubeconfig).create(SECRETS, body | {"stringData": said}, "kube-system")
    say(f"made:    Secret kube-system/{name}, good for an hour")

    # Server and authority as in the administrator's kubeconfig; of the user, nothing but the token.
    write_privately(out, write_kubeconfig(load_kubeconfig(kubeconfig).server, Token(f"{id_}.{secret}")))
    say(f"written: {out.name}")

    review, answer = {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind}, None
    with trio.fail_after(30):
        while answer is None:  # the API server hears of a new token a moment after it was written
            with suppress(Unauthorized):
                answer = await api_of(out).create(WHO_AM_I, review)
            await trio.sleep(0.2)
    user = json.loads(answer.raw)["status"]["userInfo"]
    say(f"its bearer is {user['username']}, of the groups {', '.join(user['groups'])}")


if __name__ == "__main__":
    flags = parser(__doc__)
    flags.add_argument("--out", type=Path, default="bootstrap.kubeconfig", metavar="FILE", help="default: %(default)s")
    run(main, *vars(flags.parse_args()).values())
