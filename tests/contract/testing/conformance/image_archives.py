"""Images made on the spot, as ``docker save`` and OCI tools write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def layer(files: Mapping[str, str | None], links: Mapping[str, str] | None = None) -> bytes:
    """A layer with these files; None makes a directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            if text is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
            else:
                entry.size, entry.mode = len(text.encode()), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def docker_archive(path: Path, layers: Sequence[bytes], config: Mapping[str, Any]) -> Path:
    """An archive in docker's own format."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["plugin:1"], "Layers": names}]
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps({"architecture": "any", "os": "linux", "config": config}).encode(),
        **dict(zip(names, layers, strict=True)),
    }
    return _archived(path, files)


def oci_archive(path: Path, layers: Sequence[bytes], config: Mapping[str, Any]) -> Path:
    """An archive in OCI layout, its layers compressed, with one more index than it needs."""
    files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "config": put(json.dumps({"config": config}).encode()),
        "layers": [put(gzip.compress(each)) for each in layers],
    }
    other = {"digest": "sha256:0", "platform": {"architecture": "mips", "os": "linux"}}
    index = {"manifests": [other, put(json.dumps(manifest).encode())]}
    files["index.json"] = json.dumps({"manifests": [put(json.dumps(index).encode())]}).encode()
    return _archived(path, files)


def _archived(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
