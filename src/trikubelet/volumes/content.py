"""Makes the current files of a volume made of data: its sources' objects are read here, and
``core.containers.volume_files`` makes files of them. Nothing is cached; each call returns the current content."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers.allowance import (
    DOWNWARD_BYTES_MAX,
    DOWNWARD_FILES,
    VOLUME_BYTES_MAX,
    VOLUME_FILES,
    Allowance,
    TooLarge,
)
from trikubelet.core.containers.downward import PodFields
from trikubelet.core.containers.volume_files import (
    Contents,
    Files,
    VolumeFile,
    certificate_files,
    clean_path,
    config_map_files,
    downward_files,
    owned,
    secret_file,
    secret_files,
)
from trikubelet.core.trust_bundles import trust_anchors
from trikubelet.model.errors import ObjectUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.volume_files import Sources
    from trikubelet.model.k8s import DownwardAPIVolumeFile, Pod, ServiceAccountTokenProjection, VolumeProjection
    from trikubelet.ports import PodObjects

Maker = Callable[[Contents], Files]

TOKEN_SECONDS = 3600
PROBLEMS_REPORTED_MAX = 10
"""Problems of one volume that are reported; it may have thousands of sources."""


async def maker_of(pod: Pod, sources: Sources, objects: PodObjects, facts: NodeFacts) -> Callable[[], Files]:
    """Return the function that makes the volume's files from its current objects. That may take a while and use as much
    memory as a volume may hold, so it is called in a thread, right before they are written. If two sources have one
    path, the later counts. It raises ValueError with the missing, unsupported or too large sources."""
    makers: list[Maker] = [_nothing for _ in sources.projections]
    problems: list[str] = ["" for _ in sources.projections]

    async def ask(place: int, projection: VolumeProjection) -> None:
        try:
            makers[place] = await _maker(pod, projection, sources.mode, objects)
        except (ValueError, ObjectUnavailable) as error:
            problems[place] = str(error)

    fields, allowance = PodFields(pod, (), facts), Allowance(DOWNWARD_BYTES_MAX, DOWNWARD_FILES)
    async with trio.open_nursery() as nursery:  # concurrently, because each may call a server
        for place, projection in enumerate(sources.projections):
            if (downward := projection.downward_api) is None:
                nursery.start_soon(ask, place, projection)
            else:
                makers[place] = _downward_maker(fields, downward.items, sources.mode, allowance)
    return partial(_made, makers, problems, sources)


def _made(makers: Iterable[Maker], problems: Sequence[str], sources: Sources) -> Files:
    """Return the files of all sources. They are made in order, because their total size is limited, and one after
    another, so that a too large one is never held."""
    files: Files = {}
    contents, allowance = Contents(), Allowance(VOLUME_BYTES_MAX, VOLUME_FILES)
    problems, failures = list(problems), 0
    for place, maker in enumerate(makers):
        try:
            made = owned(maker(contents), sources.projections[place], sources.user)
            for path, file in made.items():
                allowance.count(max(len(file.content), len(path)), path)  # an empty file is not made for nothing
                files[clean_path(path)] = file
        except TooLarge as error:
            problems[place] = str(error)
            break  # reading a thousand more sources would be useless
        except ValueError as error:
            problems[place] = str(error)
            failures += 1
            if failures > PROBLEMS_REPORTED_MAX:
                break  # no more problems are reported, and each source is retried anyway
    if failed := [problem for problem in problems if problem]:
        reported = failed[:PROBLEMS_REPORTED_MAX] + ["…"] * (len(failed) > PROBLEMS_REPORTED_MAX)
        raise ValueError(failed[0] if len(failed) == 1 else f"[{', '.join(reported)}]")
    return files


async def _maker(pod: Pod, source: VolumeProjection, mode: int, objects: PodObjects) -> Maker:
    """Return the function that makes the source's files from its current objects."""
    if (config := source.config_map) is not None:
        return partial(config_map_files, pod, config, await objects.config_map(pod, config.name), mode)
    if (secret := source.secret) is not None:
        return partial(secret_files, pod, secret, await objects.secret(pod, secret.name), mode)
    if (token := source.service_account_token) is not None:
        files = await _token(pod, token, mode, objects)
        return lambda _: files
    if (bundle := source.cluster_trust_bundle) is not None:
        known = await objects.trust_bundles(pod)
        return lambda contents: {bundle.path: VolumeFile(trust_anchors(bundle, known, contents), mode)}
    if (wanted := source.pod_certificate) is not None:
        certificate = await objects.pod_certificate(pod, wanted)
        return lambda _: certificate_files(pod, wanted, certificate, mode)
    return _nothing  # the API server has already rejected a source without content


def _downward_maker(
    fields: PodFields, items: Iterable[DownwardAPIVolumeFile], mode: int, allowance: Allowance
) -> Maker:
    return lambda _: downward_files(fields, items, mode, allowance)


def _nothing(_: Contents) -> Files:
    return {}


async def _token(pod: Pod, source: ServiceAccountTokenProjection, mode: int, objects: PodObjects) -> Files:
    token = await objects.token(pod, source.audience, source.expiration_seconds or TOKEN_SECONDS)
    return {source.path: secret_file(pod, token.text.encode(), mode)}
