"""Which of upstream's conformance specs are run, and the record of what became of them.

``python -m live.kit conformance`` (`make conformance`) runs all that `LEFT_OUT` does not name and writes
``tests/recorded/conformance.json``, of which ``packaging/generate_conformance.py`` makes ``docs/conformance.md``. A
spec that failed makes the command fail, once all is written.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from . import places, suite

RECORD: Final = Path(__file__).resolve().parents[2] / "recorded" / "conformance.json"
PROCESSES: Final = 4
"""Of the suite, side by side: most of its time it waits."""
CONFORMANCE: Final = r"\[Conformance\]"
LEFT_OUT: Final = {
    r"\[sig-network\]": "needs kube-proxy, which is not there",
    r"\[sig-(api-machinery|apps|architecture|auth|cli|instrumentation|scheduling)\]": "asks other parts of a cluster",
}
"""Why a spec is not run, by what its name matches; the first that does counts."""


def record(focus: str = "", kept: str = "/tmp/trikubelet-conformance") -> bool:
    """Runs the suite and says whether all of it passed. With ``focus``, a pattern for names, it runs those specs alone,
    be they left out or not, and records nothing. Raises as `suite.run` does."""
    skip = "" if focus else "|".join(LEFT_OUT)
    specs = suite.run(focus or CONFORMANCE, skip, PROCESSES, Path(kept))
    verdicts = dict(sorted((name_of(spec), verdict(spec)) for spec in specs))
    chosen = {name: said for name, said in verdicts.items() if re.search(focus or CONFORMANCE, name)}
    ran = {name: said for name, said in chosen.items() if not said.startswith(("left out", "skipped"))}
    failed = {name: said for name, said in ran.items() if said != "passed"}
    if not focus:
        said_by = {"upstream": places.conformance().name.partition("-")[0], "containerd": places.CONTAINERD_VERSION}
        RECORD.write_text(json.dumps({**said_by, "specs": chosen}, indent=1) + "\n")
    for name, said in failed.items():
        print(f"{name}\n  {said}", file=sys.stderr)
    print(f"{len(ran) - len(failed)} of {len(ran)} passed, {len(chosen) - len(ran)} were not run; all is in {kept}")
    return not failed


def name_of(spec: dict[str, Any]) -> str:
    """As upstream's own lists have it."""
    return " ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]])


def verdict(spec: dict[str, Any]) -> str:
    """What became of a spec, ``passed`` or why it did not, in one line."""
    message = spec.get("Failure", {}).get("Message", "").partition("\n")[0]
    match spec["State"]:
        case "passed":
            return "passed"
        case "skipped" if message:
            return f"skipped: {message}"
        case "skipped":
            return f"left out: {_why_not(spec)}"
        case state:
            return f"{state}: {message}"


def _why_not(spec: dict[str, Any]) -> str:
    return next((why for what, why in LEFT_OUT.items() if re.search(what, name_of(spec))), "")
