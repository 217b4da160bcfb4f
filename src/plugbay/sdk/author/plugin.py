"""A plugin as its author writes it: a class, or a function that finds devices."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from plugbay.errors import InvalidDevice, InvalidPlugin
from plugbay.errors.wording import shown
from plugbay.model.assignments import Assignment
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits, merge_devices
from plugbay.model.ids import DeviceId, ResourceName, parse_resource_name
from plugbay.sdk.author.cdi_answers import CdiAnswer
from plugbay.sdk.author.checks import HealthCheck, checks_of
from plugbay.sdk.author.modes import Modes
from plugbay.sdk.author.occasions import check_occasions
from plugbay.sdk.author.release_settings import ReleasePolicy, ReleaseSource

if TYPE_CHECKING:
    from pathlib import Path

    from plugbay.sdk.author.needs import Need

Discovered = Iterable[Device] | AsyncIterable[Device] | AsyncIterable[Iterable[Device]] | Awaitable[Iterable[Device]]
"""Devices, however they come: a list, a generator, an async generator of devices or of whole lists, or a coroutine."""

Watched = str | PathLike[str] | Sequence[str | PathLike[str]]
"""One path or several."""


class DevicePlugin:
    """One resource and its devices. Subclass it, name the resource, and say what is there.

    Every method may be plain or ``async``; plain ones run in a thread, so they may block. Overriding an optional hook
    is what makes the kubelet call it. Exceptions from hooks reach the kubelet as the text of a failed call. Methods
    marked with `health` check the devices.

    Attributes:
        resource_name: ``vendor-domain/type``.
        watch: paths whose changes make `discover` run again; they need not exist.
        watch_uevents: events of the kernel that make `discover` run again, such as ``{"SUBSYSTEM": "tty"}``: properties
            and shell patterns for their values, all of which have to match. Several mappings are alternatives.
        every: seconds, or a text such as ``30s``, between runs of `discover` when nothing changes; None for never.
        modes: the resources that share their hardware with this one; one of them uses it at a time.
        join_env: what joins the values of one variable when a container gets several devices; None takes equal
            values once and makes differing ones an error.
        release_policy: for a plugin with `release`: what to do with an Allocate while it is not known whether the
            devices' last pod is gone.
        cdi_kind: ``vendor/class``, to have the devices described in a CDI spec of that kind and given by name; they
            can have everything but annotations then.
        cdi_answer: how Allocate tells of devices that have a CDI kind.
        check_paths: whether a device is unhealthy while a path of the host that it names does not exist. The plugin has
            to see the host's paths where the host has them; otherwise such paths are only logged.
        needs: the rights on its node that nothing else about the plugin shows, for ``plugbay manifest``.
    """

    resource_name: str = ""
    watch: Watched = ()
    watch_uevents: Mapping[str, str] | Sequence[Mapping[str, str]] = ()
    every: float | str | None = None
    modes: Modes | None = None
    join_env: str | None = ","
    release_policy: ReleasePolicy = ReleasePolicy.LAZY
    cdi_kind: str | None = None
    cdi_answer: CdiAnswer = CdiAnswer.NAMES
    check_paths: bool = False
    needs: Sequence[Need] = ()

    def set_up(self) -> Awaitable[None] | None:
        """Called before anything else, once for each time the plugin is served: load firmware, open a library.

        It may take long; if it raises, it is called again later, after growing delays.
        """
        return None

    def tear_down(self) -> Awaitable[None] | None:
        """Called after the streams to the kubelet have ended, if `set_up` had succeeded; within 10 s."""
        return None

    def discover(self) -> Discovered:
        """All devices there are now, each ID once. Called at start, when what is watched changes, and on SIGHUP.

        An async generator may yield lists instead of devices: each is all there are now, and it goes on as long as
        the plugin is served. If it raises or ends, the last devices stay and it is called again later. A missing
        watched path means no devices.
        """
        raise InvalidPlugin(self.resource_name, "it has no discover()")

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits | Awaitable[ContainerEdits]:
        """Say what a container gets with ``devices``, which come in the order of their IDs.

        By default, what each device declares, merged by `merge_devices`.
        """
        return merge_devices((device.edits for device in devices), join_env=self.join_env)

    def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device] | Awaitable[Sequence[Device]]:
        """Optional hook: the best ``size`` of the ``available`` devices, all of ``must_include`` among them."""
        raise NotImplementedError

    def pre_start_container(self, devices: Sequence[Device]) -> Awaitable[None] | None:
        """Optional hook: called before each start of a container that holds ``devices``, within 30 s."""
        raise NotImplementedError

    def post_stop(self, assignment: Assignment) -> Awaitable[None] | None:
        """Optional hook: a container that had the devices has ended, and its pod goes on; within 30 s.

        A kubelet does not tell: there it is called when the next container is about to start, or before `release`.
        """
        raise NotImplementedError

    def release(self, assignment: Assignment) -> Awaitable[None] | None:
        """Optional hook: no pod has the devices any longer, and none gets them before this returns; within 30 s.

        A kubelet does not report it: there the end is concluded from its checkpoint, which ``assignment.origin`` says.
        Called again when it raised or took too long, and perhaps after a restart although it had succeeded: act once
        per ``assignment.key``, or so that twice does no harm. Devices may be gone by now. A device with replicas is
        released when no pod has a share of it any longer. Raise `CannotRelease` for what will never work.
        """
        raise NotImplementedError

    def refresh(self) -> None:
        """Ask for another run of `discover` soon, from any thread; while the plugin is not served, nothing happens."""
        if self._ask_refresh is not None:
            self._ask_refresh()

    _ask_refresh: Callable[[], object] | None = None
    """The function that starts a run of ``discover``; set while the plugin is served, see `bind_refresh`."""
    _host_root = ""
    """The directory below which the process sees the host's files, for plugins that are told one other than ``/``."""
    _further_checks: Sequence[Callable[..., Any]] = ()
    """The checks that are not methods, for plugins whose checks an operator's rules make."""

    def _device_behind(self, device: Device) -> DeviceId:
        """The device that this one is a share of, for plugins that list shares as devices: the last one releases it."""
        return device.id

    def __getstate__(self) -> dict[str, Any]:
        """The state for an isolated health check, which works on a copy in another process."""
        return {name: value for name, value in vars(self).items() if name not in ("_ask_refresh", "modes")}


