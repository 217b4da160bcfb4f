"""Checks of sockets: the kubelet's, and those of plugins. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.observe.doctor.evidence.values import (
    Answer,
    CheckpointState,
    EvidenceSource,
    Examined,
    SocketSight,
)
from plugbay.observe.doctor.finding import Check, FindingSeverity, Fix, FixKind, Seen
from plugbay.observe.view import SocketState

_MOST_BYTES: Final = 107
_ROOM_BYTES: Final = 20
"""A plugin's socket has a name of its own below the directory."""
_REGISTERING_S: Final = 60
"""A plugin that has just started may still be on its way."""
_OUR_NAME: Final = re.compile(r".*/[^/]+-[0-9a-f]{8}\.sock")
_START_OURS: Final = (
    "This is a node of plugbay, and it is down: plugbay node up starts it, plugbay node status looks at it."
)
_OTHERS_WRITE: Final = 0o022
_OPEN_TYPE: Final = re.compile(r"[^:]+:[^:]+:(container_file_t|container_share_t|svirt_sandbox_file_t)(:|$)")
_REFUSAL: Final = re.compile(
    r"bad registration|is not supported by kubelet|ResourceName .* is invalid|failed to dial device plugin|"
    r"failed to get device plugin options|not among plugin supported versions|no handler registered|"
    r"plugin (?:validation|registration) failed",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"ResourceName \"?([a-zA-Z0-9./_-]+)")


def no_kubelet(evidence: Examined) -> Iterator[Seen]:
    directory = evidence.plugins
    if directory.path and not directory.is_there and not evidence.is_unread(directory.path):
        yield Seen(
            f"No kubelet has ever run with the root {evidence.kubelet.root}",
            (f"{evidence.plugins.path}: there is no such directory",),
        )


def kubelet_down(evidence: Examined) -> Iterator[Seen]:
    if not evidence.plugins.is_there:
        return
    socket, path = evidence.registration, f"{evidence.plugins.path}/kubelet.sock"
    if socket is None and evidence.is_unread(evidence.plugins.path, path):
        return
    if socket is None:
        yield Seen(
            "No plugin can register: the kubelet's socket is missing",
            (f"{path}: there is no such socket",),
            remedy=_START_OURS if evidence.kubelet.is_ours else "",
        )
    elif socket.state in (SocketState.DEAD, SocketState.FULL):
        yield Seen("No plugin can register with the kubelet", (f"{path}: {socket.state.value}",))


