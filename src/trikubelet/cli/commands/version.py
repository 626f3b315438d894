"""``trikubelet version``, also ``trikubelet --version``; and ``kubelet --version``, by a link of that name.

kubeadm runs the machine's kubelet for its version and reads upstream's line, which has a release of Kubernetes.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trikubelet import __version__
from trikubelet.cli.failed import CommandFailed
from trikubelet.model.upstream import KUBERNETES_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Print it. Always returns 0."""
    if argv:
        from trikubelet.cli.words.version import parser  # noqa: PLC0415 - argparse takes longer to load than the rest

        if (form := parser().parse_args(argv).output) is not None:
            from trikubelet.cli.objects import Output, show  # noqa: PLC0415 - an object has more to import

            show(_versions(), (), Output(form))
            return 0
    if os.path.basename(sys.argv[0]) == "kubelet":
        print(f"Kubernetes {_reported()}")
        return 0
    print(f"trikubelet {__version__}")
    return 0


def _versions() -> dict[str, str]:
    import platform  # noqa: PLC0415 - only an object has these

    return {
        "version": __version__,
        "kubernetesVersion": KUBERNETES_VERSION,
        "reportedVersion": _reported(),
        "pythonVersion": platform.python_version(),
        "platform": f"linux/{platform.machine()}",
    }


def _reported() -> str:
    """Return the version that an agent reports before it knows its API server's. Raises CommandFailed."""
    # Only kubelet's line and the object have it, and it takes the records of the API to load.
    from trikubelet.app.release import chosen_release, reported_version  # noqa: PLC0415
    from trikubelet.model.errors import StartFailed  # noqa: PLC0415

    try:
        return reported_version(chosen_release())
    except StartFailed as error:
        raise CommandFailed(str(error)) from error
