"""What the single file does before shiv unpacks it: make sure that it can, and say where; and run what is unpacked.

    unpacked already ──────────► run from there
    version, help, completion ─► run from the archive: nothing is unpacked for these
    else ──────────────────────► checks ─► shiv unpacks it and runs it

`build-pyz.sh` puts this in the place of the archive's `__main__.py`. Root's copy is unpacked where the service's is, so
that an operator and a service without a home share it. Whoever starts it on a machine it was not built for, or where it
cannot be unpacked, or whose unpacked copy has lost a part, is told what to do, and not given a traceback from somewhere
inside. A command is started often, and shiv reads the whole archive each time: what is unpacked is run without it. An
older Python, down to 3.6, must be able to read this.
"""

import json
import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older one reads this
    found = f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    sys.exit(
        f"error: trikubelet needs Python 3.11 or newer, and this is {found}: "
        "start it with such a one (python3.11 trikubelet ...)"
    )

ABOUT_ITSELF = ("version", "--version", "help", "--help", "-h", "completion", "man")
"""First words of commands that need nothing compiled, if no flag follows."""


def default_root():
    """Where it is unpacked, unless SHIV_ROOT says otherwise."""
    if os.geteuid() == 0:
        return "/var/cache/trikubelet"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if cache.startswith("/") else os.path.expanduser("~/.cache"), "trikubelet")


def program_in(packages):
    """The program in a directory of packages, which may be in the archive. None where that has none, or it fails."""
    # Where shiv would put it: behind the standard library, before what is installed on this machine.
    names = [os.path.basename(path) for path in sys.path]
    installed = [names.index(name) for name in ("site-packages", "dist-packages") if name in names]
    sys.path.insert(min(installed) if installed else len(sys.path), packages)
    try:
        from trikubelet.cli import main  # noqa: PLC0415

        if main.__file__.startswith(packages + os.sep):  # and is not another one, installed on this machine
            return main.program
    except ImportError:
        pass
    sys.path.remove(packages)
    for name in [name for name in sys.modules if name.split(".")[0] == "trikubelet"]:
        del sys.modules[name]
    return None


def program():
    """What is unpacked, or, for a command that needs nothing compiled, what is in the archive; else None."""
    archive = globals().get("__loader__")
    if not hasattr(archive, "archive") or any(name != "SHIV_ROOT" for name in os.environ if name.startswith("SHIV_")):
        return None  # who sets more of shiv's variables asks for what only shiv does
    build = json.loads(archive.get_data("environment.json").decode())["build_id"]
    unpacked = os.path.basename(os.path.realpath(sys.argv[0])) + "_" + build
    packages = os.path.join(os.path.expanduser(os.environ["SHIV_ROOT"]), unpacked, "site-packages")
    if os.path.isdir(packages):
        return program_in(packages)
    words = sys.argv[1:]
    flags = [word for word in words[1:] if word.startswith("-")]
    asks_for_help = bool(words) and not words[0].startswith("-") and words[1:] in (["--help"], ["-h"])
    if asks_for_help or (words and words[0] in ABOUT_ITSELF and not flags):
        return program_in(os.path.join(archive.archive, "site-packages"))
    return None


def check_place():
    """End with what is wrong with this place or this machine; else the place, the archive's files, and its build."""
    import sysconfig  # noqa: PLC0415 - these are loaded only where it is unpacked, or cannot be run
    import zipfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    root = Path(os.environ["SHIV_ROOT"]).expanduser()
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
    wanted = {}
    build = ""
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

    # Compiled modules are named for Python, architecture and C library: .cpython-311-x86_64-linux-gnu.so
    known = {name[name.index(".cpython-") :] for name in wanted if ".cpython-" in name}
    this = sysconfig.get_config_var("EXT_SUFFIX")
    if this not in known:
        sys.exit(
            f"error: this file has nothing compiled for this Python ({this}), but for {', '.join(sorted(known))}: "
            "start it with such a one (python3.12 trikubelet ...), or take the file for this machine"
        )
    return root, wanted, build


def name_what_is_lost(root, wanted, build):
    """End with the name of a file that an unpacked copy has lost, if there is one."""
    # As a cleaner of old files leaves it, or a disk that failed: only whether the directory is there is looked at.
    for unpacked in root.glob("*_" + build):
        for name in wanted:
            part = str(unpacked / name)
            if name.startswith("site-packages/") and not os.path.exists(part):
                sys.exit(f"error: {part} is missing: remove {unpacked}; it is unpacked again")


def unpack_and_run():
    """Have shiv unpack it and run it."""
    place = check_place()
    import _bootstrap  # type: ignore[import-not-found]  # noqa: PLC0415 - shiv puts it into the archive

    try:
        _bootstrap.bootstrap()
    except Exception:
        name_what_is_lost(*place)
        raise


def run(main):
    """Run what is unpacked."""
    try:
        sys.exit(main())
    except ImportError:  # parts of it are loaded only when they are needed
        name_what_is_lost(*check_place())
        raise


if not os.environ.get("SHIV_ROOT"):
    os.environ["SHIV_ROOT"] = default_root()
found = program()
if found is None:
    unpack_and_run()
else:
    run(found)
