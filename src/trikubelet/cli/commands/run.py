"""``trikubelet run FILE``: run one pod from its manifest to its end without a running agent, and exit like the pod.

The output of its containers is printed, obstacles are reported on standard error, and a pod that cannot start ends with
an error. Ctrl-C, SIGTERM and ``--timeout`` stop it within its grace period, a second signal kills it. All of it is
removed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trikubelet.app.neighbours import agents_on, kubelets_on
from trikubelet.app.supervise import reason_of
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.given_manifests import given_manifests
from trikubelet.cli.one_shot import Shot, run_shot, settings_of
from trikubelet.cli.validate import load
from trikubelet.cli.words.run import parser
from trikubelet.cri.endpoint import connect_failure, socket_path
from trikubelet.host.removal import remove_unmounted
from trikubelet.kit import klog
from trikubelet.kit.unix_socket import connect_unix
from trikubelet.model.errors import StartFailed, StillMounted
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.app.settings import Settings


def run(argv: Sequence[str]) -> int:
    """Run ``run`` and return the pod's exit code. Raises CommandFailed and OSError."""
    args = parser().parse_args(argv)
    _start_log(args.verbosity)
    root = Path(tempfile.mkdtemp(prefix="trikubelet-run-"))
    is_inside = False  # then the pod ends with this process, whatever happens
    try:
        settings = settings_of(root, args.endpoint)
        is_inside = settings.runtime.inside
        shot = _shot(args, settings)
        if settings.runtime.passed_over:  # the user may expect the pod on that runtime, with its images
            print(f"trikubelet: container runtime: {settings.runtime.reason}", file=sys.stderr)
        if not is_inside:
            trio.run(_refuse_without_a_runtime, settings.runtime.endpoint)
            _refuse_beside_others(settings.runtime.endpoint)
        return trio.run(run_shot, shot)
    except* StartFailed as failed:
        raise CommandFailed(reason_of(failed)) from failed
    finally:
        _remove(root, has_ended=is_inside)


def _remove(root: Path, *, has_ended: bool) -> None:
    """Remove the directory of an agent that has ended, unless its pod may still run with the volumes there.
    ``has_ended``: it does not."""
    pods = root / "pods"
    with suppress(OSError, StillMounted):
        if has_ended or not pods.is_dir() or not os.listdir(pods):
            remove_unmounted(root)


def _start_log(verbosity: int) -> None:
    handler = klog.LogHandler(klog.Verbosity(max(0, verbosity)))
    if verbosity < 0:
        handler.setLevel(logging.ERROR)
    klog.install(handler)


def _shot(args: argparse.Namespace, settings: Settings) -> Shot:
    """Return the pod, with its manifest where the agent inside will find it. Raises CommandFailed."""
    found = given_manifests([args.file], settings.node_name, recursive=False)
    if len(found) != 1 or len(found[0].loaded.pods) != 1:
        count = sum(len(one.loaded.pods) for one in found)
        raise CommandFailed(f"{args.file}: it has {count} pods (give a file with one)")
    manifest = settings.root_dir / "manifests" / "pod.yaml"
    manifest.parent.mkdir()
    manifest.write_bytes(found[0].text)
    again = load(str(manifest), settings.node_name)  # a pod's identity depends on the place of its manifest
    assert not isinstance(again, Fault)
    return Shot(settings, manifest, again.pods[0].metadata.uid, args.timeout)


def _refuse_beside_others(endpoint: str) -> None:
    """Raises CommandFailed if another agent would treat the pod as an orphan, and OSError."""
    others = [f"process {process} is an agent" for process in agents_on(endpoint)]
    others += [f"process {process} is a kubelet" for process in kubelets_on(endpoint)]
    if others:
        raise CommandFailed(
            f"{others[0]} on {endpoint} and would take this pod for a leftover: give it the manifest instead "
            "(`trikubelet apply`), or use --container-runtime-endpoint=embedded:"
        )


async def _refuse_without_a_runtime(endpoint: str) -> None:
    """Raises CommandFailed if the runtime does not answer: an agent would wait for it, but a user who runs one pod
    needs the error at once."""
    try:
        path = socket_path(endpoint)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    try:
        await (await connect_unix(path)).aclose()
    except OSError as error:
        raise CommandFailed(connect_failure(path, error)) from error
