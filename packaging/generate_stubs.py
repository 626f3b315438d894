"""Writes NAME_pb2.py, NAME_pb2.pyi and NAME_grpc.py beside each NAME.proto below src/trikubelet/cri, with grpcio-tools'
protoc and grpclib's plugin. Run it after changing a .proto file; with ``--check`` it writes nothing and exits 1 where
the committed files differ, which is how CI notices a hand-edited or forgotten one.

A .proto file is compiled under its whole path, since protobuf knows each file of a process by one name and other
APIs of a node call theirs api.proto, too.

grpclib's client and server are built on asyncio and would import it into every agent. The generated module names four
of their classes and nothing else, so it is pointed at ours in ``cri.methods`` and ``cri.server``, which have the same
names but one: what a stub needs of a channel is no ``Channel`` here, for that is a class of its own.
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parent.parent / "src"
PROTOS = [
    "trikubelet/cri/v1/api.proto",
    *(f"trikubelet/cri/plugin_v1/{name}.proto" for name in ("registration", "csi", "device", "pod_resources")),
]
OURS = {
    "grpclib.client.Channel": "trikubelet.cri.methods.StubChannel",
    "grpclib.client": "trikubelet.cri.methods",
    "grpclib.server": "trikubelet.cri.server",
}


def generate(target: Path) -> dict[Path, str]:
    """Runs protoc into ``target``; returns the generated text by path relative to the source root.

    Raises SystemExit with protoc's own message on standard error when a .proto file is wrong.
    """
    from grpc_tools import protoc  # noqa: PLC0415 - lets --help work where grpcio-tools is not installed

    plugin = Path(sysconfig.get_path("scripts")) / "protoc-gen-grpclib_python"
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={SOURCE_ROOT}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-grpclib_python={plugin}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpclib_python_out={target}",
            *PROTOS,
        ]
    )
    if code != 0:
        raise SystemExit(f"protoc refused them (exit code {code})")
    return {path.relative_to(target): _ours(path) for path in sorted(target.rglob("*.py*"))}


def _ours(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if not path.name.endswith("_grpc.py"):
        return text
    for theirs, ours in OURS.items():
        text, times = re.subn(rf"\b{re.escape(theirs)}\b", ours, text)
        if times == 0:
            raise SystemExit(f"{path.name} names no {theirs}: grpclib's plugin has changed, look at OURS")
    return text


def main(arguments: list[str]) -> int:
    """The exit code: 0 when the files are as they should be, 1 when ``--check`` found a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    check = parser.parse_args(arguments).check
    stale = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in generate(Path(scratch)).items():
            path = SOURCE_ROOT / name
            if path.exists() and path.read_text(encoding="utf-8") == text:
                continue
            if check:
                stale = 1
                print(f"{path}: differs from what its .proto gives; run packaging/generate_stubs.py", file=sys.stderr)
            else:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path}")
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
