"""OCI image layouts: what an image is in blobs, as a tree.

Source: OCI image specification 1.1, image-layout.md, manifest.md, config.md, annotations.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.image.inputs import Architecture
from tools.image.tree import File, Tree

CONFIG: Final = "application/vnd.oci.image.config.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_PLATFORMS: Final[Mapping[Architecture, Mapping[str, str]]] = {
    Architecture.AMD64: {"architecture": "amd64", "os": "linux"},
    Architecture.ARM64: {"architecture": "arm64", "os": "linux", "variant": "v8"},
}

Descriptor = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, as it was before compression and after it."""

    plain_digest: str
    compressed: bytes
    made_by: str


@dataclass(frozen=True, slots=True)
class Settings:
    """How containers of an image start, and what is written on it."""

    created: str
    """As in RFC 3339."""
    environ: Mapping[str, str]
    entrypoint: Sequence[str]
    command: Sequence[str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Image:
    """One image for one processor."""

    architecture: Architecture
    settings: Settings
    layers: Sequence[Layer]


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layout(images: Sequence[Image], name: str) -> tuple[Tree, str]:
    """The layout of an image called ``name``, for one or several processors, and its digest."""
    tree = Tree()
    manifests = [_manifest(tree, image) for image in images]
    if len(manifests) == 1:
        top = manifests[0]
    else:
        annotations = images[0].settings.labels
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations}
        top = _blob(tree, to_json(index), INDEX)
    # containerd reads the first, podman and skopeo the second.
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    tree.add("oci-layout", File(to_json({"imageLayoutVersion": "1.0.0"})))
    tree.add(
        "index.json",
        File(to_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**top, "annotations": names}]})),
    )
    return tree, str(top["digest"])


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _manifest(tree: Tree, image: Image) -> Descriptor:
    settings = image.settings
    config = {
        **_PLATFORMS[image.architecture],
        "created": settings.created,
        "config": {
            "Env": [f"{name}={value}" for name, value in settings.environ.items()],
            "Entrypoint": list(settings.entrypoint),
            "Cmd": list(settings.command),
            "Labels": dict(settings.labels),
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.plain_digest for layer in image.layers]},
        "history": [{"created": settings.created, "created_by": layer.made_by} for layer in image.layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(tree, to_json(config), CONFIG),
        "layers": [_blob(tree, layer.compressed, LAYER) for layer in image.layers],
        "annotations": dict(settings.labels),
    }
    return {**_blob(tree, to_json(manifest), MANIFEST), "platform": _PLATFORMS[image.architecture]}


def _blob(tree: Tree, content: bytes, kind: str) -> Descriptor:
    there = digest(content)
    tree.add(f"blobs/{there.replace(':', '/')}", File(content))
    return {"mediaType": kind, "digest": there, "size": len(content)}
