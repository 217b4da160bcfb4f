"""Read the kubelet's settings: its configuration, its command line, the policies of its resource managers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plugbay.errors import PlugbayError
from plugbay.kernel.files import read_bytes
from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.values import DAMAGED, EvidenceSource, KubeletEvidence, option

_MANAGERS: Final = ("cpu_manager_state", "memory_manager_state")
_USUAL_SETTINGS: Final = ("config.yaml", "kubeconfig.yaml")


def read_kubelet(host: Host, gaps: Gaps, *, pid: int) -> KubeletEvidence:
    """The kubelet.

    Args:
        pid: of the process that listens at its registration socket; 0 if it is not seen.
    """
    arguments = _arguments(pid, host) if pid else ()
    path = option(arguments, "config") or str(host.kubelet_root / _USUAL_SETTINGS[0])
    settings = _settings(path, host, gaps)
    return KubeletEvidence(
        str(host.kubelet_root),
        arguments=arguments,
        settings=settings or {},
        settings_path=path if settings is not None else "",
        managers={name: policy for name in _MANAGERS if (policy := _policy(name, host, gaps))},
        other_root=host.other_root,
    )


def _arguments(pid: int, host: Host) -> tuple[str, ...]:
    try:
        words = host.at(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ()
    return tuple(each.decode(errors="replace") for each in words if each)


def _settings(path: str, host: Host, gaps: Gaps) -> Mapping[str, object] | None:
    try:
        content = read_bytes(host.at(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        gaps.note(EvidenceSource.SETTINGS, path, error)
        return None
    # Imported here: it brings YAML.
    from plugbay.documents.texts import read_documents

    try:
        document = next(read_documents(content.decode(), source=path), None)
    except (PlugbayError, UnicodeDecodeError) as error:
        gaps.note(EvidenceSource.SETTINGS, path, error)
        return None
    value = document.value if document is not None else None
    return value if isinstance(value, dict) else {}


def _policy(name: str, host: Host, gaps: Gaps) -> str:
    path = host.kubelet.root / name
    try:
        document = json.loads(read_bytes(path))
    except FileNotFoundError:
        return ""
    except OSError as error:
        gaps.note(EvidenceSource.SETTINGS, host.shown(path), error)
        return ""
    except (ValueError, RecursionError):
        return DAMAGED
    found = document.get("policyName") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""
