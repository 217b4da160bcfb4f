"""One resource of the generic plugin, served."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence

from plugbay.errors import AllocationError, HookFailed
from plugbay.model.assignments import Assignment
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import HEALTHY, Health, unhealthy
from plugbay.model.ids import DeviceId
from plugbay.ops.changes import Changes
from plugbay.plugins.generic.answers.answering import answer
from plugbay.plugins.generic.answers.shares import first_shares
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.serving.commanding import UnfilledCommand, command_environ, command_words
from plugbay.plugins.generic.serving.commands import run_command
from plugbay.plugins.generic.serving.health import checks_by
from plugbay.plugins.generic.serving.offers import GenericOffer, shape_of
from plugbay.plugins.generic.serving.surroundings import PluginSurroundings
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.author.release_settings import ReleasePolicy
from plugbay.sdk.hooks.calls import in_thread


class GenericPlugin(DevicePlugin):
    """The units of one resource; `offer` changes them while they are served.

    A plugin with release commands gives no device again before its command has succeeded.

    Attributes:
        shape: the part of the rules that cannot change while it is served.
        checked, released: count ends of commands of health checks and releases: ``ok``, ``failed``, ``late``.
    """

    def __init__(self, offer: GenericOffer, around: PluginSurroundings) -> None:
        self.resource_name = offer.resource
        self.shape = shape_of(offer.entry)
        self.checked = Counter[str]()
        self.released = Counter[str]()
        self._offer = offer
        self._around = around
        self._host_root = str(around.root).rstrip("/")
        self._first_shares = self._shares_of(offer)
        self._given: dict[DeviceId, Unit] = {}  # until they are released, as they may be gone by then
        self._unreleased: dict[DeviceId, Health] = {}
        self._changes = Changes()
        self._further_checks = tuple(
            checks_by(self.shape.health, self._unit_there, self._first_share_of, around, self.checked)
        )
        if self.shape.cdi_kind:
            self.cdi_kind = self.shape.cdi_kind
        if self.shape.prefers:
            self.preferred_allocation = self._preferred  # type: ignore[method-assign]  # `offers` looks for it
        if self.shape.releases:
            self.release_policy = ReleasePolicy.STRICT
            self.release = self._give_back  # type: ignore[method-assign]  # `offers` looks for it

    @property
    def offered(self) -> GenericOffer:
        return self._offer

    def offer(self, offer: GenericOffer) -> None:
        """Offer this from now on; from the event loop's thread."""
        if offer == self._offer:
            return
        self._offer = offer
        self._first_shares = self._shares_of(offer)
        self._changes.notify()

    def _shares_of(self, offer: GenericOffer) -> Mapping[DeviceId, DeviceId]:
        has_commands = self.shape.releases or any(rule.command is not None for rule in self.shape.health)
        return first_shares(offer.units) if has_commands else {}

    async def discover(self) -> AsyncIterator[list[Device]]:
        async for _ in self._changes:
            yield list(map(self._with_health, self._offer.devices.values()))

    def _with_health(self, device: Device) -> Device:
        unreleased = self._unreleased.get(self._device_behind(device), HEALTHY)
        return device.with_health(self._offer.ailing.get(device.id) or unreleased)

    def _device_behind(self, device: Device) -> DeviceId:
        return self._first_share_of(device.id) if self.shape.releases else device.id

    def _first_share_of(self, id: DeviceId) -> DeviceId:
        return self._first_shares.get(id, id)

    async def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        units = self._offer.units
        if gone := [device.id for device in devices if device.id not in units]:
            raise AllocationError(f"device {gone[0]} is not on the machine any more")
        granted = [(units[device.id], device) for device in devices]
        first = {id: units[id] for id in map(self._device_behind, devices)}
        has_cdi, root = bool(self.shape.cdi_kind), self._around.root
        edits: ContainerEdits = await in_thread(lambda: answer(granted, has_cdi=has_cdi, root=root))
        ids = [device.id for device in devices]
        if self.shape.releases:
            self._given |= first
        self._around.given.note(self._offer.resource, ids, asyncio.get_running_loop().time())
        return edits

    def _preferred(self, available: Sequence[Device], must_include: Sequence[Device], size: int) -> Sequence[Device]:
        # Imported here: a kubelet asks for it when the plugin has long been registered.
        from plugbay.plugins.generic.answers.preferring import preferred

        offer = self._offer
        return preferred(offer.units, offer.entry.prefers, available, must_include, size)

    def _unit_there(self, id: DeviceId) -> Unit | None:
        """The unit of a device, unless a look has found something wrong with it: then there is nothing to check."""
        return None if id in self._offer.ailing else self._offer.units.get(id)

    # --- giving back ------------------------------------------------------------------------------------------------

    async def _give_back(self, assignment: Assignment) -> None:
        """Run the release command of each device; a device whose command fails is unhealthy until it succeeds.

        The devices of ``assignment`` are those that no pod has a share of any longer.
        """
        problems = {id: problem for id in assignment.device_ids if (problem := await self._release(id, assignment))}
        before = self._unreleased
        self._unreleased = {id: health for id, health in before.items() if id not in assignment.device_ids}
        self._unreleased |= {id: unhealthy("ReleaseFailed", problem) for id, problem in problems.items()}
        if self._unreleased != before:
            self._changes.notify()
        for id in assignment.device_ids:
            if id not in problems:
                self._given.pop(id, None)
        if problems:
            raise HookFailed(self.resource_name, "release", list(problems), f"failed: {'; '.join(problems.values())}")

    async def _release(self, id: DeviceId, assignment: Assignment) -> str:
        """Run the command of a device; returns why it failed."""
        unit = self._offer.units.get(id) or self._given.get(id)
        if unit is None:
            return f"device {id} is not on the machine; its release command runs when it is back"
        if (rule := unit.group.release) is None:
            return ""
        words = command_words(rule, unit)
        if isinstance(words, UnfilledCommand):
            return words.problem
        environ = {**command_environ(unit, self._around.variables), "PLUGBAY_ASSIGNMENT": assignment.key}
        outcome = await run_command(words, environ=environ, timeout_s=rule.timeout_s)
        self.released[outcome.word] += 1
        said = f" ({outcome.said})" if outcome.said else ""
        return f"{words[0]} {outcome.problem}{said}" if outcome.problem else ""
