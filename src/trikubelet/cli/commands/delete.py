"""``trikubelet delete pod NAME…`` and ``delete -f FILE``: remove manifests; the agent then ends their pods.

Files are kept as hidden copies (``cli.manifest_steps``). A file that also defines pods that were not named is left
alone. ``trikubelet wait --for=delete`` waits until the pods are gone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trikubelet.cli import asking, manifests
from trikubelet.cli.failed import Misunderstood
from trikubelet.cli.given_manifests import given_manifests
from trikubelet.cli.kind_names import KIND_NAMES
from trikubelet.cli.kinds import PODS, kind_of
from trikubelet.cli.manifest_directory import names_in
from trikubelet.cli.terminal import in_a_cell
from trikubelet.cli.words.delete import parser
from trikubelet.core.names import full_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from trikubelet.cli.manifest_directory import ManifestDirectory


def run(argv: Sequence[str]) -> int:
    """Run ``delete`` and return the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_intermixed_args(argv)
    selects = args.all or args.selector is not None
    _refuse_other_kinds(args.names, alone=not selects)
    pods = asking.pod_names(args.names)
    _refuse_unclear(args, pods, selects=selects)
    place, node = manifests.directory(args)
    names: dict[str, str] = {}
    for one in given_manifests(args.filename, node, recursive=args.recursive):
        names |= names_in(one.loaded)
    with manifests.opened(place, node) as directory:
        known = {name for held in directory.held.values() for name in held}
        if selects:
            names = _selected(args, directory)
        for pod in pods:
            name = manifests.name_among(known, pod, node, args.namespace)
            names[name] = f"pod/{pod}{'' if name in known else _no_kind_either(pod, args.names)}"
        manifests.do(directory, directory.to_delete(names), dry_run=args.dry_run)
    return 0


def _refuse_unclear(args: argparse.Namespace, pods: Sequence[str], *, selects: bool) -> None:
    """Raises Misunderstood unless the arguments select pods in exactly one of three ways."""
    if pods and selects:
        raise Misunderstood("name cannot be provided when a selector is specified")
    if args.all and args.selector is not None:
        raise Misunderstood("flags --all and -l exclude each other")
    if args.all_namespaces and not selects:
        raise Misunderstood("a pod cannot be deleted by its name across all namespaces: use -n")
    if sum(map(bool, (pods, selects, args.filename))) != 1:
        parser().error("missing argument: give pods by name, by -l or --all, or files by -f")
    if selects and not args.names:
        raise Misunderstood("missing argument: write `trikubelet delete pods` with --all or -l")


def _selected(args: argparse.Namespace, directory: ManifestDirectory) -> dict[str, str]:
    """Return the selected pods, as ``names_in`` has them."""
    if faulty := directory.faulty():
        files = ", ".join(map(str, faulty))
        print(in_a_cell(f"warning: {files}: not searched for pods because of faults"), file=sys.stderr)
    selected = {
        full_name(pod): f"pod/{pod.metadata.name}"
        for pod in directory.pods()
        if (args.all_namespaces or pod.metadata.namespace == args.namespace)
        and (args.selector is None or args.selector(pod.metadata.labels))
    }
    if not selected:
        print(asking.nothing_found("" if args.all_namespaces else args.namespace), file=sys.stderr)
    return selected


def _refuse_other_kinds(words: Sequence[str], *, alone: bool) -> None:
    """Raises Misunderstood for names of other kinds of objects. A word may be a pod's name if it is ``alone``, without
    a selection."""
    kinds = [word.partition("/")[0] for word in words if "/" in word]
    if other := next((word for word in kinds if kind_of(word) is None), None):
        raise Misunderstood(f'only pods can be deleted by name, and "{other}" is not a kind of object')
    kinds += words[:1] if len(words) > 1 or not alone else []
    if other := next((word for word in kinds if kind_of(word) not in (None, PODS)), None):
        if other in (*KIND_NAMES["configmap"], *KIND_NAMES["secret"]):
            how = f"use `trikubelet delete -f FILE`; `trikubelet get {other}` lists the files"
            raise Misunderstood(f"only pods can be deleted by name: {how}")
        raise Misunderstood(
            f'only pods can be deleted by name, and "{other}" is another kind of object (a pod of that name: '
            f"trikubelet delete pod {other} …)"
        )


def _no_kind_either(pod: str, words: Sequence[str]) -> str:
    """Return an addition to the error about a pod that no manifest defines, if its name was probably meant as the kind
    of the names after it."""
    if len(words) > 1 and words[0] == pod:
        return f', and "{pod}" is not a kind of object either: only pods can be deleted by name'
    return ""
