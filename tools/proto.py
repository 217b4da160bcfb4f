"""Regenerate ``src/plugbay/wire/generated`` from the ``.proto`` files; with ``--check`` only compare.

The generator is pinned in pyproject.toml (extra ``dev``), so that its output is the same everywhere.
"""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

WIRE = Path(__file__).parents[1] / "src/plugbay/wire"
RUNTIME_MODULE = '''"""Made by ``make proto`` from ``../proto/{stem}.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("{stem}.proto"))
'''


def generate(target: Path) -> None:
    """Write the descriptor set, and per proto file the typed stub and the module that loads its classes."""
    protos = sorted(path.name for path in (WIRE / "proto").glob("*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={WIRE / 'proto'}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-mypy={Path(sys.executable).parent / 'protoc-gen-mypy'}",
            f"--descriptor_set_out={target / 'descriptors.binpb'}",
            f"--mypy_out=quiet:{target}",
            *protos,
        ],
        check=True,
    )
    for proto in protos:
        stem = Path(proto).stem
        (target / f"{stem}_pb2.py").write_text(RUNTIME_MODULE.format(stem=stem))


def main(arguments: list[str]) -> int:
    committed = WIRE / "generated"
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        names = {path.name for path in fresh.iterdir()}
        kept = {path.name for path in committed.iterdir() if path.is_file()} - {"__init__.py"}
        if arguments == ["--check"]:
            _, differing, missing = filecmp.cmpfiles(fresh, committed, sorted(names), shallow=False)
            stale = sorted({*differing, *missing, *(kept - names)})
            if stale:
                print(f"stale in {committed}: {', '.join(stale)}; run: make proto", file=sys.stderr)
            return 1 if stale else 0
        for name in kept - names:
            (committed / name).unlink()
        for name in names:
            (committed / name).write_bytes((fresh / name).read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
