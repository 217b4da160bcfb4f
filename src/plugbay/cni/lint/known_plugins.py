"""Facts about plugins that many machines have: their members, and where a missing plugin comes from. Pure.

Source: containernetworking plugins 1.1 to 1.9; the documentation of the others.
"""

from __future__ import annotations

from typing import Final

COMMON: Final = frozenset(
    {"type", "name", "cniVersion", "capabilities", "ipMasq", "ipam", "dns", "args", "runtimeConfig", "prevResult"}
)
"""Members that any plugin object may have; so may be those that begin with ``cni.dev/``."""

MEMBERS: Final = {
    "loopback": frozenset[str](),
    "bridge": frozenset(
        {
            "bridge",
            "isGateway",
            "isDefaultGateway",
            "forceAddress",
            "ipMasqBackend",
            "mtu",
            "hairpinMode",
            "promiscMode",
            "vlan",
            "vlanTrunk",
            "preserveDefaultVlan",
            "macspoofchk",
            "enabledad",
            "disableContainerInterface",
            "portIsolation",
        }
    ),
    "ptp": frozenset({"mtu", "ipMasqBackend"}),
    "portmap": frozenset(
        {"snat", "masqAll", "markMasqBit", "externalSetMarkChain", "conditionsV4", "conditionsV6", "backend"}
    ),
    "bandwidth": frozenset(
        {"ingressRate", "ingressBurst", "egressRate", "egressBurst", "shapedSubnets", "unshapedSubnets"}
    ),
}
"""The members that the official plugins read beside `COMMON`; they ignore all others without a word."""

BOOLEANS: Final = frozenset(
    {
        *(
            "ipMasq",
            "isGateway",
            "isDefaultGateway",
            "forceAddress",
            "hairpinMode",
            "promiscMode",
            "preserveDefaultVlan",
        ),
        *("macspoofchk", "enabledad", "disableContainerInterface", "portIsolation", "snat", "masqAll"),
    }
)
INTEGERS: Final = frozenset({"mtu", "vlan", "markMasqBit", "ingressRate", "ingressBurst", "egressRate", "egressBurst"})
TEXTS: Final = frozenset({"bridge", "ipMasqBackend", "externalSetMarkChain", "backend"})
LISTS: Final = frozenset({"vlanTrunk", "conditionsV4", "conditionsV6"})
"""The kinds of the official plugins' members; a value of another kind is an error to them."""

HOST_LOCAL: Final = frozenset(
    {"type", "subnet", "rangeStart", "rangeEnd", "gateway", "ranges", "routes", "dataDir", "resolvConf", "name"}
)
"""Members of an ``ipam`` object for host-local."""

CHAINED: Final = frozenset({"portmap", "bandwidth", "firewall", "tuning", "sbr", "vrf"})
"""Plugins that change another plugin's result, and so cannot be the first."""

OFFICIAL: Final = CHAINED | {
    *("bridge", "dhcp", "dummy", "host-device", "host-local", "ipvlan", "loopback", "macvlan"),
    *("ptp", "static", "tap", "vlan"),
}

_ADD_ONS: Final = {
    "calico": "Calico",
    "calico-ipam": "Calico",
    "cilium-cni": "Cilium",
    "flannel": "Flannel",
    "weave-net": "Weave Net",
    "weave-ipam": "Weave Net",
    "multus": "Multus",
    "multus-shim": "Multus",
    "antrea": "Antrea",
    "kube-ovn": "Kube-OVN",
    "ovn-k8s-cni-overlay": "OVN-Kubernetes",
    "aws-cni": "the Amazon VPC CNI",
    "azure-vnet": "Azure CNI",
    "istio-cni": "Istio CNI",
    "whereabouts": "Whereabouts",
    "sriov": "the SR-IOV CNI",
    "ib-sriov": "the InfiniBand SR-IOV CNI",
}


def is_add_on(plugin: str) -> bool:
    """Whether a cluster add-on puts the binary on each node, so that it may be missing for a while."""
    return plugin in _ADD_ONS


def origin_of(plugin: str) -> str:
    """The origin of a missing binary, as a hint; empty if it is not known."""
    if plugin in _ADD_ONS:
        return f"it comes with {_ADD_ONS[plugin]}, whose pod on each node puts it there; install that first"
    if plugin in OFFICIAL:
        return (
            "it is one of the official plugins: install Debian's package containernetworking-plugins "
            "(they lie in /usr/lib/cni), or name their directory with --bin-dir"
        )
    return ""
