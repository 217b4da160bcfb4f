"""Uses of devices, and what a kubelet's checkpoint proves about them: pure.

A use is over when no checkpoint lists its devices any more: kubelets drop a pod's assignments only after its containers
have stopped. Three things break that rule:

* A pod may be taken from a kubelet by force: it drops the assignments, and stops the containers then. See `stopping`.

The others come with a restart of the kubelet:

* Its checkpoint may be lost or removed. Then containers run on with devices that the kubelet knows nothing of. So what
  began in an earlier life of the kubelet counts as absent only if it was listed in this life too, or if this kubelet
  is known to have what that life has written, handed on from each life to the next, or if the kubelet's directory of
  the pod is gone.
* It may refuse a pod that ran (spec 4.7), and drops its assignments seconds before it stops the containers.
  So for `SETTLE_S` after its start nothing from an earlier life counts as absent. Until it knows of all its pods,
  which takes it some seconds, it drops nothing (spec 4.12), so that needs no rule of its own.

Source: spec 4.7, 4.8, 4.12, 7.1; ``HandlePodAdditions`` and ``filterOutInactivePods`` of kubelet 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from enum import Enum
from typing import Final

from plugbay.model.assignments import Assignment, AssignmentKey, Origin, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.values import dataclass

SETTLE_S: Final = 60.0
"""A refused pod's containers are stopped after some 2 s, and have 30 s by default to end."""
GRACE_S: Final = 10.0
"""A kubelet stores an assignment milliseconds after our answer."""
ENOUGH_ABSENCES: Final = 2
"""Writers of a checkpoint can overtake each other (spec 7.1): one reading may be older than it looks."""
NO_POD: Final = PodUid("")
"""The pod is not known yet."""


