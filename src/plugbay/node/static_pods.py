"""Static pods: what a manifest on the node's own disk is made into, as by a kubelet.

Source: kubelet 1.36 ``pkg/kubelet/config/common.go`` (``applyDefaults``), ``config/file.go``, ``types/pod_update.go``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidManifest
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.node.manifest import Strictness, load_pods, pod_to_v1

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
CONTENT_ANNOTATION: Final = "io.plugbay.manifest-hash"
"""Of a pod whose UID does not say what its manifest says, because the manifest brings it."""
FILE: Final = "file"
MAX_BYTES: Final = 10 * 1024 * 1024
"""A kubelet reads as much of a manifest; nobody writes so long a one. ``-f`` has the same limit."""
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_UID: Final = re.compile("[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?")
"""Directories are named after it. Those of an API server and of a kubelet are of this kind."""


def static_pod(pod: Pod, *, path: Path, node: str) -> Pod:
    """``pod`` with its place and its identity: a changed manifest, or one that moved, makes another pod.

    It has the UID that its manifest brings, as with a kubelet, or one made of what the manifest says.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for part in (node, str(path), json.dumps(pod_to_v1(pod), sort_keys=True)):
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
        spec=replace(pod.spec, node_name=node),
    )


def is_static(pod: Pod) -> bool:
    """Whether a manifest on the node keeps ``pod`` there; an annotation that anybody can write is not enough."""
    return pod.annotations.get(SOURCE_ANNOTATION) == FILE and pod.annotations.get(HASH_ANNOTATION) == pod.uid


def is_of(pod: Pod, wanted: Pod) -> bool:
    """Whether ``pod``, which is there, is what the manifest of ``wanted`` asks for."""
    return pod.uid == wanted.uid and pod.annotations.get(CONTENT_ANNOTATION) == wanted.annotations.get(
        CONTENT_ANNOTATION
    )


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """What a directory of manifests holds at one moment.

    Attributes:
        pods: of each readable file, the pods it makes.
        problems: of each other file, what is wrong with it.
    """

    pods: Mapping[Path, tuple[Pod, ...]]
    problems: Mapping[Path, str]

    @property
    def paths(self) -> frozenset[Path]:
        return frozenset({*self.pods, *self.problems})


def manifest_paths(directory: Path) -> frozenset[Path]:
    """The manifests in ``directory``; none if there is no such directory, or it cannot be read."""
    try:
        names = [path for path in directory.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith(".")]
    except OSError:
        return frozenset()
    return frozenset(names)


def read_manifests(directory: Path, *, node: str) -> ManifestFiles:
    """Every manifest in ``directory``. Reads files."""
    pods: dict[Path, tuple[Pod, ...]] = {}
    problems: dict[Path, str] = {}
    for path in sorted(manifest_paths(directory)):
        try:
            found, _ = load_pods(_content(path), source=str(path), mode=Strictness.STRICT)
            pods[path] = tuple(static_pod(_identified(pod, path), path=path, node=node) for pod in found)
        except InvalidManifest as error:
            problems[path] = str(error)
        except FileNotFoundError:
            continue  # taken away since it was listed
        except UnicodeDecodeError:
            problems[path] = f"{path}: is not UTF-8 text"
        except OSError as error:
            problems[path] = f"{path}: cannot be read: {error.strerror}"
    return ManifestFiles(pods, problems)


def _content(path: Path) -> str:
    # Nonblocking: a pipe would wait for its writer, and with it all manifests and the end of the node.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidManifest("not a regular file", source=str(path))
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidManifest(f"larger than {MAX_BYTES} bytes", source=str(path))
    return content.decode()


def _identified(pod: Pod, path: Path) -> Pod:
    if not pod.name:
        raise InvalidManifest("a pod in a file needs a name of its own", field="metadata.name", source=str(path))
    if pod.uid and not _UID.fullmatch(pod.uid):
        problem = "must be at most 63 letters, digits and hyphens, the first and the last of which is no hyphen"
        raise InvalidManifest(problem, field="metadata.uid", source=str(path))
    return pod
