"""Images made on the spot: archives in OCI layout that `ctr images import` takes, without any registry."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

BUSYBOX: Final = "localhost/test/busybox:1"
ECHO: Final = "localhost/test/echo:1"
"""Says what it was started with: its entrypoint prints its arguments."""
PAUSE: Final = "localhost/test/pause:1"

_EPOCH: Final = "1970-01-01T00:00:00Z"
_PLATFORM: Final = {"architecture": "amd64", "os": "linux"}


def busybox() -> Path | None:
    """The static program of Debian's package busybox-static, if it is here."""
    found = shutil.which("busybox")
    return Path(found) if found else None


def write_images(directory: Path) -> list[Path]:
    """The archives of all three images."""
    program = busybox()
    assert program is not None, "who asks for images has looked for busybox"
    layer = _layer(program)
    everything = {"PATH": "/bin"}
    return [
        _archive(directory / "busybox.tar", BUSYBOX, layer, env=everything, command=["sh"]),
        _archive(directory / "echo.tar", ECHO, layer, env=everything, entrypoint=["echo", "image"], command=["says"]),
        # As PID 1 it takes no signal but SIGKILL, which is what engines send to a sandbox.
        _archive(directory / "pause.tar", PAUSE, layer, entrypoint=["/bin/busybox", "sleep", "2147483647"]),
    ]


def _layer(program: Path) -> bytes:
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "run"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", program.read_bytes(), 0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", 0o644)
        _add(tar, "etc/group", b"root:x:0:\nnobody:x:65534:\n", 0o644)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _archive(
    path: Path,
    name: str,
    layer: bytes,
    *,
    env: Mapping[str, str] | None = None,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
) -> Path:
    config = {
        **_PLATFORM,
        "created": _EPOCH,
        "config": {
            "Env": [f"{key}={value}" for key, value in (env or {}).items()],
            "Entrypoint": list(entrypoint),
            "Cmd": list(command),
        },
        # Of the layer before it is compressed.
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": _EPOCH}],
    }
    compressed = gzip.compress(layer, compresslevel=1, mtime=0)
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, _json(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [_blob(blobs, compressed, "application/vnd.oci.image.layer.v1.tar+gzip")],
    }
    index = {
        "schemaVersion": 2,
        "manifests": [
            _blob(blobs, _json(manifest), "application/vnd.oci.image.manifest.v1+json")
            | {"platform": _PLATFORM, "annotations": {"io.containerd.image.name": name}}
        ],
    }
    with tarfile.open(path, mode="w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}), 0o644)
        _add(tar, "index.json", _json(index), 0o644)
        for digest, blob in blobs.items():
            _add(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}", blob, 0o644)
    return path


def _blob(blobs: dict[str, bytes], content: bytes, kind: str) -> dict[str, Any]:
    blobs[_digest(content)] = content
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
