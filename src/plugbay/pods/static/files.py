"""Static pods: the pod that a kubelet makes of a manifest on the node's own disk.

Source: kubelet 1.36 ``pkg/kubelet/config/common.go`` (``applyDefaults``), ``config/file.go``, ``types/pod_update.go``.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidManifest
from plugbay.manifest import pod_to_v1
from plugbay.model.ids import PodUid
from plugbay.model.placement import Placement
from plugbay.model.pods import Pod, without_empty
from plugbay.model.taints import TOLERATES_ANY_EVICTION
from plugbay.pods.record import FILE, HASH_ANNOTATION, SOURCE_ANNOTATION

CONTENT_ANNOTATION: Final = "io.plugbay.manifest-hash"
"""The hash of the manifest, for pods that bring their own UID; else the UID is derived from the manifest."""
_UID: Final = re.compile("[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?")
"""Directories are named after it. The UIDs of an API server and of a kubelet are of this kind."""


def static_pod(pod: Pod, *, path: Path, node: str) -> Pod:
    """``pod`` with its place and its identity: a changed manifest, or one that moved, makes another pod.

    It has the UID that its manifest brings, as with a kubelet, or one made of what the manifest says.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for part in (node, str(path), json.dumps(pod_to_v1(without_empty(pod)), sort_keys=True)):
        digest.update(f"{part}\0".encode(errors="surrogatepass"))
    content = digest.hexdigest()
    uid = pod.uid or PodUid(content)
    annotations = {SOURCE_ANNOTATION: FILE, HASH_ANNOTATION: uid}
    if pod.uid:
        annotations[CONTENT_ANNOTATION] = content
    return replace(
        pod,
        uid=uid,
        name=f"{pod.name}-{node.lower()}",
        annotations={**pod.annotations, **annotations},
        spec=replace(pod.spec, node_name=node, placement=_never_driven_away(pod.spec.placement)),
    )


def _never_driven_away(placement: Placement) -> Placement:
    tolerations = [each for each in placement.tolerations if each != TOLERATES_ANY_EVICTION]
    return replace(placement, tolerations=(*tolerations, TOLERATES_ANY_EVICTION))


def is_of(pod: Pod, wanted: Pod) -> bool:
    """Whether ``pod``, which is there, is what the manifest of ``wanted`` asks for."""
    return pod.uid == wanted.uid and pod.annotations.get(CONTENT_ANNOTATION) == wanted.annotations.get(
        CONTENT_ANNOTATION
    )


def identified(pod: Pod, path: Path) -> Pod:
    """``pod``, if it has the name, and perhaps the UID, that a pod in a file needs.

    Raises:
        InvalidManifest: it lacks a name, or its UID is not usable.
    """
    if not pod.name:
        raise InvalidManifest("a pod in a file needs a name of its own", field="metadata.name", source=str(path))
    if pod.uid and not _UID.fullmatch(pod.uid):
        problem = "must be at most 63 letters, digits and hyphens, and begin and end with a letter or digit"
        raise InvalidManifest(problem, field="metadata.uid", source=str(path))
    return pod
