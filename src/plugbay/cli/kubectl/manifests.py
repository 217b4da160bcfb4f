"""Read the pods that ``-f`` names: in files, directories and standard input."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.inputs import STDIN, input_name, read_input
from plugbay.cli.printing.output import show_note
from plugbay.documents import Json
from plugbay.errors import InvalidManifest, PathUnusable, UsageError
from plugbay.manifest import ManifestWarning, Strictness, load_pods, pod_to_v1, raise_problems
from plugbay.model.pods import DEFAULT_NAMESPACE, Pod
from plugbay.pods.static.reader import MAX_BYTES
from plugbay.printers import v1

SUFFIXES: Final = (".json", ".yaml", ".yml")
"""Files of a directory are read if their names end so, as with kubectl."""


def manifest_pods(args: argparse.Namespace) -> list[Json]:
    """The pods of ``-f`` as v1 objects; fields that were left out have been printed.

    Raises:
        InvalidManifest, PathUnusable: see `load_manifests`.
        UsageError: ``--namespace`` contradicts a manifest.
    """
    mode = Strictness.LENIENT if args.lenient else Strictness.STRICT
    pods, warnings = load_manifests(args.filename, mode=mode)
    for warning in warnings:
        show_note(f"warning: {warning}")
    return [placed(pod, args.namespace) for pod in pods]


def load_manifests(names: Iterable[str], *, mode: Strictness) -> tuple[list[Pod], list[ManifestWarning]]:
    """The pods of all manifests, in order.

    Raises:
        InvalidManifest: something is wrong with any of them; all problems of all files in one error.
        PathUnusable: one cannot be read.
    """
    pods: list[Pod] = []
    problems: list[InvalidManifest] = []
    warnings: list[ManifestWarning] = []
    for source, text in [(source, _text(source)) for name in names for source in _files(name)]:
        try:
            found, dropped = load_pods(text, source=input_name(source), mode=mode)
        except InvalidManifest as error:
            problems += [error, *error.more]
            continue
        pods += found
        warnings += dropped
    raise_problems(problems)
    return pods, warnings


def placed(pod: Pod, namespace: str | None) -> Json:
    """The v1 object of ``pod``; ``namespace`` counts for a pod that names none."""
    value = pod_to_v1(pod)
    if namespace is None or namespace == pod.namespace:
        return value
    if pod.namespace != DEFAULT_NAMESPACE:
        raise UsageError(
            f"pod {pod.name} is of namespace {pod.namespace}, and --namespace says {namespace}; "
            f"pass --namespace={pod.namespace} or none"
        )
    return value | {"metadata": v1.mapping(value, "metadata") | {"namespace": namespace}}


def _files(name: str) -> Iterator[str]:
    """``name`` itself, or for a directory the manifests right in it, sorted."""
    directory = Path(name)
    if name == STDIN or not directory.is_dir():
        yield name
        return
    try:
        found = sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES and not path.is_dir())
    except OSError as error:
        raise PathUnusable(name, f"cannot be read: {error.strerror}") from error
    if not found:
        raise PathUnusable(name, f"holds no manifest (recognized file extensions are {', '.join(SUFFIXES)})")
    yield from map(str, found)


def _text(source: str) -> str:
    try:
        return read_input(source, limit=MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PathUnusable(input_name(source), "is not UTF-8 text") from error
