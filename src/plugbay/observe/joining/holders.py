"""Join the claims on devices to holders, and keep what contradicts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from plugbay.observe.evidence import KnownPod, NodeEvidence
from plugbay.observe.joining.claims import (
    DeviceClaim,
    DeviceClaims,
    DeviceKey,
    PodKey,
    claims_of_checkpoint,
    claims_of_node,
    claims_of_pods,
    containers_of,
    learned_names,
)
from plugbay.observe.view import DeviceHolder, Witness
from plugbay.printers import v1
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class HeldBy:
    """The holders of one device, and what sources say against each other."""

    holders: tuple[DeviceHolder, ...] = ()
    disagreements: tuple[str, ...] = ()


def joined_holders(evidence: NodeEvidence) -> dict[DeviceKey, HeldBy]:
    """The holders of every device that a source claims to be held."""
    return _Joining(evidence).all()


class _Joining:
    def __init__(self, evidence: NodeEvidence) -> None:
        self._evidence = evidence
        self._checkpoint = claims_of_checkpoint(evidence)
        self._pods = claims_of_pods(evidence)
        self._node = claims_of_node(evidence)
        self._learned = {**learned_names(self._checkpoint, self._pods), **_named_by(self._node)}
        self._containers = containers_of(evidence)
        self._people = _People(evidence)

    def all(self) -> dict[DeviceKey, HeldBy]:
        return {key: self._held(key) for key in {**self._checkpoint, **self._pods, **self._node}}

    def _held(self, key: DeviceKey) -> HeldBy:
        found = _Found(self._people)
        for claim in self._node.get(key, ()):
            found.add(claim, Witness.NODE)
        for claim in sorted(self._pods.get(key, ())):
            self._take_from_pods(found, claim)
        for claim in sorted(self._checkpoint.get(key, ())):
            self._take_from_checkpoint(found, self._with_name(claim))
        self._miss_in_checkpoint(found)
        return found.result()

    def _with_name(self, claim: DeviceClaim) -> DeviceClaim:
        return claim if claim.pod else claim._replace(pod=self._learned.get(claim.uid, ()))

    def _take_from_pods(self, found: _Found, claim: DeviceClaim) -> None:
        """A node of ours knows better: what else is listed is of another moment."""
        if not found.confirm(claim, Witness.POD_RESOURCES):
            if found.says(Witness.NODE):
                found.disagree(f"PodResources gives it to {shown_claim(claim)}")
            else:
                found.add(claim, Witness.POD_RESOURCES)

    def _take_from_checkpoint(self, found: _Found, claim: DeviceClaim) -> None:
        if found.confirm(claim, Witness.CHECKPOINT):
            return
        if self._is_live_unknown(claim) or self._may_be_init(claim):
            found.add(claim, Witness.CHECKPOINT)
        elif not claim.pod and not found.is_live:
            found.add(claim, Witness.CHECKPOINT)
            found.disagree(
                f"only the checkpoint gives it to {shown_claim(claim)}: an init container, or a pod that has ended"
            )
        else:
            found.disagree(f"the checkpoint still gives it to {shown_claim(claim)}")

    def _is_live_unknown(self, claim: DeviceClaim) -> bool:
        if self._evidence.only_pod is not None and claim.pod != self._evidence.only_pod:
            return self._evidence.node is None
        return self._evidence.pods is None and self._evidence.node is None

    def _may_be_init(self, claim: DeviceClaim) -> bool:
        """Whether the pod is there, and PodResources, which leaves init containers out, does not list the container."""
        return bool(claim.pod and claim.container not in self._containers.get(claim.pod, (claim.container,)))

    def _miss_in_checkpoint(self, found: _Found) -> None:
        if self._evidence.checkpoint.entries is None or not self._evidence.checkpoint.file.is_valid:
            return
        if found.holders and not found.says(Witness.CHECKPOINT) and not found.disagreements:
            found.disagree("the checkpoint does not say that it is held")


class _Found:
    """The holders of one device, as they are found."""

    def __init__(self, people: _People) -> None:
        self._people = people
        self.holders: list[tuple[DeviceClaim, set[Witness]]] = []
        self.disagreements: list[str] = []

    def add(self, claim: DeviceClaim, witness: Witness) -> None:
        self.holders.append((claim, {witness}))

    def confirm(self, claim: DeviceClaim, witness: Witness) -> bool:
        """Whether another source has named this container; then both did."""
        for number, (known, witnesses) in enumerate(self.holders):
            if is_same(known, claim):
                merged = DeviceClaim(claim.container, known.pod or claim.pod, known.uid or claim.uid)
                self.holders[number] = merged, witnesses | {witness}
                return True
        return False

    def says(self, witness: Witness) -> bool:
        return any(witness in witnesses for _, witnesses in self.holders)

    @property
    def is_live(self) -> bool:
        """Whether a source that was asked now names a holder."""
        return self.says(Witness.NODE) or self.says(Witness.POD_RESOURCES)

    def disagree(self, sentence: str) -> None:
        self.disagreements.append(sentence)

    def result(self) -> HeldBy:
        holders = [self._people.holder(claim, frozenset(witnesses)) for claim, witnesses in self.holders]
        ordered = sorted(holders, key=lambda each: (each.namespace, each.pod, each.uid, each.container))
        return HeldBy(tuple(ordered), tuple(sorted(dict.fromkeys(self.disagreements))))


@dataclass(slots=True)
class _People:
    """Facts about pods, by UID and by name; holders that are alike are one value."""

    evidence: NodeEvidence
    _by_name: dict[PodKey, str] = field(default_factory=dict, init=False)
    _told: dict[str, KnownPod] = field(default_factory=dict, init=False)
    _made: dict[tuple[DeviceClaim, frozenset[Witness]], DeviceHolder] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._told = pods_of_node(self.evidence)
        uids: dict[PodKey, list[str]] = {}
        for uid, pod in {**self.evidence.known_pods, **self._told}.items():
            uids.setdefault((pod.namespace, pod.name), []).append(uid)
        self._by_name = {name: found[0] for name, found in uids.items() if len(found) == 1 and name[1]}

    def holder(self, claim: DeviceClaim, witnesses: frozenset[Witness]) -> DeviceHolder:
        made = self._made.get((claim, witnesses))
        if made is None:
            made = self._made[claim, witnesses] = self._holder(claim, witnesses)
        return made

    def _holder(self, claim: DeviceClaim, witnesses: frozenset[Witness]) -> DeviceHolder:
        uid = claim.uid or (self._by_name.get(claim.pod, "") if claim.pod else "")
        told, known = self._told.get(uid, KnownPod()), self.evidence.known_pods.get(uid, KnownPod())
        namespace, name = claim.pod or ("", "")
        return DeviceHolder(
            container=claim.container,
            pod=name,
            namespace=namespace,
            uid=uid,
            since=told.since or known.since,
            requested_by=told.requested_by or known.requested_by,
            witnesses=witnesses,
        )


def pods_of_node(evidence: NodeEvidence) -> dict[str, KnownPod]:
    """The pods that hold devices on our own node, by UID."""
    return {
        v1.text(pod, "uid"): KnownPod(
            namespace=v1.text(pod, "namespace"),
            name=v1.text(pod, "name"),
            since=v1.moment(pod, "since"),
            requested_by=v1.text(pod, "requestedBy"),
        )
        for pod in v1.objects(evidence.node, "pods")
    }


def is_same(one: DeviceClaim, other: DeviceClaim) -> bool:
    """Whether two claims are about one container, by all that both know."""
    if one.container != other.container:
        return False
    if one.uid and other.uid:
        return one.uid == other.uid
    return one.pod == other.pod if one.pod and other.pod else False


def shown_claim(claim: DeviceClaim) -> str:
    return "/".join((*(claim.pod or (claim.uid,)), claim.container))


def _named_by(node: DeviceClaims) -> Mapping[str, PodKey]:
    claims: Iterable[Sequence[DeviceClaim]] = node.values()
    return {claim.uid: claim.pod for listed in claims for claim in listed if claim.uid and claim.pod}
