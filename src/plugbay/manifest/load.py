"""Manifests and v1 objects to pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from plugbay.errors import InvalidDocument, InvalidManifest
from plugbay.manifest.checks import check_pod
from plugbay.manifest.lifecycle_checks import check_lifecycles
from plugbay.manifest.ports import check_ports
from plugbay.manifest.projection_checks import check_projections
from plugbay.manifest.report import ManifestReport, ManifestWarning, Strictness, raise_problems
from plugbay.manifest.schema import POD
from plugbay.manifest.server_filled import without_token_volumes
from plugbay.manifest.shapes import Walk, found
from plugbay.manifest.surroundings import check_surroundings
from plugbay.manifest.v1 import pod_of
from plugbay.manifest.v1_types import V1Pod
from plugbay.model.field_path import FieldPath
from plugbay.model.pods import Pod
from plugbay.model.projections import ProjectionKind
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.documents.texts import Document

API_VERSION: Final = "v1"
KIND: Final = "Pod"
_LISTS: Final = ("List", "PodList")
_VOLUME_SOURCES: Final = frozenset({"hostPath", "emptyDir", *(kind.value for kind in ProjectionKind)})


def load_pods(text: str, *, source: str, mode: Strictness) -> tuple[list[Pod], list[ManifestWarning]]:
    """The pods of a manifest: one or several YAML or JSON documents, each a Pod or a list of them.

    Their owners are left out: they are objects of the cluster that the manifest was read from, and a pod whose owners
    are not there is deleted.

    Args:
        text: what stands in the manifest.
        source: what errors call it, such as its path.
        mode: what becomes of fields that we do not know or support.

    Raises:
        InvalidManifest: something is wrong; all problems of the text in one error. Broken YAML comes alone.
    """
    pods: list[Pod] = []
    problems: list[InvalidManifest] = []
    warnings: list[ManifestWarning] = []
    for document in _documents(text, source=source):
        for candidate in _candidates(document, source=source):
            report = ManifestReport(source=source, mode=mode, lines=document.lines, base=candidate.base)
            pod = _read_pod(candidate.value, report)
            if pod is not None:
                pods.append(replace(pod, owners=()))
            problems += report.problems
            warnings += report.warnings
    raise_problems(problems)
    if not pods:
        raise InvalidManifest("holds no Pod", source=source)
    return pods, warnings


def pod_from_v1(v1: object, *, source: str = "", mode: Strictness = Strictness.STRICT) -> Pod:
    """The pod of a v1 object made of JSON values, checked as strictly as a manifest.

    Raises:
        InvalidManifest: something is wrong; all problems in one error, without lines.
    """
    report = ManifestReport(source=source, mode=mode)
    pod = _read_pod(v1, report)
    raise_problems(report.problems)
    assert pod is not None
    return pod


def _documents(text: str, *, source: str) -> Iterator[Document]:
    # Imported here: PyYAML takes 9 ms and 1.5 MB, and most of a node's pods come as JSON objects.
    from plugbay.documents.texts import read_documents

    try:
        yield from read_documents(text, source=source)
    except InvalidDocument as error:
        raise InvalidManifest(error.problem, field=error.field, line=error.line, source=source) from error


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An object that should be a pod, and its place in its document."""

    value: object
    base: FieldPath = ()


def _candidates(document: Document, *, source: str) -> Iterator[_Candidate]:
    value = document.value
    if not isinstance(value, dict) or value.get("kind") not in _LISTS:
        yield _Candidate(value)
        return
    items = value.get("items")
    if not isinstance(items, list):
        line = document.lines.get(("items",), document.lines[()])
        raise InvalidManifest(f"wants a list, found {found(items)}", field="items", line=line, source=source)
    # The items of a typed list need not repeat what the list's kind says.
    implied = {"apiVersion": API_VERSION, "kind": KIND} if value["kind"] == "PodList" else {}
    for index, item in enumerate(items):
        yield _Candidate(implied | item if isinstance(item, dict) else item, ("items", index))


def _read_pod(value: object, report: ManifestReport) -> Pod | None:
    """The pod ``value`` describes; of no use when the report has problems."""
    if not isinstance(value, dict):
        report.problem((), f"wants a Pod, found {found(value)}")
        return None
    if not _is_pod(value, report):
        return None
    walk = Walk(report)
    v1 = cast("V1Pod", walk.read(without_token_volumes(value), POD))
    for index, volume in enumerate(v1.get("spec", {}).get("volumes", [])):
        if len(volume.keys() & _VOLUME_SOURCES) > 1:
            report.problem(("spec", "volumes", index), "may not specify more than 1 volume type")
        check_projections(volume, ("spec", "volumes", index), report)
    check_lifecycles(v1.get("spec", {}), report)
    _check_ports(v1, report)
    pod = pod_of(v1, unused=walk.unused)
    check_pod(pod, report)
    check_surroundings(pod.spec, v1.get("spec", {}).get("securityContext", {}).get("sysctls", []), report)
    return pod


def _check_ports(v1: V1Pod, report: ManifestReport) -> None:
    spec = v1.get("spec", {})
    on_host = spec.get("hostNetwork", False)
    for name, containers in (
        ("initContainers", spec.get("initContainers", [])),
        ("containers", spec.get("containers", [])),
    ):
        for index, container in enumerate(containers):
            path = ("spec", name, index, "ports")
            check_ports(container.get("ports", []), path, report, host_network=on_host)


def _is_pod(value: dict[str, object], report: ManifestReport) -> bool:
    """Whether to read on: the fields of another kind would all be called unknown."""
    kind, version = value.get("kind"), value.get("apiVersion")
    if not kind:
        report.problem(("kind",), 'Required value: "Pod"')
    elif not isinstance(kind, str):
        report.problem(("kind",), f"wants a string, found {found(kind)}")
    elif kind != KIND:
        is_close = kind.lower().rstrip("s") == KIND.lower()
        hint = f', did you mean "{KIND}"?' if is_close else "; plugbay's node runs pods only"
        report.problem(("kind",), f"{kind} is not supported{hint}")
    if not version:
        report.problem(("apiVersion",), f'Required value: "{API_VERSION}"')
    elif version != API_VERSION and kind in (KIND, None):
        report.problem(("apiVersion",), f'Unsupported value: "{version}": a Pod is of "{API_VERSION}"')
    return kind in (KIND, None)
