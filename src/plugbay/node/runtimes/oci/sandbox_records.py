"""What is remembered of each sandbox of the oci runtime: a file that tells what there is to undo."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import msgspec

from plugbay.cni.config import is_valid_name
from plugbay.kernel.files import write_durably
from plugbay.model.ids import PodUid

logger = logging.getLogger(__name__)


class SandboxRecord(msgspec.Struct, frozen=True):
    """One file. ``ips`` is empty until the network is complete; ``netns`` for a pod on the host's network.

    ``shared`` is the directory of what containers share besides; empty in records of an earlier plugbay, whose
    containers share nothing more. ``own_kinds`` and ``host_kinds`` are the OCI's names of namespaces that are the pod's
    and the host's. ``files`` are those in the directory, each with the field of the pod that it cannot do without.
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
        return self._read(self._path(pod))

    def read_all(self) -> list[SandboxRecord]:
        return [record for record in map(self._read, self._directory.glob("[!.]*.json")) if record is not None]

    def write(self, record: SandboxRecord) -> None:
        """On return it is on the disk.

        Raises:
            OSError: it cannot be written.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self._path(record.pod_uid), msgspec.json.encode(record))

    def remove(self, pod: PodUid) -> None:
        self._path(pod).unlink(missing_ok=True)

    def _path(self, pod: PodUid) -> Path:
        return self._directory / f"{sandbox_id(pod)}.json"

    def _read(self, path: Path) -> SandboxRecord | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=SandboxRecord)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("Cannot read %s: %s; the sandbox is left alone", path, error)
            return None


def sandbox_id(pod: PodUid) -> str:
    """What plugins call a pod's sandbox: its UID, unless CNI does not allow its characters."""
    return pod if is_valid_name(pod) else hashlib.sha256(pod.encode()).hexdigest()
