"""Lists what a single file is made of, as CycloneDX (https://cyclonedx.org/docs/1.6/json/) on standard output.

    python packaging/list_parts.py SITE

``SITE`` is the directory of packages that `build-pyz.sh` is about to pack, so the list is of what is in the file, and
not of what was asked for. A package with a list of its own (``*.dist-info/sboms``, PEP 770: crates, a copy of OpenSSL)
adds that. The same site gives the same bytes.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import UTC, datetime
from email.parser import BytesParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

SELF = "trikubelet"
KEPT = ("type", "name", "version", "purl", "hashes", "licenses")
"""Of another list's components; the rest (where they were built) is nobody's business here."""


def packages(site: Path) -> Iterator[dict[str, Any]]:
    """The Python packages of a site, by what each says of itself."""
    for metadata in site.glob("*.dist-info/METADATA"):
        said = BytesParser().parsebytes(metadata.read_bytes(), headersonly=True)
        name, version = said["Name"].lower().replace("_", "-"), said["Version"]
        found = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
        yield found | _licenses(said)


def _licenses(said: Message) -> dict[str, Any]:
    if expression := said["License-Expression"]:
        return {"licenses": [{"expression": expression}]}
    name = (said["License"] or "").partition("\n")[0].strip()
    return {"licenses": [{"license": {"name": name}}]} if name else {}


def inner_parts(site: Path) -> Iterator[dict[str, Any]]:
    """What the packages say is inside them."""
    for listed in site.glob("*.dist-info/sboms/*.json"):
        for component in json.loads(listed.read_bytes()).get("components", ()):
            yield {key: component[key] for key in KEPT if key in component}


def document(site: Path) -> dict[str, Any]:
    """The whole list. Raises KeyError where a part has no name that is the same everywhere (a package URL)."""
    by_purl = {part["purl"]: {"bom-ref": part["purl"]} | part for part in (*inner_parts(site), *packages(site))}
    whole = next(part for part in by_purl.values() if part["purl"].startswith(f"pkg:pypi/{SELF}@"))
    parts = [by_purl[purl] for purl in sorted(by_purl) if purl != whole["purl"]]
    built = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([whole, parts], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"timestamp": built.isoformat(), "component": whole | {"type": "application"}},
        "components": parts,
    }


if __name__ == "__main__":
    print(json.dumps(document(Path(sys.argv[1])), indent=1))
