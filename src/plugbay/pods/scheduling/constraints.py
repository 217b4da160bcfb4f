"""Whether the one node is where a pod wants to be, and whether the pods on it are those that it wants near. Pure.

Source: Kubernetes 1.36 ``scheduler/framework/plugins/{nodeaffinity,podtopologyspread,interpodaffinity}``,
``component-helpers/scheduling/corev1/nodeaffinity``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from plugbay.model.placement import InclusionPolicy, Placement, PodTerm, SpreadConstraint
from plugbay.model.pods import Pod
from plugbay.model.taints import KEEPS_AWAY, Taint, untolerated
from plugbay.values import dataclass

NamespaceLabels = Callable[[str], Mapping[str, str]]


def own_label(namespace: str) -> Mapping[str, str]:
    """The label that every namespace has."""
    return {"kubernetes.io/metadata.name": namespace}


@dataclass(frozen=True, slots=True)
class Site:
    """The node as pods' constraints see it.

    Attributes:
        namespace_labels: the labels of a namespace, which constraints on other pods may name.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    namespace_labels: NamespaceLabels = own_label


def fits_node(placement: Placement, site: Site) -> bool:
    """Whether the node has the labels that the pod asks for."""
    if not all(site.labels.get(key) == value for key, value in placement.node_selector.items()):
        return False
    return placement.node_terms is None or any(term.holds(site.labels, name=site.name) for term in placement.node_terms)


# --- other pods -----------------------------------------------------------------------------------------------------


def finds_company(pod: Pod, site: Site, others: Iterable[Pod]) -> bool:
    """Whether the pods that ``pod`` wants near it are there; the first pod of a group that wants itself may come."""
    terms = pod.spec.placement.near
    if any(term.topology not in site.labels for term in terms):
        return False
    if any(all(_wants(term, pod, other, site) for term in terms) for other in others):
        return True
    return all(_wants(term, pod, pod, site) for term in terms)


def repels(pod: Pod, site: Site, others: Iterable[Pod]) -> bool:
    """Whether a pod is there that ``pod`` does not want near it."""
    terms = [term for term in pod.spec.placement.apart if term.topology in site.labels]
    return any(_wants(term, pod, other, site) for other in others for term in terms)


def is_repelled(pod: Pod, site: Site, repelling: Iterable[Pod]) -> bool:
    """Whether a pod is there that does not want ``pod`` near it."""
    return any(
        term.topology in site.labels and _wants(term, other, pod, site)
        for other in repelling
        for term in other.spec.placement.apart
    )


def _wants(term: PodTerm, asking: Pod, other: Pod, site: Site) -> bool:
    """Whether ``term`` of ``asking`` means ``other``."""
    if term.selector is None or not term.selector.holds(other.labels):
        return False
    for key in term.match_keys:
        if key in asking.labels and other.labels.get(key) != asking.labels[key]:
            return False
    for key in term.mismatch_keys:
        if key in asking.labels and other.labels.get(key) == asking.labels[key]:
            return False
    if other.namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return not term.namespaces and other.namespace == asking.namespace
    return term.namespace_selector.holds(site.namespace_labels(other.namespace))


# --- spreading ------------------------------------------------------------------------------------------------------


def lacks_spread_label(pod: Pod, site: Site) -> bool:
    """Whether the node has no value of a label that the pod is to be spread over."""
    return any(each.is_required and each.topology not in site.labels for each in pod.spec.placement.spread)


def spreads_too_unevenly(pod: Pod, site: Site, others: Iterable[Pod]) -> bool:
    """Whether the pod would lie too unevenly. One node is one domain: that matters only where more are asked for."""
    there = list(others)
    return any(_skew(each, pod, site, there) > each.max_skew for each in pod.spec.placement.spread if each.is_required)


def _skew(constraint: SpreadConstraint, pod: Pod, site: Site, others: Iterable[Pod]) -> int:
    if not _counts(constraint, pod, site):
        return 0  # the node is in no domain
    itself = int(_is_meant(constraint, pod, pod))
    if (constraint.min_domains or 1) <= 1:
        return itself
    return itself + sum(_is_meant(constraint, pod, other) for other in others if other.namespace == pod.namespace)


def _counts(constraint: SpreadConstraint, pod: Pod, site: Site) -> bool:
    placement = pod.spec.placement
    if constraint.node_affinity is not InclusionPolicy.IGNORE and not fits_node(placement, site):
        return False
    return constraint.node_taints is not InclusionPolicy.HONOR or not untolerated(
        site.taints, placement.tolerations, KEEPS_AWAY
    )


def _is_meant(constraint: SpreadConstraint, pod: Pod, other: Pod) -> bool:
    if constraint.selector is None or not constraint.selector.holds(other.labels):
        return False
    return all(other.labels.get(key) == pod.labels[key] for key in constraint.match_keys if key in pod.labels)
