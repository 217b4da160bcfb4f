"""The next steps for a Deployment. Pure.

Source: Kubernetes 1.36 ``pkg/controller/deployment/{deployment_controller,sync,rolling,recreate}.go``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.owners import owners_to_v1
from plugbay.node.controllers.actions import (
    APPS,
    Action,
    Children,
    ControlPlan,
    CreateObject,
    DeleteObject,
    ReplaceObject,
    Tell,
)
from plugbay.node.controllers.deployments.proportion import shares
from plugbay.node.controllers.deployments.revisions import with_new_revision, with_revision
from plugbay.node.controllers.deployments.seen import (
    DESIRED,
    KIND,
    MOST,
    SeenDeployment,
    SeenReplicaSet,
    newest_of,
    same_template,
)
from plugbay.node.controllers.templates import HASH_LABEL, controller_reference, template_hash, with_labels
from plugbay.printers import v1

SETS: Final = "replicasets"


def deployment_plan(value: Json, children: Children, now: datetime) -> ControlPlan:
    """Adopt and release ReplicaSets, then go one step towards the template and the number of pods that are wanted."""
    if v1.at(value, "metadata", "deletionTimestamp"):
        return ControlPlan()
    rollout = _Rollout(SeenDeployment(value), children)
    rollout.claim()
    rollout.step()
    return ControlPlan(rollout.actions)


class _Rollout:
    """One step of a Deployment. The ReplicaSets are as they will be after the actions so far."""

    def __init__(self, deployment: SeenDeployment, children: Children) -> None:
        self.actions: list[Action] = []
        self._deployment = deployment
        self._children = children
        self._owner = controller_reference(APPS, KIND, deployment.value)
        self._sets = deployment.owned(children.stored.get(SETS, ()))

    def claim(self) -> None:
        claim = self._deployment.claim
        seen = [SeenReplicaSet(each) for each in self._children.stored.get(SETS, ())]
        for each in claim.adoptable(seen):
            owned = _with_metadata(each.value, ownerReferences=owners_to_v1([*each.owners, self._owner]))
            self._put(SeenReplicaSet(owned))
        for each in claim.released(seen):
            left = owners_to_v1([owner for owner in each.owners if owner.uid != claim.uid])
            self.actions.append(ReplaceObject(SETS, _with_metadata(each.value, ownerReferences=left)))

    def step(self) -> None:
        deployment = self._deployment
        if deployment.is_paused or self._is_scaling():
            self._number(self._new)
            self._scale()
            if deployment.is_paused:
                self._forget_history()
        elif deployment.is_rolling:
            self._roll()
        else:
            self._recreate()

    # --- the ReplicaSets ------------------------------------------------------------------------------------------

    @property
    def _new(self) -> SeenReplicaSet | None:
        return newest_of(self._deployment, self._sets)

    @property
    def _old(self) -> list[SeenReplicaSet]:
        new = self._new
        return [each for each in self._sets if new is None or each.name != new.name]

    def _put(self, changed: SeenReplicaSet) -> None:
        """Take in a changed ReplicaSet; of several changes only the last is made."""
        earlier = [each for each in self._sets if each.name == changed.name]
        self._sets = [changed if each.name == changed.name else each for each in self._sets]
        superseded = [ReplaceObject(SETS, each.value) for each in earlier]
        self.actions = [each for each in self.actions if each not in superseded]
        self.actions.append(ReplaceObject(SETS, changed.value))

    def _number(self, new: SeenReplicaSet | None) -> None:
        """Give the newest ReplicaSet its revision and the annotations, and the Deployment the revision."""
        if new is None:
            return
        numbered = with_new_revision(new, self._deployment, max((each.revision for each in self._old), default=0))
        if numbered != new:
            self._put(numbered)
        self._note_revision(numbered)

    def _note_revision(self, new: SeenReplicaSet) -> None:
        changed = with_revision(self._deployment, new.revision)
        if changed != self._deployment:
            self._deployment = changed
            self.actions.append(ReplaceObject("deployments", changed.value))

    def _newest(self) -> SeenReplicaSet | None:
        """The ReplicaSet of the template, made if need be; None while its name is taken."""
        if (new := self._new) is not None:
            self._number(new)
            return self._new
        made = self._made()
        if any(v1.name(each) == made.name for each in self._children.stored.get(SETS, ())):
            return None  # the count of collisions goes up in the status, and with it the name changes
        self._sets.append(made)
        self.actions.append(CreateObject(SETS, made.value))
        if made.replicas:
            self._tell("up", made, 0, made.replicas)
        self._note_revision(made)
        return made

    def _made(self) -> SeenReplicaSet:
        deployment = self._deployment
        digest = template_hash(deployment.template, deployment.collisions)
        template = with_labels(deployment.template, {HASH_LABEL: digest})
        selector = v1.mapping(deployment.value, "spec", "selector")
        exact = {**v1.mapping(selector, "matchLabels"), HASH_LABEL: digest}
        spec: Json = {
            "replicas": self._size_of_new(0),
            "selector": {**selector, "matchLabels": exact},
            "template": template,
        }
        if deployment.min_ready_s:
            spec["minReadySeconds"] = deployment.min_ready_s
        metadata: Json = {
            "name": f"{deployment.name}-{digest}",
            "namespace": v1.namespace(deployment.value),
            "labels": v1.mapping(template, "metadata", "labels"),
            "annotations": self._sizes(),
            "ownerReferences": owners_to_v1([self._owner]),
        }
        made: Json = {"apiVersion": APPS, "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        newest = max((each.revision for each in self._old), default=0)
        return with_new_revision(SeenReplicaSet(made), deployment, newest)

    def _sizes(self) -> dict[str, str]:
        wanted = self._deployment.replicas
        return {DESIRED: str(wanted), MOST: str(wanted + self._deployment.max_surge)}

    # --- their sizes ----------------------------------------------------------------------------------------------

    def _size(self, one: SeenReplicaSet, replicas: int) -> bool:
        """Let a ReplicaSet have so many pods; whether that is news."""
        annotations = {**one.annotations, **self._sizes()}
        if one.replicas == replicas and annotations == one.annotations:
            return False
        value = _with_metadata(one.value, annotations=annotations)
        changed = SeenReplicaSet({**value, "spec": {**v1.mapping(value, "spec"), "replicas": replicas}})
        self._put(changed)
        if one.replicas == replicas:
            return False
        self._tell("up" if replicas > one.replicas else "down", one, one.replicas, replicas)
        return True

    def _tell(self, direction: str, one: SeenReplicaSet, before: int, after: int) -> None:
        message = f"Scaled {direction} replica set {one.name} from {before} to {after}"
        self.actions.append(Tell("ScalingReplicaSet", message))

    def _size_of_new(self, now: int) -> int:
        """The size that the newest ReplicaSet, which has ``now`` pods, may have."""
        wanted = self._deployment.replicas
        if not self._deployment.is_rolling:
            return wanted
        room = wanted + self._deployment.max_surge - sum(each.replicas for each in self._sets)
        return now + max(0, min(room, wanted - now))

    def _is_scaling(self) -> bool:
        """Whether the number of pods that is wanted has changed since the ReplicaSets got their sizes."""
        wanted = str(self._deployment.replicas)
        active = [each for each in self._sets if each.replicas and not each.is_deleting]
        return any(each.annotations.get(DESIRED, wanted) != wanted for each in active)

    def _scale(self) -> None:
        """Spread the number of pods that is wanted over the ReplicaSets, in proportion to their sizes."""
        deployment, new = self._deployment, self._new
        active = [each for each in self._sets if each.replicas]
        if len(active) <= 1:
            if one := active[0] if active else new or max(self._sets, key=lambda each: each.age_key, default=None):
                self._size(one, deployment.replicas)
            return
        if new is not None and _is_saturated(new, deployment):
            for each in self._old:
                if each.replicas:
                    self._size(each, 0)
            return
        if deployment.is_rolling:
            allowed = deployment.replicas + deployment.max_surge if deployment.replicas else 0
            for each, replicas in shares(active, allowed, deployment):
                self._size(each, replicas)

    # --- strategies -----------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        new = self._newest()
        if new is None:
            return
        wanted = self._deployment.replicas
        size = wanted if new.replicas > wanted else self._size_of_new(new.replicas)
        if size != new.replicas and self._size(new, size):
            return
        self._shrink_old(new)
        self._end()

    def _shrink_old(self, new: SeenReplicaSet) -> None:
        """Take away old pods: first those that are not available, then as many as the update may do without."""
        old = [each for each in self._old if each.replicas]
        least = self._deployment.replicas - self._deployment.max_unavailable
        pods = sum(each.replicas for each in self._sets)
        removable = pods - least - (new.replicas - new.count("availableReplicas"))
        for each in old:
            gone = min(removable, each.replicas - each.count("availableReplicas"))
            if gone > 0:
                removable -= gone
                self._size(each, each.replicas - gone)
        spare = min(removable, sum(each.count("availableReplicas") for each in self._sets) - least)
        for each in [each for each in self._old if each.replicas]:
            if spare <= 0:
                return
            gone = min(spare, each.replicas)
            spare -= gone
            self._size(each, each.replicas - gone)

    def _recreate(self) -> None:
        self._number(self._new)
        active = [each for each in self._old if each.replicas]
        for each in active:
            self._size(each, 0)
        if active or self._old_pods_live():
            return
        new = self._newest()
        if new is not None:
            self._size(new, self._deployment.replicas)
            self._end()

    def _old_pods_live(self) -> bool:
        """Whether a pod of an old ReplicaSet has not ended, also while it is being deleted."""
        old = {v1.uid(each.value) for each in self._old}
        live = (each for each in self._children.pods if not each.is_over)
        return any(owner.uid in old for each in live for owner in each.owners if owner.is_controller)

    def _end(self) -> None:
        deployment, new = self._deployment, self._new
        status = [sum(each.count(name) for each in self._sets) for name in ("replicas", "availableReplicas")]
        if new is not None and {*status, new.count("replicas"), new.replicas} == {deployment.replicas}:
            self._forget_history()

    def _forget_history(self) -> None:
        """Delete the oldest empty ReplicaSets beyond the limit of the history."""
        old = sorted((each for each in self._old if not each.is_deleting), key=lambda each: each.revision)
        for each in old[: max(0, len(old) - self._deployment.history_limit)]:
            seen = v1.number(each.value, "metadata", "generation") <= each.count("observedGeneration")
            if not each.replicas and not each.count("replicas") and seen:
                self._sets = [other for other in self._sets if other.name != each.name]
                self.actions.append(DeleteObject(SETS, each.value))


def _is_saturated(new: SeenReplicaSet, deployment: SeenDeployment) -> bool:
    """Whether the newest ReplicaSet has all pods that are wanted, and they are available."""
    wanted = deployment.replicas
    desired = new.annotations.get(DESIRED, "")
    return new.replicas == new.count("availableReplicas") == wanted and desired == str(wanted)


def _with_metadata(value: Json, **fields: object) -> Json:
    return {**value, "metadata": {**v1.mapping(value, "metadata"), **fields}}


def name_is_taken(deployment: SeenDeployment, sets: list[SeenReplicaSet]) -> bool:
    """Whether the name of the next ReplicaSet belongs to one with another template."""
    name = f"{deployment.name}-{template_hash(deployment.template, deployment.collisions)}"
    return any(each.name == name and not same_template(each.template, deployment.template) for each in sets)
