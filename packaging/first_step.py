"""What the single file does before shiv unpacks it: make sure that it can, and say where.

`build-pyz.sh` puts this in the place of the archive's `__main__.py`. Root's copy is unpacked where the service's is, so
that an operator and a service without a home share it. Whoever starts it on a machine it was not built for, or where it
cannot be unpacked, or whose unpacked copy has lost a part, is told what to do, and not given a traceback from somewhere
inside. An older Python, down to 3.6, must be able to read this.
"""

import json
import os
import sys
import sysconfig
import zipfile
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - an older one reads this
    found = f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    sys.exit(
        f"error: trikubelet needs Python 3.11 or newer, and this is {found}: "
        "start it with such a one (python3.11 trikubelet ...)"
    )

if not os.environ.get("SHIV_ROOT") and os.geteuid() == 0:
    os.environ["SHIV_ROOT"] = "/var/cache/trikubelet"
root = Path(os.environ.get("SHIV_ROOT") or "~/.shiv").expanduser()
# Not Path.exists, which raises where a directory may not be searched.
nearest = next(path for path in (root, *root.parents) if os.path.exists(str(path)))
disk = os.statvfs(str(nearest))
problem = ""
if not nearest.is_dir():
    problem = "is no directory"
elif nearest != root and not os.access(str(nearest), os.W_OK | os.X_OK):
    problem = "cannot be written"
elif disk.f_flag & os.ST_NOEXEC:
    problem = "is mounted noexec, where nothing compiled can be loaded"

if not problem:
    with zipfile.ZipFile(sys.argv[0]) as archive:
        build = json.loads(archive.read("environment.json").decode())["build_id"]
        wanted = {one.filename: one.file_size for one in archive.infolist()}
    if not list(root.glob("*_" + build)) and disk.f_bavail * disk.f_frsize < sum(wanted.values()):
        problem = f"has less than the {sum(wanted.values()) / 1e6:.0f} MB free that it takes"
if problem:
    sys.exit(
        f"error: trikubelet unpacks itself once below {root}, and {nearest} {problem}: "
        "set SHIV_ROOT to another directory"
    )

# Compiled modules are named for the Python, architecture and C library they are for: .cpython-311-x86_64-linux-gnu.so
known = {name[name.index(".cpython-") :] for name in wanted if ".cpython-" in name}
this = sysconfig.get_config_var("EXT_SUFFIX")
if this not in known:
    sys.exit(
        f"error: this file has nothing compiled for this Python ({this}), but for {', '.join(sorted(known))}: "
        "start it with such a one (python3.12 trikubelet ...), or take the file for this machine"
    )

import _bootstrap  # type: ignore[import-not-found]  # noqa: E402 - shiv puts it into the archive

try:
    _bootstrap.bootstrap()
except Exception:
    # As a cleaner of old files leaves it, or a disk that failed: shiv looks only whether the directory is there.
    for unpacked in root.glob("*_" + build):
        for name in wanted:
            part = str(unpacked / name)
            if name.startswith("site-packages/") and not os.path.exists(part):
                sys.exit(f"error: {part} is missing: remove {unpacked}; it is unpacked again")
    raise
