"""Takes out of a wheel where its checkout lay, which maturin writes into the list of crates: the same commit is to give
the same bytes everywhere.

python packaging/forget_checkout.py WHEEL CHECKOUT
"""

import base64
import hashlib
import sys
from pathlib import Path
from zipfile import ZipFile

from replace_entry import replace_entry


def forget_checkout(wheel: Path, checkout: Path) -> None:
    """Rewrite ``wheel`` in place, with ``/trikubelet`` for ``checkout``. Raises StopIteration where no list is."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        listed = next(name for name in names if ".dist-info/sboms/" in name)
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        before, lines = archive.read(listed), archive.read(record).decode()
    after = before.replace(f"file://{checkout}/".encode(), b"file:///trikubelet/")
    assert _recorded(listed, before) in lines
    replace_entry(wheel, listed, after)
    replace_entry(wheel, record, lines.replace(_recorded(listed, before), _recorded(listed, after)).encode())


def _recorded(name: str, content: bytes) -> str:
    """A wheel's own note of a file (https://packaging.python.org/en/latest/specifications/recording-installed-packages)."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


if __name__ == "__main__":
    forget_checkout(Path(sys.argv[1]), Path(sys.argv[2]))
