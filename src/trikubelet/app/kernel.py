"""The kernel a node starts on, where ``protectKernelDefaults`` requires the settings a node should have.

It is read and never set (``core.kernel_defaults`` says why). Without protection, the doctor reports what differs
(``app.doctor``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.kernel_defaults import KERNEL_DEFAULTS, kernel_faults
from trikubelet.host.examination import read_sysctls
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from trikubelet.app.settings import Settings

FIELD = "protectKernelDefaults"


def confirm_kernel(settings: Settings) -> None:
    """Raises StartFailed, with a line for each setting of the kernel that differs, if these are protected."""
    if not settings.configuration.protect_kernel_defaults:
        return
    if faults := kernel_faults(read_sysctls(KERNEL_DEFAULTS)):
        place = settings.provenance.get(FIELD, "the default")
        raise StartFailed("\n".join(f"{FIELD} ({place}): {fault}" for fault in faults))
