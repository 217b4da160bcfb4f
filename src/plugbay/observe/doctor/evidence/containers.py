"""Read what container engines use: their configuration, CDI specs, CNI networks, files that containers were given."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import PlugbayError
from plugbay.kernel.files import read_bytes
from plugbay.observe.doctor.evidence.host import Gaps, Host, is_our_node
from plugbay.observe.doctor.evidence.machine_values import CniSight, EngineSight, HostFile, SpecSight
from plugbay.observe.doctor.evidence.sockets import is_answering
from plugbay.observe.doctor.evidence.values import CheckpointHolding, EvidenceSource

if TYPE_CHECKING:
    from plugbay.cdi.spec import Edits, Spec
    from plugbay.cni.config import NetworkConfig

_SOCKETS: Final = (
    ("containerd", "/run/containerd/containerd.sock", ("/etc/containerd/config.toml",)),
    (
        "containerd",
        "/run/k3s/containerd/containerd.sock",
        ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml",),
    ),
    ("CRI-O", "/run/crio/crio.sock", ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/10-crio.conf")),
)
_SPEC_DIRECTORIES: Final = ("/etc/cdi", "/var/run/cdi")
_ENDINGS: Final = (".json", ".yaml")
_IGNORED: Final = (".yml", ".yaml.bak", ".json.bak", ".yaml~", ".json~")
_OLD_S: Final = 3600
_CRI: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")


# --- the engine -----------------------------------------------------------------------------------------------------


def read_engine(host: Host, gaps: Gaps) -> EngineSight | None:
    """The engine of the machine: the first that listens, else the first with a socket; None if there is none.

    An engine that was removed may leave its socket behind, and a kubelet uses one engine only.
    """
    looked = (_engine_at(name, socket, configs, host, gaps) for name, socket, configs in _SOCKETS)
    found = [each for each in looked if each is not None]
    if found:
        return next((each for each in found if each.is_listening), found[0])
    if host.kubelet.device_plugins.is_dir() and not is_our_node(host):
        gaps.note(EvidenceSource.ENGINE, ", ".join(socket for _, socket, _ in _SOCKETS), "no container engine is there")
    return None


def _engine_at(name: str, socket: str, configs: Sequence[str], host: Host, gaps: Gaps) -> EngineSight | None:
    path = host.at(socket)
    try:
        if not path.is_socket():
            return None
    except OSError as error:
        gaps.note(EvidenceSource.ENGINE, socket, error)
        return None
    is_listening = is_answering(path) or not os.access(path, os.W_OK)
    config = next((each for each in configs if host.at(each).is_file()), "")
    document = _read_toml(config, host, gaps) if config else {}
    if name == "containerd":
        return _containerd(socket, is_listening, config, document)
    return _crio(socket, is_listening, config, document)


def _read_toml(config: str, host: Host, gaps: Gaps) -> Mapping[str, object]:
    try:
        return tomllib.loads(read_bytes(host.at(config)).decode())
    except OSError as error:
        gaps.note(EvidenceSource.ENGINE, config, error)
    except ValueError as error:
        gaps.note(EvidenceSource.ENGINE, config, f"it is not TOML: {error}")
    return {}


def _containerd(socket: str, is_listening: bool, config: str, document: Mapping[str, object]) -> EngineSight:
    """Source: containerd 1.7 and 2.1, ``docs/cri/config.md``: since 2.0 CDI is on where nothing is said."""
    plugins = _table(document, "plugins")
    cri: dict[str, object] = {}
    for each in reversed(_CRI):
        cri.update(_table(plugins, each))
    version = document.get("version", 1 if config else 3)
    cdi, why = cri.get("enable_cdi"), "enable_cdi is not set"
    is_default = not isinstance(cdi, bool)
    if isinstance(cdi, bool):
        why = f"enable_cdi = {str(cdi).lower()}"
    else:
        cdi = isinstance(version, int) and version >= 3
        why += f", and the file has version {version}: containerd 1.7 leaves CDI off then" if not cdi else ""
        if document.get("imports") or not config:  # files that may set it, or a version that is not known
            cdi = None
    cni = _table(cri, "cni") or _table(_table(plugins, "io.containerd.cri.v1.images"), "cni")
    programs = _texts(cni.get("bin_dirs")) or ((str(cni["bin_dir"]),) if cni.get("bin_dir") else ("/opt/cni/bin",))
    return EngineSight(
        "containerd",
        socket,
        is_listening,
        config,
        cdi,
        why,
        _texts(cri.get("cdi_spec_dirs")) or _SPEC_DIRECTORIES,
        str(cni.get("conf_dir") or "/etc/cni/net.d"),
        programs,
        cri.get("device_ownership_from_security_context") is True,
        cdi is False and is_default,
    )


def _crio(socket: str, is_listening: bool, config: str, document: Mapping[str, object]) -> EngineSight:
    """Source: CRI-O 1.30 ``crio.conf(5)``."""
    runtime, network = (_table(_table(document, "crio"), each) for each in ("runtime", "network"))
    return EngineSight(
        "CRI-O",
        socket,
        is_listening,
        config,
        True,
        "",
        _texts(runtime.get("cdi_spec_dirs")) or _SPEC_DIRECTORIES,
        str(network.get("network_dir") or "/etc/cni/net.d"),
        _texts(network.get("plugin_dirs")) or ("/opt/cni/bin",),
        runtime.get("device_ownership_from_security_context") is True,
    )


def _table(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


# --- CDI ------------------------------------------------------------------------------------------------------------


def read_specs(host: Host, gaps: Gaps) -> SpecSight:
    """The CDI specs in the directories that all engines read by default."""
    there: list[Path] = []
    names: dict[Path, list[str]] = {}
    for shown in _SPEC_DIRECTORIES:
        path = host.at(shown)
        try:
            names[path] = sorted(os.listdir(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            gaps.note(EvidenceSource.CDI, shown, error)
            continue
        there.append(path)
    listed = [path / name for path in there for name in names[path]]
    shown_directories = tuple(host.shown(each) for each in there)
    ignored = tuple(host.shown(each) for each in listed if each.name.endswith(_IGNORED))
    unfinished = tuple(host.shown(each) for each in listed if _is_unfinished(each, host))
    if not any(each.name.endswith(_ENDINGS) for each in listed):
        return SpecSight(shown_directories, ignored=ignored, unfinished=unfinished)
    # Imported here: they bring YAML.
    from plugbay.cdi.directories import scan

    try:
        registry = scan(there)
    except PlugbayError as error:
        gaps.note(EvidenceSource.CDI, ", ".join(shown_directories), error)
        return SpecSight(shown_directories, ignored=ignored, unfinished=unfinished)
    problems = [(host.shown(path), each.problem) for path, found in registry.problems.items() for each in found]
    conflicts = tuple(each for each in problems if each[1].startswith("conflicting device"))
    specs = {entry.file.path: entry.file.spec for entry in registry.devices.values()}
    return SpecSight(
        shown_directories,
        frozenset(map(str, registry.devices)),
        tuple(each for each in problems if each not in conflicts),
        conflicts,
        tuple(each for path, spec in specs.items() for each in _files_of(spec, host.shown(path), host)),
        ignored,
        unfinished,
    )


def _is_unfinished(path: Path, host: Host) -> bool:
    if not (path.name.startswith("spec.") and path.name.endswith(".tmp")):
        return False
    try:
        return host.now_s - path.stat(follow_symlinks=False).st_mtime > _OLD_S
    except OSError:
        return False


def _files_of(spec: Spec, path: str, host: Host) -> Iterator[HostFile]:
    yield from _wanted(spec.edits, f"every device of {path}", host)
    for device in spec.devices:
        yield from _wanted(device.edits, f"{spec.kind}={device.name} in {path}", host)


def _wanted(edits: Edits, wanted_by: str, host: Host) -> Iterator[HostFile]:
    for node in edits.device_nodes:
        if not (node.type and (node.major or node.type == "p")):  # else engines do not look at the host
            yield host_file(node.host_path or node.path, wanted_by, host, kind="device node")
    for mount in edits.mounts:
        if mount.host_path.startswith("/") and mount.type in ("", "bind"):
            yield host_file(mount.host_path, wanted_by, host, kind="mounted file")
    for hook in edits.hooks:
        yield host_file(hook.path, wanted_by, host, kind="hook")


# --- files that containers were given -------------------------------------------------------------------------------


def host_file(path: str, wanted_by: str, host: Host, *, kind: str, entry: CheckpointHolding | None = None) -> HostFile:
    """A file of the host as it is now."""
    of = (entry.pod_uid, entry.container, entry.resource) if entry else ("", "", "")
    try:
        found = host.at(path).stat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        return HostFile(path, wanted_by, None if is_gone else 0, 0, 0, kind if is_gone else "", *of)
    return HostFile(path, wanted_by, found.st_mode, found.st_uid, found.st_gid, kind, *of)


def read_given(entries: Iterable[CheckpointHolding], host: Host) -> tuple[HostFile, ...]:
    """The device nodes and files in the plugins' answers that the checkpoint keeps."""
    found: list[HostFile] = []
    for entry in entries:
        if entry.edits is None:
            continue
        by = f"container {entry.container}, with {entry.resource}"
        nodes = [each.host_path for each in entry.edits.device_nodes]
        found += [host_file(each, by, host, kind="device node", entry=entry) for each in nodes]
        mounts = [each.host_path for each in entry.edits.mounts]
        found += [host_file(each, by, host, kind="mounted file", entry=entry) for each in mounts]
    return tuple(found)


