"""``trikubelet rollback POD``: restore the version of a manifest before the last ``apply``, ``delete`` or rollback.

The kept file is renamed into place and the present one is kept, so nothing is lost and a second rollback returns. It
rejects the same as ``apply``: other pods of the file must not be removed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli import asking, manifests
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.kept_manifests import kept_copies, version_before
from trikubelet.cli.manifest_directory import names_in
from trikubelet.cli.words.rollback import parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run ``rollback`` and return the exit code. Raises CommandFailed and OSError."""
    args = parser().parse_args(argv)
    pod = asking.bare_name(args.pod)
    place, node = manifests.directory(args)
    with manifests.opened(place, node) as directory:
        copies = kept_copies(directory, node)
        known = {name for held in directory.held.values() for name in held}
        known |= {name for copy in copies for name in names_in(copy.loaded)}
        name = manifests.name_among(known, pod, node, args.namespace)
        copy = version_before(directory, copies, name)
        if copy is None:
            raise CommandFailed(f"pod/{pod}: {_why_none(name in known, place)}")
        manifests.do(directory, directory.to_bring_back(copy), dry_run=args.dry_run)
    return 0


def _why_none(is_known: bool, place: str) -> str:
    if is_known:
        return f"no earlier version of its manifest is kept in {place} (five of each are kept, 1,000 in all)"
    return f"neither a manifest nor a kept version in {place} defines it (`trikubelet get pods` lists what runs)"
