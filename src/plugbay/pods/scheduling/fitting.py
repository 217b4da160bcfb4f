"""Whether a pod can be bound to the one node, in the scheduler's order and words. Pure.

Source: Kubernetes 1.36 ``scheduler/framework/types.go`` (FitError), ``scheduler/apis/config/v1/default_plugins.go``
(the order), ``noderesources/fit.go``, ``tainttoleration/taint_toleration.go``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.model.taints import KEEPS_AWAY, UNSCHEDULABLE_KEY, Effect, Taint, untolerated
from plugbay.pods.scheduling import constraints
from plugbay.pods.scheduling.constraints import Site
from plugbay.pods.scheduling.ledger import PODS, Amounts, demand
from plugbay.pods.scheduling.occupancy import NOBODY_LEFT_OUT, Occupancy
from plugbay.pods.scheduling.predicates import NO_FREE_PORTS
from plugbay.values import dataclass

UNSCHEDULABLE: Final = "node(s) were unschedulable"
UNTOLERATED: Final = "node(s) had untolerated taint(s)"
NO_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
NO_SPREAD_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
NO_COMPANY: Final = "node(s) didn't match pod affinity rules"
UNWANTED_COMPANY: Final = "node(s) didn't match pod anti-affinity rules"
UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_CORDON: Final = Taint(UNSCHEDULABLE_KEY, Effect.NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reasons why a pod cannot be bound.

    Attributes:
        may_help: whether it might fit if other pods went.
    """

    reasons: tuple[str, ...]
    may_help: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """All that the decision about a pod looks at.

    Attributes:
        without: pods that are taken for gone.
    """

    site: Site
    occupancy: Occupancy
    allocatable: Amounts
    without: Collection[PodUid] = NOBODY_LEFT_OUT


def misfit(pod: Pod, view: Outlook) -> Misfit | None:
    """The first thing that keeps ``pod`` from the node; of resources all that are too scarce."""
    return _kept_away(pod, view.site) or _no_room(pod, view) or _no_company(pod, view)


def _kept_away(pod: Pod, site: Site) -> Misfit | None:
    placement = pod.spec.placement
    if site.is_cordoned and not any(each.tolerates(_CORDON) for each in placement.tolerations):
        return Misfit((UNSCHEDULABLE,))
    if site.taints and untolerated(site.taints, placement.tolerations, KEEPS_AWAY):
        return Misfit((UNTOLERATED,))
    if not constraints.fits_node(placement, site):
        return Misfit((NO_AFFINITY,))
    return None


def _no_room(pod: Pod, view: Outlook) -> Misfit | None:
    if not view.occupancy.ports_are_free(pod, without=view.without):
        return Misfit((NO_FREE_PORTS,), may_help=True)
    needed = demand(pod)
    if lacking := view.occupancy.lacking(needed, view.allocatable, without=view.without):
        reasons = tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in lacking)
        return Misfit(reasons, may_help=all(needed[name] <= view.allocatable.get(name, 0) for name in lacking))
    return None


def _no_company(pod: Pod, view: Outlook) -> Misfit | None:
    placement, site = pod.spec.placement, view.site
    if placement.spread:
        if constraints.lacks_spread_label(pod, site):
            return Misfit((NO_SPREAD_LABEL,))
        if constraints.spreads_too_unevenly(pod, site, view.occupancy.pods(without=view.without)):
            return Misfit((UNEVEN,), may_help=True)
    if placement.near and not constraints.finds_company(pod, site, view.occupancy.pods(without=view.without)):
        return Misfit((NO_COMPANY,))
    if placement.apart and constraints.repels(pod, site, view.occupancy.pods(without=view.without)):
        return Misfit((UNWANTED_COMPANY,), may_help=True)
    if constraints.is_repelled(pod, site, view.occupancy.repelling(without=view.without)):
        return Misfit((UNWELCOME,), may_help=True)
    return None


# --- words ----------------------------------------------------------------------------------------------------------


def unavailable(*reasons: str) -> str:
    """The sentence that says why the node is not available."""
    return f"0/1 nodes are available: {', '.join(f'1 {reason}' for reason in sorted(reasons))}."


def unschedulable(found: Misfit, preemption: str) -> str:
    """The message that ``kubectl describe`` shows; ``preemption`` says why no pod makes room."""
    return f"{unavailable(*found.reasons)} no new claims to deallocate, preemption: {preemption}"
