"""The kernel a node starts on, where ``protectKernelDefaults`` requires the settings a node should have.

It is read and never set (``core.kernel_defaults`` says why). Without protection, the doctor reports what differs
(``app.doctor``).

``failSwapOn`` and ``failCgroupV1`` are true by default. They refuse a machine only where an operator wrote them: a
laptop with swap must still reach its first pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.kernel_defaults import KERNEL_DEFAULTS, kernel_faults
from trikubelet.host.cgroups import read_hierarchies
from trikubelet.host.examination import read_sysctls
from trikubelet.host.node import read_node
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.app.settings import Settings

FIELD = "protectKernelDefaults"
SWAP, OLD_CGROUPS = "failSwapOn", "failCgroupV1"


def confirm_kernel(settings: Settings) -> None:
    """Raises StartFailed, with a line for each fault, if the configuration refuses this kernel."""
    if faults := [*_unprotected(settings), *_refused(settings)]:
        raise StartFailed("\n".join(faults))


def refuses_swap(settings: Settings) -> bool:
    """True if the operator wants no swap on this machine."""
    return settings.configuration.fail_swap_on and SWAP in settings.provenance


def _unprotected(settings: Settings) -> Iterator[str]:
    if settings.configuration.protect_kernel_defaults:
        place = settings.provenance.get(FIELD, "the default")
        for fault in kernel_faults(read_sysctls(KERNEL_DEFAULTS)):
            yield f"{FIELD} ({place}): {fault}"


def _refused(settings: Settings) -> Iterator[str]:
    if refuses_swap(settings) and (swap_bytes := read_node().swap_bytes):
        remedy = f"run swapoff -a and remove swap from /etc/fstab, or set {SWAP}: false"
        yield f"{SWAP} ({settings.provenance[SWAP]}): {swap_bytes // 1024**2} MiB of swap are on ({remedy})"
    refuses_old = settings.configuration.fail_cgroup_v1 and OLD_CGROUPS in settings.provenance
    if refuses_old and read_hierarchies().version == 1:
        remedy = f"boot with systemd.unified_cgroup_hierarchy=1, or set {OLD_CGROUPS}: false"
        yield f"{OLD_CGROUPS} ({settings.provenance[OLD_CGROUPS]}): this machine has version 1 of cgroups ({remedy})"
