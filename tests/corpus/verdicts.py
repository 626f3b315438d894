"""What is said of a pod: by this agent, and by an API server, live or as it was recorded.

A verdict is what is wrong, sorted: each field's path and the kind of its problem, ``spec.containers: Required value``;
nothing for a pod that is accepted. Where a server says no without naming fields (it could not read the pod, or an
admission plugin refused it), its words in brackets stand there.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from trikubelet.core.manifest.load import NO_API, load_manifest
from trikubelet.model.upstream import minor_of

if TYPE_CHECKING:
    from live.kit.certificates import Credentials
    from trikubelet.model.upstream import Minor

RECORD = Path(__file__).parent.parent / "recorded" / "verdicts.json"
ANSWER_SECONDS_MAX = 30.0
NODE = "n"


def ours(pod: dict[str, Any]) -> list[str]:
    """What this agent has against a pod of a manifest, apart from what only static pods may not have: by the function
    that reads manifests, so that whatever it leaves out is left out here."""
    loaded = load_manifest(json.dumps(pod), "corpus", NODE, seen="")
    assert bool(loaded.pods) != bool(loaded.faults), loaded
    return sorted(
        {_problem(fault.path, fault.problem) for fault in loaded.faults if not fault.problem.endswith(NO_API)}
    )


def _problem(path: str, text: str) -> str:
    """Both sides begin what they say of a field with the kind of the problem."""
    return f"{path}: {text.partition(':')[0]}"


def recorded() -> dict[str, list[str]]:
    """What an API server said, by the pods' names in the corpus."""
    return dict(json.loads(RECORD.read_text()))


def write(verdicts: dict[str, list[str]]) -> None:
    """Make a record of it, a line for each pod."""
    lines = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(said)}" for name, said in verdicts.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


class Server:
    """Owns one connection to an API server at ``url``, made as a user who may create pods; a context manager."""

    def __init__(self, url: str, authority: Path, user: Credentials) -> None:
        trust = ssl.create_default_context(cafile=authority)
        trust.load_cert_chain(user.certificate, user.key)
        self._connection = http.client.HTTPSConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS_MAX, context=trust)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def verdict(self, pod: dict[str, Any]) -> list[str]:
        """What the server has against a pod, of which nothing is kept. Raises OSError and AssertionError."""
        where = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict"
        self._connection.request("POST", where, json.dumps(pod), {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        said = json.loads(reply.read())
        if reply.status == http.HTTPStatus.CREATED:
            return []
        assert reply.status in (400, 403, 422), (reply.status, said)
        causes = [cause for cause in said.get("details", {}).get("causes", ()) if cause.get("field")]
        if reply.status != http.HTTPStatus.UNPROCESSABLE_ENTITY:
            return [f"[{said['message']}]"]
        return sorted({_problem(cause["field"], cause["message"]) for cause in causes})

    def minor(self) -> Minor:
        """Return the minor version of Kubernetes that the server has."""
        self._connection.request("GET", "/version")
        return minor_of(json.loads(self._connection.getresponse().read())["gitVersion"])

    def schemas(self) -> dict[str, Any]:
        """The schemas of the API's core types, by their full names."""
        self._connection.request("GET", "/openapi/v3/api/v1")
        return dict(json.loads(self._connection.getresponse().read())["components"]["schemas"])
