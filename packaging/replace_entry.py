"""Replaces one file in a zip behind a `#!` line, and changes nothing else: the same input gives the same bytes.

python packaging/replace_entry.py dist/trikubelet __main__.py packaging/first_step.py
"""

import sys
from pathlib import Path
from zipfile import ZipFile


def replace_entry(archive: Path, name: str, text: bytes) -> None:
    """Rewrite ``archive`` in place, with ``text`` as its file ``name``. Raises KeyError where it has no such file."""
    new = archive.with_name(f"{archive.name}.new")
    with ZipFile(archive) as old, new.open("wb") as file:
        old.getinfo(name)
        file.write(archive.read_bytes()[: min(entry.header_offset for entry in old.infolist())])
        with ZipFile(file, "w") as rewritten:
            for entry in old.infolist():
                rewritten.writestr(entry, text if entry.filename == name else old.read(entry))
    new.chmod(archive.stat().st_mode)
    new.replace(archive)


if __name__ == "__main__":
    replace_entry(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).read_bytes())
