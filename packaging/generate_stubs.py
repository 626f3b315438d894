"""Writes the protobuf and gRPC modules in src/trikubelet/cri/v1 from api.proto. With ``--check`` it only compares and
exits 1 on a difference, which is how CI notices a hand-edited file or a forgotten run.

grpclib's plugin writes stubs for client and server; they are used as they come, on a channel of our own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src/trikubelet/cri/v1"
MODULES = ("api_pb2.py", "api_pb2.pyi", "api_grpc.py")


def generate(target: Path) -> None:
    """Run protoc with its Python, typing and grpclib generators."""
    plugin = Path(sys.executable).parent / "protoc-gen-grpclib_python"
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}",
            f"--python_out={target}", f"--pyi_out={target}", f"--grpclib_python_out={target}",
            f"--plugin=protoc-gen-grpclib_python={plugin}", "api.proto",
        ],
        check=True,
    )  # fmt: skip
    # The generated modules import each other as top-level modules; here they live in a package.
    stub = target / "api_grpc.py"
    stub.write_text(stub.read_text().replace("import api_pb2", "from trikubelet.cri.v1 import api_pb2"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        generate(FOLDER)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        stale = [m for m in MODULES if (Path(folder) / m).read_text() != (FOLDER / m).read_text()]
    for module in stale:
        print(f"{FOLDER / module} is not what {Path(__file__).name} writes: run it without --check", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