def plugin(
    resource_name: str,
    *,
    watch: Watched = (),
    watch_uevents: Mapping[str, str] | Sequence[Mapping[str, str]] = (),
    every: float | str | None = None,
    join_env: str | None = ",",
    health: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    preferred_allocation: Callable[[Sequence[Device], Sequence[Device], int], Sequence[Device]] | None = None,
    cdi_kind: str | None = None,
    cdi_answer: CdiAnswer = CdiAnswer.NAMES,
    check_paths: bool = False,
    needs: Sequence[Need] = (),
) -> Callable[[Callable[..., Any]], DevicePlugin]:
    """Make a plugin of a function that returns or yields devices.

    A function with a parameter is handed the watched path, or the list of them if there are several.

    Args:
        health: functions marked with ``@health(...)`` that check the devices; one or several.
        preferred_allocation: a policy, such as `plugbay.allocation.policies.same_numa`.

    Raises:
        InvalidResourceName: no kubelet would accept the name.
        InvalidHealthCheck: what ``health`` names is not a check.
        InvalidPlugin: the name is missing, or ``watch`` or ``every`` is of no use.
    """
    if callable(resource_name):  # @plugin alone
        name = getattr(resource_name, "__name__", "the function")
        raise InvalidPlugin(name, 'write @plugin("vendor.domain/type"), with the name of the resource')
    parse_resource_name(resource_name)
    check_occasions(resource_name, watch=watch, every=every)
    checks = (health,) if callable(health) else tuple(health)

    def decorate(function: Callable[..., Any]) -> DevicePlugin:
        made = _FunctionPlugin(function, resource_name, watch=watch, every=every, join_env=join_env, checks=checks)
        made.watch_uevents = watch_uevents
        made.cdi_kind, made.cdi_answer = cdi_kind, cdi_answer
        made.check_paths = check_paths
        made.needs = needs
        if preferred_allocation is not None:
            made.preferred_allocation = preferred_allocation  # type: ignore[assignment]  # `offers` looks for it
        health_checks(made)  # to be refused here, where they are written
        return made

    return decorate


