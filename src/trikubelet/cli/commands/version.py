"""``trikubelet version``, which is also ``trikubelet --version``; and ``kubelet --version``, by a link of that name.

kubeadm asks the kubelet of its machine for its version and reads upstream's line, which names a release of Kubernetes.
"""

from __future__ import annotations

import platform
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from trikubelet import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Print it. Always 0."""
    if argv:
        from trikubelet.cli.words.version import parser  # noqa: PLC0415 - argparse takes longer to load than the rest

        if (form := parser().parse_args(argv).output) is not None:
            from trikubelet.cli.objects import Output, show  # noqa: PLC0415 - an object has more to import

            show(_versions(), (), Output(form))
            return 0
    if PurePath(sys.argv[0]).name == "kubelet":
        from trikubelet.app.report import VERSION  # noqa: PLC0415 - a report has much to import

        print(f"Kubernetes {VERSION}")
        return 0
    print(f"trikubelet {__version__}")
    return 0


def _versions() -> dict[str, str]:
    from trikubelet.app.report import KUBERNETES_VERSION  # noqa: PLC0415 - a report has much to import

    return {
        "version": __version__,
        "kubernetesVersion": KUBERNETES_VERSION,
        "pythonVersion": platform.python_version(),
        "platform": f"linux/{platform.machine()}",
    }