def dead_sockets(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.sockets:
        if each.state is SocketState.DEAD:
            fixes = (Fix(FixKind.REMOVE_SOCKET, each.path),) if _OUR_NAME.fullmatch(each.path) else ()
            yield Seen(
                f"A plugin's socket is left over{_of(each)}", (f"{each.path}: {each.state.value}",), fixes=fixes,
                resources=_resources(each),
            )  # fmt: skip


def lost_sockets(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.lost_listeners:
        yield Seen(
            "A plugin runs that the kubelet does not know: its socket's file is gone",
            (f"{each.path}: process {each.pid} ({each.process}) listens at this path, and there is no such file",),
        )
    allocatable = evidence.pod_resources.allocatable
    if allocatable is None or evidence.checkpoint.state not in (CheckpointState.VALID, CheckpointState.MISSING):
        return
    known = {*allocatable, *evidence.checkpoint.registered, *(each.name for each in evidence.resources)}
    for socket in (*evidence.sockets, *evidence.registry_sockets):
        is_old = evidence.machine.now_s - socket.changed_s > _REGISTERING_S
        if socket.resource and socket.resource not in known and socket.state is SocketState.LISTENING and is_old:
            yield Seen(
                f"A plugin of {socket.resource} runs, and the kubelet does not know the resource",
                (
                    f"{socket.path}: {socket.by or 'a process listens'}",
                    f"{evidence.checkpoint.path}: no {socket.resource}",
                    f"PodResources GetAllocatableResources: no {socket.resource}",
                ),
                resources=(socket.resource,),
            )


def dead_registrants(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.registry_sockets:
        if each.state is SocketState.DEAD:
            yield Seen(
                "The kubelet tries a socket of the plugin watcher again and again",
                (f"{each.path}: {each.state.value}",),
            )


def silent_plugins(evidence: Examined) -> Iterator[Seen]:
    for each in (*evidence.sockets, *evidence.registry_sockets):
        if each.state is SocketState.FULL:
            said = each.state.value
        elif each.answer is Answer.SILENT:
            said = "a process listens, and does not answer"
        else:
            continue
        yield Seen(f"A plugin hangs{_of(each)}", (f"{each.path}: {said}", *_by(each)), resources=_resources(each))


def long_paths(evidence: Examined) -> Iterator[Seen]:
    named = [each.path for each in (*evidence.sockets, *evidence.registry_sockets)]
    path = f"{evidence.plugins.path}/kubelet.sock"
    for each in (path, *named):
        if len(each.encode(errors="surrogateescape")) > _MOST_BYTES:
            size = len(each.encode(errors="surrogateescape"))
            yield Seen(
                f"A socket's path has {size} bytes, and the kernel takes {_MOST_BYTES}", (f"{each}: {size} bytes",)
            )
            return
    size = len(f"{evidence.plugins.path}/".encode(errors="surrogateescape"))
    if evidence.plugins.is_there and size + _ROOM_BYTES > _MOST_BYTES:
        yield Seen(f"{_MOST_BYTES - size} bytes are left for the names of plugins' sockets", (f"{path}: {size} bytes",))


def open_directory(evidence: Examined) -> Iterator[Seen]:
    directory, socket = evidence.plugins, evidence.registration
    if directory.is_there and directory.mode & _OTHERS_WRITE:
        yield Seen(
            "Users other than root may put sockets among those of the plugins",
            (f"{directory.path}: mode {directory.mode:04o}, owner {directory.uid}",),
            remedy=f"chmod go-w {directory.path}",
        )
    if socket is not None and socket.mode & 0o002 and directory.mode & 0o001:
        yield Seen(
            "Every user may register a device plugin",
            (f"{socket.path}: mode {socket.mode:04o}", f"{directory.path}: mode {directory.mode:04o}"),
            remedy=f"Close the directory, chmod 0750 {directory.path}, and start the kubelet with umask 022.",
        )


def wrong_label(evidence: Examined) -> Iterator[Seen]:
    directory = evidence.plugins
    if evidence.machine.enforces_selinux and directory.label and not _OPEN_TYPE.match(directory.label):
        yield Seen(
            "SELinux keeps plugins in containers from their directory",
            (f"{directory.path}: label {directory.label}", "/sys/fs/selinux/enforce: 1"),
            remedy=f"chcon -t container_file_t {directory.path}",
        )


def denials(evidence: Examined) -> Iterator[Seen]:
    found = evidence.machine.denials
    if found:
        lines = tuple(f"{each.source}: {each.line}" for each in found[-3:])
        yield Seen(f"A security module denied access {len(found)} times, lately", lines)


def two_plugins(evidence: Examined) -> Iterator[Seen]:
    by_resource: dict[str, list[SocketSight]] = {}
    for each in (*evidence.sockets, *evidence.registry_sockets):
        if each.resource and each.state is SocketState.LISTENING:
            by_resource.setdefault(each.resource, []).append(each)
    for resource, sockets in sorted(by_resource.items()):
        # A plugin on both ways has a socket on each; two processes are two plugins.
        if len({each.pid or each.path for each in sockets}) > 1:
            told = tuple(f"{each.path}: {each.by or 'a process listens'}" for each in sockets)
            yield Seen(f"{len(sockets)} plugins offer {resource}", told, resources=(resource,))


def refusals(evidence: Examined) -> Iterator[Seen]:
    last: dict[str, tuple[int, str]] = {}
    for each in evidence.happenings:
        if not each.pod and _REFUSAL.search(each.message):
            count, _ = last.get(each.message, (0, ""))
            last[each.message] = count + each.count, each.source
    served = evidence.pod_resources.allocatable or {}
    for message, (count, source) in sorted(last.items()):
        name = _NAME.search(message)
        if name and name[1] in served:  # it was let in since
            continue
        yield Seen(
            "The kubelet refused a plugin",
            (f"{source}: {message} ({count} times)",),
            resources=(name[1],) if name else (),
        )


def two_kubelets(evidence: Examined) -> Iterator[Seen]:
    if other := evidence.kubelet.other_root:
        yield Seen(
            "Two kubelets have their directories on this machine",
            (f"{evidence.kubelet.root}: this one", f"{other}: another one"),
        )


def _by(each: SocketSight) -> tuple[str, ...]:
    return (f"{each.path}: {each.by}",) if each.by else ()


def _of(each: SocketSight) -> str:
    return f" ({each.resource})" if each.resource else ""


def _resources(each: SocketSight) -> tuple[str, ...]:
    return (each.resource,) if each.resource else ()


CHECKS: Final = (
    Check(
        "PBD101",
        FindingSeverity.ERROR,
        "No kubelet has run here",
        "The directory in which kubelets meet device plugins does not exist, so no kubelet has started with this "
        "root. Distributions keep it at /var/lib/kubelet/device-plugins, whatever the kubelet's --root-dir.",
        "Start the kubelet, or tell where it lives: plugbay doctor --root DIR; in a pod, mount the host's root and "
        "give --host DIR.",
        (EvidenceSource.DIRECTORIES,),
        no_kubelet,
    ),
    Check(
        "PBD102",
        FindingSeverity.ERROR,
        "The kubelet does not take plugins",
        "The kubelet is not running, still starting, or its device manager has ended. Plugins wait, devices are not "
        "given out, and those that are in use stay in use.",
        "Look at it with systemctl status kubelet and journalctl -u kubelet, then start it: systemctl restart "
        "kubelet. For a node of plugbay: plugbay node status.",
        (EvidenceSource.DIRECTORIES, EvidenceSource.SOCKETS),
        kubelet_down,
    ),
    Check(
        "PBD103",
        FindingSeverity.WARNING,
        "A plugin's socket at which no process listens",
        "The plugin was killed or has crashed and has left its socket's file. The kubelet holds its devices for "
        "unhealthy, and forgets the resource after five minutes.",
        "Start the plugin again. The file can be removed; plugbay doctor --fix does so for sockets of plugbay's "
        "plugins.",
        (EvidenceSource.SOCKETS,),
        dead_sockets,
    ),
    Check(
        "PBD104",
        FindingSeverity.ERROR,
        "A plugin that has not registered since the kubelet restarted",
        "A kubelet removes all sockets from its directory when it starts. A plugin has to notice that, make its "
        "socket again and register again; this one still listens at a file that is gone, so its resource stays at 0. "
        "If the file is there, the registration was refused, or never made.",
        "Restart the plugin: kubectl rollout restart its DaemonSet, or delete its pod. A plugin that needs this after "
        "each restart of the kubelet has a fault: plugbay conform finds it.",
        (EvidenceSource.LISTENERS, EvidenceSource.SOCKETS, EvidenceSource.CHECKPOINT, EvidenceSource.POD_RESOURCES),
        lost_sockets,
    ),
    Check(
        "PBD105",
        FindingSeverity.WARNING,
        "A socket in plugins_registry at which no process listens",
        "A plugin or a CSI driver that registers by the plugin watcher has ended and left its socket. The kubelet "
        "dials it again and again, and logs each failure.",
        "Start the plugin again, or remove the file once you know whose it was.",
        (EvidenceSource.SOCKETS,),
        dead_registrants,
    ),
    Check(
        "PBD106",
        FindingSeverity.ERROR,
        "A plugin that does not answer",
        "The plugin's process accepts no calls: it is stopped, deadlocked or waits for its hardware. A kubelet sets "
        "no deadline for Allocate, so that one such plugin keeps every new pod of the node from starting.",
        "Restart the plugin. Its threads show where it waits: cat /proc/PID/task/*/wchan, or py-spy, gdb, SIGQUIT for "
        "Go.",
        (EvidenceSource.SOCKETS, EvidenceSource.ANSWERS),
        silent_plugins,
    ),
    Check(
        "PBD107",
        FindingSeverity.ERROR,
        "A path too long for a socket",
        "The kernel takes 107 bytes for the path of a unix socket. Longer ones cannot be bound, or are cut off "
        "silently.",
        "Move the kubelet's root to a shorter path, or give the plugin a shorter name for its socket.",
        (EvidenceSource.DIRECTORIES, EvidenceSource.SOCKETS),
        long_paths,
    ),
    Check(
        "PBD108",
        FindingSeverity.WARNING,
        "The plugins' directory is open to other users",
        "A process that may write there can take the place of a plugin, or register one, and so decides which device "
        "nodes and mounts containers get: it is root on the node.",
        "Take the rights from group and others: chmod go-w on the directory.",
        (EvidenceSource.DIRECTORIES, EvidenceSource.SOCKETS),
        open_directory,
    ),
    Check(
        "PBD109",
        FindingSeverity.WARNING,
        "The plugins' directory has a label that containers may not use",
        "SELinux is enforcing, and the directory's type is not container_file_t. The kubelet sets it when it starts; "
        "a restorecon, or a copy of the directory, undoes that. Plugins in containers cannot make their sockets.",
        "Set the label: chcon -t container_file_t on the directory, or restart the kubelet.",
        (EvidenceSource.DIRECTORIES, EvidenceSource.SECURITY),
        wrong_label,
    ),
    Check(
        "PBD110",
        FindingSeverity.WARNING,
        "A security module denied access",
        "SELinux or AppArmor has refused an access to the kubelet's directories or to CDI specs. The program that was "
        "refused shows an ordinary lack of permission.",
        "Read the line: it names the program and the file. Give the plugin's pod the type or the profile that it "
        "needs (securityContext.seLinuxOptions, appArmorProfile), or label the files.",
        (EvidenceSource.SECURITY,),
        denials,
    ),
    Check(
        "PBD111",
        FindingSeverity.WARNING,
        "Two plugins offer the same resource",
        "A kubelet knows one plugin for a resource, the one that registered last; kubelets before 1.37 lose both when "
        "the first one then ends. In a rolling update that lasts for seconds; else two DaemonSets, or a DaemonSet and "
        "a program on the host, serve the same devices.",
        "Stop one of them. If this is an update, look again after it.",
        (EvidenceSource.SOCKETS, EvidenceSource.ANSWERS),
        two_plugins,
    ),
    Check(
        "PBD112",
        FindingSeverity.WARNING,
        "The kubelet refused a plugin",
        "The kubelet answered a registration with an error: a name that is not a resource name, a version that it "
        "does not speak, or a socket at which it could not reach the plugin.",
        "The message says which. A name is DOMAIN/NAME with a domain that is not kubernetes.io; the version is "
        "v1beta1; the endpoint is the file name of a socket in the kubelet's directory.",
        (EvidenceSource.HAPPENINGS,),
        refusals,
    ),
    Check(
        "PBD113",
        FindingSeverity.INFO,
        "Two kubelets on one machine",
        "A stock kubelet and a node of plugbay each have a directory, and each its own plugins, devices and "
        "checkpoint. Both would give the same hardware to pods if a plugin served both.",
        "Look at the other one: plugbay doctor --root DIR. Serve each device to one of them.",
        (),
        two_kubelets,
    ),
)
