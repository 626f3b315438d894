"""The doctor's checks of the cluster: the kubeconfig, its certificate, the API server, this node's permissions there.

Permissions are checked as ``kubectl auth can-i`` does: by a SelfSubjectAccessReview for each of ``core.doctor.RIGHTS``,
which every user may create. Loaded only for a member of a cluster, because it imports an HTTP client.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from trikubelet.app.access import client_certificate, connect, find_access, shown_certificate
from trikubelet.core.doctor import RIGHTS, Renewal, judge_certificate, judge_rights
from trikubelet.core.doctor.cluster import CERTIFICATE, RIGHTS_CHECK
from trikubelet.host.clock import SystemClock
from trikubelet.model.api import SELF_ACCESS_REVIEWS
from trikubelet.model.api_errors import ApiError, Forbidden, NothingToShow, Unauthorized
from trikubelet.model.certificates import CertificateUnusable
from trikubelet.model.decoding import read_item
from trikubelet.model.errors import StartFailed
from trikubelet.model.finding import error, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.app.settings import Settings
    from trikubelet.core.doctor import Finding, Right
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.kubeconfig import ClusterAccess
    from trikubelet.ports import Api

AT_ONCE_MAX = 2
"""Concurrent reviews: as many as there are connections."""


class _Answer(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Answer


async def examine_cluster(settings: Settings, threads: ThreadPool) -> Sequence[Finding]:
    """Return the findings. Creates nothing but reviews, which are not stored; ``threads`` read the files. Raises
    StartFailed if the files change meanwhile."""
    clock = SystemClock()
    try:
        found = await threads.run(partial(find_access, settings, clock))
    except StartFailed as wrong:
        return [error(RIGHTS_CHECK, str(wrong), "write a kubeconfig for this node, or give --bootstrap-kubeconfig")]
    if found.is_first:
        why = found.outlived or "this node has only its bootstrap token so far"
        return [warning(RIGHTS_CHECK, why, "approve its certificate request: kubectl get csr")]
    held = await threads.run(lambda: list(_certificate(settings, found.access, clock)))
    return [*held, *await _rights(settings, found.access, clock, threads)]


def _certificate(settings: Settings, access: ClusterAccess, clock: SystemClock) -> Iterator[Finding]:
    given = f"{settings.kubeconfig}'s certificate"
    try:
        shown = shown_certificate(access, client_certificate(settings, clock), clock)
    except (CertificateUnusable, OSError) as wrong:
        yield error(CERTIFICATE, f"{given}: {wrong}", "put certificate and key there, or bootstrap again")
        return
    if shown is None:
        return
    path, held = shown
    rotates = settings.configuration.rotate_certificates
    renewal = Renewal.ASKED_FOR if rotates else Renewal.BY_HAND
    what = f"{path}, presented instead of {given}," if path else given
    yield from judge_certificate(what, held, clock.now_ns(), renewal)


async def _rights(
    settings: Settings, access: ClusterAccess, clock: SystemClock, threads: ThreadPool
) -> Sequence[Finding]:
    server = access.server.url
    api, hang_up = await threads.run(partial(connect, access, clock, is_trial=True))
    refused: list[Right] = []
    limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def ask(right: Right) -> None:
        async with limit:
            if not await _allowed(api, right, settings.node_name):
                refused.append(right)

    problems: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            for right in RIGHTS:
                nursery.start_soon(ask, right)
    except* ApiError as group:
        problems += group.exceptions
    finally:
        hang_up()
    if problems:
        return [_problem(server, problems[0])]
    return list(judge_rights(server, [right for right in RIGHTS if right in refused]))


def _problem(server: str, wrong: BaseException) -> Finding:
    if isinstance(wrong, Unauthorized | Forbidden):
        return error(
            RIGHTS_CHECK, f"{server} does not know this node's user: {wrong}", "renew its certificate or token"
        )
    if isinstance(wrong, NothingToShow):
        return error(RIGHTS_CHECK, f"cannot send requests to it: {wrong}", "check the files that its kubeconfig names")
    return error(RIGHTS_CHECK, f"{server}: {wrong}", "check that it runs and can be reached: curl -k its /healthz")


async def _allowed(api: Api, right: Right, node: str) -> bool:
    attributes: dict[str, Any] = {name: value for name, value in asdict(right).items() if value and name != "own"}
    attributes["name"] = right.name.format(node=node)
    if right.own:
        requirement = {"key": "spec.nodeName", "operator": "In", "values": [node]}
        attributes["fieldSelector"] = {"requirements": [requirement]}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return read_item(await api.create(SELF_ACCESS_REVIEWS, body), _Review).status.allowed
