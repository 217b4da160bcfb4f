"""The completion indexes of an Indexed Job. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job/indexed_job_utils.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby, islice
from typing import Final

from plugbay.documents import Json
from plugbay.node.controllers.seen_pods import SeenPod
from plugbay.printers import v1

INDEX: Final = "batch.kubernetes.io/job-completion-index"
VARIABLE: Final = "JOB_COMPLETION_INDEX"


def index_of(pod: SeenPod) -> int | None:
    """The index that a pod works at; None if it has none."""
    text = pod.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def write_indexes(indexes: Iterable[int]) -> str:
    """``0-2,5``: runs of at least three are written as a range, two as two numbers."""
    runs = groupby(enumerate(sorted(indexes)), key=lambda each: each[1] - each[0])
    return ",".join(_run([number for _, number in run]) for _, run in runs)


def _run(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 2 else ",".join(map(str, numbers))


def read_indexes(text: str) -> frozenset[int]:
    """The indexes that `write_indexes` wrote."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def free_indexes(completions: int, taken: Collection[int], most: int) -> list[int]:
    """The lowest indexes that nothing has completed or works at."""
    return list(islice((index for index in range(completions) if index not in taken), most))


def indexed_template(template: Json, index: int) -> Json:
    """``template`` for the pod of an index: in an annotation, a label and the environment of every container."""
    metadata = v1.mapping(template, "metadata")
    marked = {name: {**v1.mapping(metadata, name), INDEX: str(index)} for name in ("labels", "annotations")}
    spec = dict(v1.mapping(template, "spec"))
    for name in ("initContainers", "containers"):
        if name in spec:
            spec[name] = [_with_variable(each) for each in v1.objects(spec, name)]
    return {**template, "metadata": {**metadata, **marked}, "spec": spec}


def _with_variable(container: Json) -> Json:
    given = v1.objects(container, "env")
    if any(each.get("name") == VARIABLE for each in given):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*given, {"name": VARIABLE, "valueFrom": source}]}