@dataclass(frozen=True, slots=True)
class KubeletLife:
    """One life of a kubelet.

    Attributes:
        id: changes with every start.
        since: when it was first seen, in seconds since the machine started.
        heir_of: earlier lives whose checkpoint it is known to have begun with; only those that some use knows of.
        store: names the store of its assignments, if it says so; our own manager does.
    """

    id: str
    since: float
    heir_of: frozenset[str] = frozenset()
    store: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A checkpoint that was written after it was asked for.

    Attributes:
        at: when, in seconds since the machine started.
        listed: the holders of the devices of one resource.
        gone: pods known to be gone because the kubelet has no directory for them any more.
        going_on: uses whose pods had containers even after that.
    """

    at: float
    life: KubeletLife
    listed: Mapping[DeviceId, frozenset[tuple[PodUid, ContainerName]]]
    gone: frozenset[PodUid] = frozenset()
    going_on: frozenset[AssignmentKey] = frozenset()


class UsePhase(Enum):
    """The phase of a use."""

    ALLOCATING = "allocating"
    """No kubelet was told yet that the devices were allocated; if none ever is, no pod uses them."""
    OPEN = "open"
    RELEASING = "releasing"
    """The use is over; that is final."""


class Proof(Enum):
    """The verdict of a reading on a use."""

    LISTED = "listed"
    ABSENT = "absent"
    UNPROVEN = "unproven"
    """The use is not listed, but that may have other reasons than its end."""
    CONTRADICTORY = "contradictory"
    """Some of its devices are listed, and just the wanted ones are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Devices from the Allocate that gave them to their release.

    Attributes:
        units: as the kubelet names them, each with the device behind it.
        since: when they were given, in seconds since the machine started; until then, when they were asked for.
        life: the life of the kubelet they were given to.
        seen_in: the life in which a reading listed them last; empty if none ever has.
        pod: the pod that had them in that reading.
        started: those that a container has which was started and not post-stopped.
        stops: so many containers that had them were post-stopped.
        absences: so many readings in a row had them absent.
        origin: tells how it is known that the use is over.
        is_overtaken: whether its units were given to others before its end was known, as lazy plugins do. It stays
            until it is over as any other; the devices are not released before.
    """

    key: AssignmentKey
    resource: ResourceName
    units: Mapping[DeviceId, DeviceId]
    since: float
    life: str
    phase: UsePhase = UsePhase.ALLOCATING
    seen_in: str = ""
    pod: PodUid = NO_POD
    owners: tuple[Owner, ...] = ()
    started: frozenset[DeviceId] = frozenset()
    stops: int = 0
    absences: int = 0
    origin: Origin | None = None
    is_overtaken: bool = False

    def assignment(self, units: Collection[DeviceId] | None = None) -> Assignment:
        """The use as the author sees it; some of the ``units`` only, if given."""
        chosen = tuple(unit for unit in self.units if units is None or unit in units)
        return Assignment(
            key=self.key,
            resource=self.resource,
            device_ids=tuple(dict.fromkeys(self.units[unit] for unit in chosen)),
            units=chosen,
            owners=self.owners,
            origin=self.origin,
        )

    def stop_of(self, units: Collection[DeviceId], origin: Origin) -> Assignment:
        """The argument of `post_stop` when a container that had ``units`` has ended; each such end has its own key."""
        key = AssignmentKey(f"{self.key}.{self.stops + 1}")
        return replace(self.assignment(units), key=key, origin=origin)

    def is_twin_of(self, other: Use) -> bool:
        """Whether both, overtaken and never seen, are proven over by the same: one of them is enough to remember."""
        same = self.units.keys() == other.units.keys() and self.life == other.life and self.phase is other.phase
        return same and not (self.pod or other.pod)

    def without(self, units: Collection[DeviceId]) -> Use | None:
        """The rest of it when others have taken ``units``; None if there is none."""
        left = {unit: device for unit, device in self.units.items() if unit not in units}
        return replace(self, units=left, started=self.started.difference(units)) if left else None


def find(use: Use, reading: Reading, wanted: Collection[DeviceId] | None = None) -> Proof:
    """The verdict of ``reading`` on ``use``, or on its ``wanted`` devices; the use is over only as a whole."""
    listed = _listed(use, reading)
    if listed and use.is_overtaken:
        return Proof.LISTED
    if listed:
        asked = listed if wanted is None else use.units.keys() & set(wanted)
        return Proof.LISTED if listed >= asked else Proof.CONTRADICTORY
    return Proof.UNPROVEN if doubt(use, reading) else Proof.ABSENT


def _listed(use: Use, reading: Reading) -> Set[DeviceId]:
    """The units of ``use`` that its pod has; of an overtaken one whose pod is unknown, those that any pod has."""
    listed = use.units.keys() & reading.listed.keys()
    if not use.is_overtaken or not use.pod:
        return listed
    return {unit for unit in listed if any(pod == use.pod for pod, _ in reading.listed[unit])}


def doubt(use: Use, reading: Reading) -> str:
    """Why ``use``, which ``reading`` does not list, may be going on nevertheless; empty if it cannot."""
    if is_being_stopped(use, reading):
        return "the kubelet gave its pod up, and has not stopped the containers yet"
    return _doubt_since_restart(use, reading)


def is_being_stopped(use: Use, reading: Reading) -> bool:
    """Whether the kubelet, which knew of ``use``, has dropped it before its containers have ended."""
    return use.key in reading.going_on and not _doubt_since_restart(use, reading)


def _doubt_since_restart(use: Use, reading: Reading) -> str:
    life = reading.life
    if use.life == life.id or (use.pod and use.pod in reading.gone):
        return ""
    if (age_s := reading.at - life.since) < SETTLE_S:
        return (
            f"the kubelet started {age_s:.0f} s ago, and containers of pods that it refused may still be stopping; "
            f"that is over after {SETTLE_S:.0f} s"
        )
    if use.seen_in == life.id or not life.heir_of.isdisjoint(lives_of(use)):
        return ""
    return "the kubelet has restarted since the devices were given, and nothing shows that its checkpoint survived"


def doubt_beside(use: Use, reading: Reading, holder: PodUid) -> str:
    """Why ``use``, which was overtaken, may go on in another pod than ``holder``, which has its units by now.

    Empty if it cannot: the use is over, or belongs to that pod too, as an init container's does.
    """
    if any(pod != holder for unit in use.units for pod, _ in reading.listed.get(unit, ())):
        return "the kubelet's checkpoint lists them in two pods"
    return "" if use.pod == holder else doubt(use, reading)


def is_soon_told(use: Use, reading: Reading) -> bool:
    """Whether a later reading is about to tell more of ``use``, which this one does not list."""
    return use.key in reading.going_on or reading.at - reading.life.since < SETTLE_S


def lives_of(use: Use) -> frozenset[str]:
    """The lives of the kubelet that are known to have listed ``use``, or to have asked for it."""
    return frozenset({use.life, use.seen_in or use.life})


def after(use: Use, reading: Reading) -> Use:
    """Return ``use`` with what ``reading`` says of it."""
    match find(use, reading):
        case Proof.LISTED if use.is_overtaken:  # if its pod is unknown it may be another one that is listed
            return replace(use, seen_in=reading.life.id if use.pod else use.seen_in, absences=0)
        case Proof.LISTED | Proof.CONTRADICTORY:
            holders = sorted(set().union(*(reading.listed.get(unit, ()) for unit in use.units)))
            pods = {pod for pod, _ in holders}
            pod = use.pod if use.pod in pods or not pods else min(pods)
            owners = _of_pod(use.owners, pod) or _owners(holders)
            return replace(use, seen_in=reading.life.id, pod=pod, owners=owners, absences=0)
        case Proof.ABSENT if use.seen_in or reading.at - use.since >= GRACE_S:
            return replace(use, absences=use.absences + 1)
        case _:
            return use if not use.absences else replace(use, absences=0)


def is_over(use: Use) -> bool:
    """Whether enough readings have shown that the use is over."""
    return use.phase is UsePhase.OPEN and use.absences >= ENOUGH_ABSENCES


def _of_pod(owners: tuple[Owner, ...], pod: PodUid) -> tuple[Owner, ...]:
    """Return ``owners`` with the UID of ``pod``, which PodResources did not tell; none if they are of another pod."""
    if any(owner.uid not in ("", pod) for owner in owners):
        return ()
    return tuple(replace(owner, uid=pod) for owner in owners)


def _owners(holders: Iterable[tuple[PodUid, ContainerName]]) -> tuple[Owner, ...]:
    return tuple(Owner(uid=pod, container=container) for pod, container in holders if pod)
