"""The runtime of a root directory's pods: its endpoint is recorded next to them.

An agent removes orphans, pods that no manifest has. With the root directory of pods on another runtime, which it cannot
see, it would remove the volumes and logs of running containers. So an agent that finds such pods does not start. Pods
of a runtime inside an agent are different: they ended with their agent, and only their directories are left. They may
move to another runtime, once that answers.

Pods without a record belong to another node agent, usually an upstream kubelet that is stopped. An agent with that
kubelet's kubeconfig replaces it: the API server knows which of them are desired. A standalone agent cannot know that;
started by hand on such a node it would end every pod. So it notes their UIDs, and leaves them alone
(``node.unknown_pods``, docs/decisions/0041).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from trikubelet.app.endpoint import FAKE, INSIDE, RuntimeRecord, why_silent
from trikubelet.app.paths import RUNTIME_RECORD
from trikubelet.core.unknown_pods import REMEDY
from trikubelet.cri.endpoint import connect_failure, endpoint_at, socket_path
from trikubelet.host.uid_files import UNKNOWN_PODS, put_unknown
from trikubelet.kit.plain_file import open_plain
from trikubelet.kit.private_file import write_durably
from trikubelet.model.errors import StartFailed
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from pathlib import Path

_RECORD_BYTES_MAX: Final = 8 * 1024
"""More than the path of a socket, however it is escaped."""


def bind_to_runtime(root_dir: Path, endpoint: str, *, takes_over: bool = True) -> str:
    """Record that the pods of this root directory run on that runtime. Return a line for the log, or nothing.
    ``takes_over``: pods of another node agent become this one's. Raises StartFailed if it has pods of another runtime:
    ours of an earlier start, or, for an in-process runtime, of any agent."""
    try:
        ours = endpoint if endpoint in INSIDE else endpoint_at(socket_path(endpoint))
    except ValueError as error:
        raise StartFailed(f"containerRuntimeEndpoint: {error}") from error
    try:
        known = recorded_runtime(root_dir)
        changes = known != ours and has_pods(root_dir)
        if changes:
            _refuse(root_dir, known, ours)
        if takes_over:
            (root_dir / UNKNOWN_PODS).unlink(missing_ok=True)
        # not written again: on a full disk that would keep out the agent that could evict the pod that filled it
        if known == ours:
            return ""
        unknown = frozenset[str]() if known or takes_over else _pods_in(root_dir)
        if unknown:  # before the record, after which they would be ours
            put_unknown(root_dir, unknown)
        # Flushed: without it every pod of this node would be another agent's at the next start.
        write_durably(root_dir / RUNTIME_RECORD, f"{ours}\n".encode(errors="surrogateescape"))
    except OSError as error:
        raise StartFailed(
            f"{error.filename or root_dir}: {error.strerror}; the root directory must be writable"
        ) from error
    if changes and known in INSIDE:
        return f"The pods in {root_dir} ended with the agent whose runtime was {known} and start anew on {ours}"
    if unknown:
        pods = "pod" if len(unknown) == 1 else "pods"
        return (
            f"{len(unknown)} {pods} in {root_dir} that another node agent began will be left alone, because no agent "
            f"of this kind has run there and this one has no kubeconfig ({REMEDY})"
        )
    return ""


def recorded_runtime(root_dir: Path) -> str:
    """Return the endpoint of the runtime that its pods run on; empty if none is recorded. Raises OSError. The file may
    be a container's, with any content, because other agents are found by the records of all processes."""
    try:
        with open_plain(str(root_dir / RUNTIME_RECORD)) as record:
            return record.read(_RECORD_BYTES_MAX).decode(errors="surrogateescape").strip()
    except FileNotFoundError:
        return ""


def runtime_record(root_dir: Path) -> RuntimeRecord | None:
    """Return the record that decides if no runtime is configured. None if there is none that an agent can start on: it
    cannot be read, is damaged, or names the simulated runtime, which must be configured explicitly."""
    try:
        endpoint = recorded_runtime(root_dir)
        if endpoint not in INSIDE:
            socket_path(endpoint)
        if endpoint == FAKE:
            return None
        return RuntimeRecord(endpoint, root_dir, has_pods(root_dir))
    except (OSError, ValueError):
        return None


def _refuse(root_dir: Path, known: str, ours: str) -> None:
    """Raise StartFailed unless the pods there may change their runtime."""
    if known in INSIDE:
        # Once the pods are recorded on a real runtime they cannot come back, so a mistyped endpoint must not be
        # recorded.
        if problem := why_silent(ours):
            raise StartFailed(
                f"cannot move the pods in {root_dir} from the container runtime {known} to {ours}: "
                f"{connect_failure(socket_path(ours), problem)} (start that one, or give "
                f"--container-runtime-endpoint={known} or another --root-dir)"
            )
        return
    if known:
        raise StartFailed(
            f"{root_dir} has pods on the container runtime {known}, and this agent would run on {ours}: "
            f"give --container-runtime-endpoint={known}, or another --root-dir, or remove {root_dir}/pods"
        )
    if ours in INSIDE:
        raise StartFailed(
            f"{root_dir} has pods of another agent, which the runtime {ours} does not know: give another "
            f"--root-dir, or remove {root_dir}/pods"
        )


def has_pods(root_dir: Path) -> bool:
    """True if it has directories of pods. Raises OSError."""
    pods = root_dir / "pods"
    return pods.is_dir() and bool(os.listdir(pods))


def _pods_in(root_dir: Path) -> frozenset[str]:
    pods = root_dir / "pods"
    return frozenset(name for name in os.listdir(pods) if not uid_problem(name)) if pods.is_dir() else frozenset()
