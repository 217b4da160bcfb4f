"""Read the names of pods: the kubelet's directories of pods have UIDs, those of logs names as well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.values import EvidenceSource, PodSight
from plugbay.observe.reading.pod_names import named_by_logs

_LOGS: Final = "/var/log/pods"


def read_pods(host: Host, gaps: Gaps) -> tuple[PodSight, ...]:
    """The pods that have a directory."""
    directory = host.kubelet.root / "pods"
    try:
        uids = sorted(os.listdir(directory))
    except OSError as error:
        if host.kubelet.device_plugins.exists():  # else there is no kubelet, which says all
            gaps.note(EvidenceSource.PODS, host.shown(directory), error)
        uids = []
    names = dict(_named(host, gaps))
    return tuple(PodSight(uid, *names.get(uid, ("", "")), has_directory=True) for uid in uids)


def _named(host: Host, gaps: Gaps) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each pod's UID, with namespace and name."""
    try:
        names = os.listdir(host.at(_LOGS))
    except FileNotFoundError:
        return
    except OSError as error:
        gaps.note(EvidenceSource.PODS, _LOGS, error)
        return
    for each in names:
        if (told := named_by_logs(each)) is not None:
            uid, namespace, name = told
            yield uid, (namespace, name)