class _FunctionPlugin(DevicePlugin):
    def __init__(
        self,
        function: Callable[..., Any],
        resource_name: str,
        *,
        watch: Watched,
        every: float | str | None,
        join_env: str | None,
        checks: tuple[Callable[..., Any], ...],
    ) -> None:
        self._function = function
        self.resource_name = resource_name
        self.watch = watch
        self.every = every
        self.join_env = join_env
        self._further_checks = checks
        self.__doc__ = function.__doc__

    def discover(self) -> Discovered:
        return call_with_paths(self._function, watched_paths(self))  # type: ignore[no-any-return]  # its caller checks it


def discover_function(plugin: DevicePlugin) -> Callable[..., Any]:
    """The function or method that the author wrote to look for devices."""
    return plugin._function if isinstance(plugin, _FunctionPlugin) else plugin.discover


_OPTIONAL_HOOKS: Final = ("pre_start_container", "preferred_allocation", "post_stop", "release")


def offers(plugin: DevicePlugin, hook: str) -> bool:
    """Whether the author wrote the optional ``hook``."""
    assert hook in _OPTIONAL_HOOKS
    return hook in vars(plugin) or getattr(type(plugin), hook) is not getattr(DevicePlugin, hook)


def options_of(plugin: DevicePlugin, source: ReleaseSource = ReleaseSource.AUTO) -> PluginOptions:
    """The calls that the plugin wants, if ``source`` says that a use is over."""
    # A kubelet that never calls PostStopContainer tells by PreStartContainer that an earlier container has ended.
    wants_starts = offers(plugin, "post_stop") and source.reads_checkpoints
    return PluginOptions(
        pre_start_required=offers(plugin, "pre_start_container") or wants_starts,
        get_preferred_allocation_available=offers(plugin, "preferred_allocation"),
        post_stop_required=source.takes_calls and offers(plugin, "post_stop"),
        deallocate_required=source.takes_calls and gives_back(plugin),
    )


def gives_back(plugin: DevicePlugin) -> bool:
    """Whether there is something to do when devices are in use no longer."""
    return plugin.modes is not None or offers(plugin, "release")


def health_checks(plugin: DevicePlugin) -> tuple[HealthCheck, ...]:
    """The plugin's checks, those that are not methods included.

    Raises:
        InvalidHealthCheck: one takes other parameters than a check does, or is not marked.
    """
    return checks_of(plugin, plugin._further_checks)


def resource_of(plugin: DevicePlugin) -> ResourceName:
    """The plugin's resource name, checked."""
    return parse_resource_name(plugin.resource_name)


def bind_refresh(plugin: DevicePlugin, ask: Callable[[], object] | None) -> None:
    """Say what ``plugin.refresh()`` does from now on; the server of the plugin calls this."""
    plugin._ask_refresh = ask


def watched_paths(plugin: DevicePlugin) -> tuple[Path, ...]:
    return as_paths(plugin.watch)


def as_paths(watch: Watched) -> tuple[Path, ...]:
    """The paths that an author gave as ``watch``."""
    from pathlib import Path  # a worker, which watches nothing, is smaller without it

    return (Path(watch),) if isinstance(watch, str | PathLike) else tuple(map(Path, watch))


def call_with_paths(function: Callable[..., Any], paths: Sequence[Path]) -> Any:
    """Call an author's function; one with a parameter gets the path, or the list of paths if they are several."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_argcount == 0:
        return function()
    return function(paths[0] if len(paths) == 1 else list(paths))


def checked(device: object) -> Device:
    """Return ``device`` if it is a device: authors return all kinds of things.

    Raises:
        InvalidDevice: it is something else.
    """
    if not isinstance(device, Device):
        raise InvalidDevice(shown(device), "discover() has to give plugbay.Device values")
    return device
