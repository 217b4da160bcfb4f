"""Read what happened: the kubelet's log, and what security modules denied. Only the end of a log is read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.machine_values import Denial
from plugbay.observe.doctor.evidence.values import EvidenceSource, PodHappening

KUBELET_LOGS: Final = ("/var/log/kubelet.log", "/var/log/kubelet/kubelet.log")
_JOURNALS: Final = ("/var/log/journal", "/run/log/journal")
_UNITS: Final = ("kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "snap.microk8s.daemon-kubelite")
_SECURITY_LOGS: Final = ("/var/log/audit/audit.log", "/var/log/kern.log")
_TAIL_BYTES: Final = 1 << 20
_JOURNAL_LINES: Final = 2000
_JOURNAL_S: Final = 3.0
_MOST: Final = 200

REASONS: Final = (
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "OutOf",
    "AdmissionError",
)
_VALUE: Final = r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|\'(?P<single>[^\']*)\'|(?P<bare>\S+))'
_FIELD: Final = re.compile(rf"\b(?P<key>pod|object|podUID|reason|message|err|type|resource|resourceName)[=:] ?{_VALUE}")
_MESSAGE: Final = re.compile(r'\] "(?P<text>(?:[^"\\]|\\.)*)"')
_REFERENCE: Final = re.compile(
    r'Kind:"Pod", Namespace:"(?P<namespace>[^"]*)", Name:"(?P<name>[^"]*)", UID:"(?P<uid>[^"]*)"'
    r".*? reason: '[^']*' (?P<message>.*)"
)
"""An event in the form that kubelets logged up to 1.21."""
_VERSION: Final = re.compile(r'"?Kubelet version"?\s+kubeletVersion="?v?(?P<version>[0-9]+\.[0-9]+\.[0-9]+)')
_NOTED: Final = re.compile(
    r"UnexpectedAdmissionError|TopologyAffinityError|OutOf[a-z]|NodeAffinity|"
    r"CDI device injection failed|unresolvable CDI|PreStartContainer rpc failed|"
    r"[Bb]ad registration|is not supported by kubelet|[Rr]egister[A-Za-z ]*(?:failed|error)|"
    r"Got registration request|cannot allocate un|devices unavailable|cni plugin not initialized|"
    r"no such device|failed to find plugin"
)
_DENIAL: Final = re.compile(r'avc:\s+denied|apparmor="DENIED"')


def read_happenings(host: Host, gaps: Gaps) -> tuple[tuple[PodHappening, ...], str]:
    """The kubelet's words on pods and plugins in its log, and its version if it is in there."""
    for name in KUBELET_LOGS:
        path = host.at(name)
        try:
            text = _tail(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            gaps.note(EvidenceSource.HAPPENINGS, name, error)
            return (), ""
        return _parsed(text, name)
    journal = next((host.at(each) for each in _JOURNALS if host.at(each).is_dir()), None)
    program = shutil.which("journalctl")
    if journal is None or program is None:
        gaps.note(
            EvidenceSource.HAPPENINGS,
            "the kubelet's log",
            f"neither {KUBELET_LOGS[0]} nor a systemd journal that journalctl reads is here; "
            "give events with --objects FILE",
        )
        return (), ""
    return _journal(program, journal, host, gaps)


def _journal(program: str, journal: Path, host: Host, gaps: Gaps) -> tuple[tuple[PodHappening, ...], str]:
    units = [word for unit in _UNITS for word in ("-u", unit)]
    where = [] if host.is_this_machine else ["-D", str(journal)]
    command = [program, *where, *units, "-n", str(_JOURNAL_LINES), "-o", "cat", "--no-pager", "-q", "--since", "-24h"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_JOURNAL_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        late = isinstance(error, subprocess.TimeoutExpired)
        gaps.note(EvidenceSource.HAPPENINGS, "journalctl", f"no answer within {_JOURNAL_S:g} s" if late else error)
        return (), ""
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        gaps.note(EvidenceSource.HAPPENINGS, "journalctl", lines[-1] if lines else f"it ended with {done.returncode}")
    return _parsed(done.stdout.decode(errors="replace"), "the journal of the kubelet")


def _tail(path: Path) -> str:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read(_TAIL_BYTES).decode(errors="replace")


def _parsed(text: str, source: str) -> tuple[tuple[PodHappening, ...], str]:
    versions = [match["version"] for match in _VERSION.finditer(text)]
    return tuple(_happenings(text.splitlines(), source))[-_MOST:], versions[-1] if versions else ""


def _happenings(lines: Iterable[str], source: str) -> Iterator[PodHappening]:
    for line in lines:
        if _NOTED.search(line):
            yield happening_of_line(line, source)


def happening_of_line(line: str, source: str) -> PodHappening:
    """A line of a kubelet's log, in klog's text form with fields."""
    fields = {match["key"]: _unquoted(match) for match in _FIELD.finditer(line)}
    said = _MESSAGE.search(line)
    reason = fields.get("reason", "") or next((each for each in REASONS if each in line), "")
    message = fields.get("message") or fields.get("err") or (said["text"] if said else line)
    if "Got registration request" in line:
        reason, message = "Registered", fields.get("resourceName") or fields.get("resource", "")
    pod, uid = fields.get("pod") or fields.get("object", ""), fields.get("podUID", "")
    if (about := _REFERENCE.search(line)) is not None:
        pod, uid, message = f"{about['namespace']}/{about['name']}", about["uid"], about["message"]
    return PodHappening(source, reason, message, pod if "/" in pod else "", uid, at=line[:21])


def _unquoted(match: re.Match[str]) -> str:
    quoted = match["quoted"]
    if quoted is not None:
        return re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), quoted)
    return match["single"] if match["single"] is not None else match["bare"]


def read_denials(host: Host, gaps: Gaps) -> tuple[Denial, ...]:
    """The lines by which SELinux or AppArmor denied something about the kubelet's directories or the CDI specs."""
    places = (host.shown(host.kubelet.device_plugins), "device-plugins", "plugins_registry", "pod-resources", "/cdi/")
    found: list[Denial] = []
    for name in _SECURITY_LOGS:
        try:
            text = _tail(host.at(name))
        except FileNotFoundError:
            continue
        except OSError as error:
            gaps.note(EvidenceSource.SECURITY, name, error)
            continue
        lines = (line for line in text.splitlines() if _DENIAL.search(line))
        found += [Denial(name, line) for line in lines if any(place in line for place in places)]
    return tuple(found[-10:])