# --- CNI ------------------------------------------------------------------------------------------------------------


def read_networks(host: Host, gaps: Gaps, engine: EngineSight | None) -> CniSight:
    """The networks that the engine finds; nothing without an engine, since no other program uses them."""
    if engine is None:
        return CniSight()
    from plugbay.cni.directory import config_files, load_file

    shown = engine.cni_directory
    directory = host.at(shown)
    is_there = directory.is_dir()
    networks: list[tuple[str, NetworkConfig]] = []
    bad: list[tuple[str, str]] = []
    try:
        paths = config_files(directory)
    except PlugbayError as error:
        gaps.note(EvidenceSource.CNI, shown, error)
        return CniSight(shown, is_there)
    for path in paths:
        try:
            networks.append((host.shown(path), load_file(path)))
        except PlugbayError as error:
            bad.append((host.shown(path), str(error).removeprefix(f"{path}: ")))
    missing = tuple(each for each in networks[0][1].binaries if not _is_program(each, host, engine)) if networks else ()
    told = tuple((path, config.name, config.binaries) for path, config in networks)
    return CniSight(shown, is_there, told, tuple(bad), missing)


def _is_program(name: str, host: Host, engine: EngineSight) -> bool:
    return any(host.at(f"{directory}/{name}").is_file() for directory in engine.plugin_directories)
