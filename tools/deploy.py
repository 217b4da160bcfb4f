"""Regenerate ``deploy/helm`` and ``deploy/kustomize``: a chart with example values, and bases.

With ``--check`` only compare. All of it comes from ``plugbay manifest``, with the arguments that stand here.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from plugbay.cli.main import make_parser
from plugbay.cli.plugins.manifest import deployment_of
from plugbay.plugins.generic.presets.catalogue import presets_text
from plugbay.sdk.deploying.chart import chart
from plugbay.sdk.deploying.chart_values import default_values, own_values
from plugbay.sdk.deploying.deployment import Deployment
from plugbay.sdk.deploying.kustomize import kustomize_directory

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
PARTS: Final = ("helm", "kustomize")
VERSION: Final = version("plugbay")
IMAGE: Final = "registry.example.com/plugbay"
DEVICES: Final = "devices.yaml"
"""The config of the generic plugin's example: a preset, as ``plugbay presets`` prints it."""
_PRESET: Final = "serial"
EXAMPLES: Final = {
    "directory": (
        f"--image={IMAGE}-plugins:{VERSION}",
        *("directory", "--resource=example.com/gopher", "--path=/etc/gophers", "--env=GOPHER", "--name=gopher-plugin"),
    ),
    "generic": (f"--image={IMAGE}-plugins:{VERSION}", "generic", f"--config={DEVICES}"),
    "scratch": (
        f"--image={IMAGE}-plugins:{VERSION}",
        *("scratch", "--resource=example.com/scratch", "--directory=/srv/scratch", "--size=10Gi", "--count=4"),
    ),
    "nvidia": (f"--image={IMAGE}-nvidia:{VERSION}", "nvidia", "--runtime-class=nvidia"),
}
"""The arguments of ``plugbay manifest`` for each example."""


def deployment(name: str) -> Deployment:
    """The deployment of an example."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / DEVICES
        file.write_text(presets_text([_PRESET]), encoding="utf-8")
        words = [word.replace(f"={DEVICES}", f"={file}") for word in EXAMPLES[name]]
        return deployment_of(make_parser().parse_args(["manifest", *words]))


def generated() -> Mapping[Path, str]:
    """The texts of all files by their paths in ``deploy``."""
    return {Path(name): text for name, text in (*_chart(), *_bases())}


def _chart() -> Iterator[tuple[str, str]]:
    for name, text in chart(default_values(), version=VERSION).items():
        yield f"helm/plugbay/{name}", text
    for name in EXAMPLES:
        yield f"helm/plugbay/examples/{name}.yaml", own_values(deployment(name))


def _bases() -> Iterator[tuple[str, str]]:
    for example in EXAMPLES:
        for name, text in kustomize_directory(deployment(example)).items():
            yield f"kustomize/{example}/{name}", text


def main(arguments: list[str]) -> int:
    fresh = generated()
    if arguments == ["--check"]:
        there = {path.relative_to(DEPLOY) for part in PARTS for path in (DEPLOY / part).rglob("*") if path.is_file()}
        stale = {path for path in there & fresh.keys() if (DEPLOY / path).read_text(encoding="utf-8") != fresh[path]}
        stale |= there ^ fresh.keys()
        if stale:
            print(f"stale in {DEPLOY}: {', '.join(sorted(map(str, stale)))}; run: make deploy", file=sys.stderr)
        return 1 if stale else 0
    for part in PARTS:
        shutil.rmtree(DEPLOY / part, ignore_errors=True)
    for path, text in fresh.items():
        (DEPLOY / path).parent.mkdir(parents=True, exist_ok=True)
        (DEPLOY / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
