"""All that plugins have left on a node: sockets, CDI specs, journals. The kubelet's own files are not looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from plugbay.errors import CorruptCheckpoint, PathUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.assigned import assigned_by_checkpoint
from plugbay.sdk.cdi.spec_file import our_files, remove_unfinished
from plugbay.sdk.cdi.spec_turns import LOCK_NAME, SpecTurns
from plugbay.sdk.inspection.leftovers.journals import left_journals
from plugbay.sdk.inspection.leftovers.leftover import DomainSpecs, Leftover, unlinked
from plugbay.sdk.sockets import listening_sockets, our_sockets

_LIVES = "a plugin that runs has it"


def leftovers(
    paths: KubeletPaths,
    *,
    cdi_directory: Path,
    state_directory: Path,
    others: Sequence[KubeletPaths] = (),
    of_domains: Sequence[DomainSpecs] = (),
) -> Iterator[Leftover]:
    """Find what there is, in an order in which it can be removed: directories after what is in them.

    Args:
        others: further kubelets, whose pods may need the CDI specs as well: a spec does not say whose it is.
        of_domains: specs beside those whose names tell a resource.

    Raises:
        PathUnusable: a directory cannot be listed.
    """
    for directory in (paths.device_plugins, paths.plugins_registry):
        for path, resource, is_used in our_sockets(directory):
            needed = "a process listens there" if is_used else ""
            yield Leftover(path, f"socket of {resource}", needed, partial(_remove_socket, path))
    yield from _specs(cdi_directory, (paths, *others))
    for each in of_domains:
        yield from _specs_of_domain(each, cdi_directory, (paths, *others))
    try:
        yield from left_journals(state_directory)
    except OSError as error:
        raise PathUnusable(str(state_directory), f"cannot be listed: {error.strerror}") from error


def _remove_socket(path: Path) -> str:
    if any(path == each and is_used for each, _, is_used in our_sockets(path.parent)):
        return "a process listens there by now"
    return unlinked(path)


# --- CDI ------------------------------------------------------------------------------------------------------------


def _specs(directory: Path, kubelets: Sequence[KubeletPaths]) -> Iterator[Leftover]:
    assigned = _assigned(kubelets)
    are_held = False
    for path, resource, is_held in our_files(directory):
        are_held |= is_held
        needed = _LIVES if is_held else _pods_need(resource, assigned)
        yield Leftover(path, f"CDI spec of {resource}", needed, partial(_remove_spec, path, resource, kubelets))
    lock = directory / LOCK_NAME
    if lock.is_file() and not lock.is_symlink():
        yield Leftover(lock, "lock of CDI specs", _LIVES if are_held else "", partial(_remove_lock, lock))


def _specs_of_domain(specs: DomainSpecs, directory: Path, kubelets: Sequence[KubeletPaths]) -> Iterator[Leftover]:
    for name in specs.files:
        path = directory / name
        if path.is_file() and not path.is_symlink():
            what = f"CDI spec of {specs.domain}"
            yield Leftover(
                path, what, _domain_needed(specs, kubelets), partial(_remove_of_domain, path, specs, kubelets)
            )


def _domain_needed(specs: DomainSpecs, kubelets: Sequence[KubeletPaths]) -> str:
    """Why the specs of a domain have to stay. They are not locked, but the plugin that wrote them has sockets."""
    directories = (each for paths in kubelets for each in (paths.device_plugins, paths.plugins_registry))
    used = (path for each in directories for start in specs.sockets for path in listening_sockets(each, start))
    if (path := next(used, None)) is not None:
        return f"a plugin that runs may have it: a process listens at {path}"
    assigned = _assigned(kubelets)
    if isinstance(assigned, str):
        return _pods_need(ResourceName(specs.domain), assigned)
    of_domain = [each for each in assigned if each.partition("/")[0] == specs.domain]
    return next((why for each in of_domain if (why := _pods_need(each, assigned))), "")


def _remove_of_domain(path: Path, specs: DomainSpecs, kubelets: Sequence[KubeletPaths]) -> str:
    return _domain_needed(specs, kubelets) or unlinked(path)


def _assigned(kubelets: Sequence[KubeletPaths]) -> Mapping[ResourceName, Collection[DeviceId]] | str:
    """The devices that pods hold, or why that is not known."""
    assigned: dict[ResourceName, set[DeviceId]] = {}
    for paths in kubelets:
        try:
            for resource, ids in assigned_by_checkpoint(paths).items():
                assigned.setdefault(resource, set()).update(ids)
        except FileNotFoundError:
            continue  # a kubelet that has given nothing away
        except (OSError, CorruptCheckpoint) as error:
            return str(error)
    return assigned


def _pods_need(resource: ResourceName, assigned: Mapping[ResourceName, Collection[DeviceId]] | str) -> str:
    if isinstance(assigned, str):
        return f"pods may have its devices, which the kubelet's checkpoint would tell: {assigned}"
    if ids := assigned.get(resource):
        return f"pods have {', '.join(sorted(ids)[:5])}; an engine looks there when it restarts their containers"
    return ""


def _remove_spec(path: Path, resource: ResourceName, kubelets: Sequence[KubeletPaths]) -> str:
    with SpecTurns(path.parent).turn():  # no plugin takes it over meanwhile
        if any(path == each and is_held for each, _, is_held in our_files(path.parent)):
            return _LIVES
        return _pods_need(resource, _assigned(kubelets)) or unlinked(path)


def _remove_lock(lock: Path) -> str:
    """Remove what plugins were writing when they were killed, and then the lock, unless plugins need it."""
    turns = SpecTurns(lock.parent)
    remove_unfinished(lock.parent, turns)
    with turns.turn():
        if any(is_held for _, _, is_held in our_files(lock.parent)):
            return _LIVES
        return unlinked(lock)
