"""The records of sandboxes of the oci runtime: a file for each, which tells what there is to undo.

Compatibility: members are only added, with defaults; none is renamed or removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import msgspec

from plugbay.cni.config import is_valid_name
from plugbay.errors import PathUnusable, SandboxFailed
from plugbay.kernel.files import write_durably
from plugbay.model.ids import PodUid

logger = logging.getLogger(__name__)


class SandboxRecord(msgspec.Struct, frozen=True):
    """The content of one file.

    ``ips`` is empty until the network is complete; ``netns`` is empty for a pod on the host's network. ``shared`` is
    the directory with the further things that containers share; it is empty in records of an earlier plugbay, where
    containers share nothing more. ``own_kinds`` and ``host_kinds`` are the OCI's names of the namespaces that are the
    pod's and the host's. ``files`` are those in the directory, each with the field of the pod that needs it.
    """

    pod_uid: PodUid
    boot_id: str
    container_id: str
    netns: str = ""
    args: tuple[tuple[str, str], ...] = ()
    capabilities: dict[str, Any] = {}
    ips: tuple[str, ...] = ()
    shared: str = ""
    hostname: str = ""
    own_kinds: tuple[str, ...] = ()
    host_kinds: tuple[str, ...] = ()
    files: dict[str, str] = {}


class SandboxRecords:
    """The files of one node. Every method may wait for the disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, pod: PodUid) -> SandboxRecord | None:
        """The pod's record; None if the pod has none. A damaged record tells no more than the pod: see `in_part`.

        Raises:
            SandboxFailed: it may be there, and cannot be read.
        """
        path = self._path(pod)
        try:
            return msgspec.json.decode(path.read_bytes(), type=SandboxRecord)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            logger.warning("%s is damaged: %s; the sandbox is made anew", path, error)
            return in_part(pod)
        except OSError as error:
            raise SandboxFailed(f"cannot read {path}: {error.strerror}") from error

    def pods(self) -> frozenset[PodUid]:
        """The pods that have one, also if it cannot be read: the file has the pod's name, or its content has.

        Raises:
            PathUnusable: it cannot be found out.
        """
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise PathUnusable(str(self._directory), f"cannot list sandboxes: {error.strerror}") from error
        paths = [self._directory / name for name in names if name.endswith(".json") and not name.startswith(".")]
        return frozenset(pod for path in paths if (pod := _pod_of(path)))

    def write(self, record: SandboxRecord) -> None:
        """Write a record durably.

        Raises:
            OSError: it cannot be written.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self._path(record.pod_uid), msgspec.json.encode(record))

    def remove(self, pod: PodUid) -> None:
        self._path(pod).unlink(missing_ok=True)

    def _path(self, pod: PodUid) -> Path:
        return self._directory / f"{sandbox_id(pod)}.json"


def in_part(pod: PodUid) -> SandboxRecord:
    """The record of a sandbox if only its pod is known. Its boot ID matches no boot, so that it counts as broken."""
    return SandboxRecord(pod, boot_id="", container_id=sandbox_id(pod))


def _pod_of(path: Path) -> PodUid | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SandboxRecord).pod_uid
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.warning(
            "cannot read %s: %s; it counts as the sandbox of pod %s until it can be read", path, error, path.stem
        )
        return PodUid(path.stem)


def sandbox_id(pod: PodUid) -> str:
    """The name of a pod's sandbox for plugins: its UID, unless CNI does not allow the UID's characters."""
    return pod if is_valid_name(pod) else hashlib.sha256(pod.encode()).hexdigest()
