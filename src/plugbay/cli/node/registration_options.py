"""The options of ``node up`` for the labels and taints with which a node registers.

Source: kubelet 1.36 ``cmd/kubelet/app/options/options.go`` (ValidateKubeletFlags), ``pkg/util/taints/taints.go``,
``pkg/kubelet/apis/well_known_labels.go``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.parser import CommandParser

if TYPE_CHECKING:
    from plugbay.model.nodes import NodeInput
    from plugbay.model.taints import Taint

_ALLOWED_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_ALLOWED_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def add_registration_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--node-labels",
        metavar="NAME=VALUE,...",
        default="",
        help="labels that the node has from its first start on this root, in a kubelet's syntax; later, "
        "`kubectl label node` changes them",
    )
    parser.add_argument(
        "--register-with-taints",
        metavar="KEY=VALUE:EFFECT,...",
        default="",
        help="taints that the node has from its first start on this root, in a kubelet's syntax; later, "
        "`kubectl taint node` changes them",
    )


def registration(args: argparse.Namespace) -> NodeInput:
    """The settings of a node that registers.

    Raises:
        UsageError: a label or a taint is not one.
    """
    from plugbay.model.nodes import NodeInput

    return NodeInput(labels=_labels(args.node_labels), taints=_taints(args.register_with_taints))


def _labels(text: str) -> dict[str, str]:
    from plugbay.errors import UsageError
    from plugbay.model.dns import is_name, is_subdomain

    labels = {}
    for each in filter(None, text.split(",")):
        key, _, value = each.strip().partition("=")
        prefix, slash, name = key.rpartition("/")
        if not is_name(name) or (slash and not is_subdomain(prefix)) or (value and not is_name(value)):
            raise UsageError(f"--node-labels {text}: {each!r} is not a label such as disk=ssd")
        if not _is_allowed(key, prefix):
            problem = f"a node cannot give itself the label {key!r} of Kubernetes' own domain; allowed are those of"
            raise UsageError(f"--node-labels {text}: {problem} {' and '.join(_ALLOWED_DOMAINS)}, and well-known ones")
        labels[key] = value
    return labels


def _is_allowed(key: str, prefix: str) -> bool:
    def is_of(domain: str) -> bool:
        return prefix == domain or prefix.endswith(f".{domain}")

    return key in _ALLOWED_LABELS or any(map(is_of, _ALLOWED_DOMAINS)) or not any(map(is_of, _DOMAINS))


def _taints(text: str) -> tuple[Taint, ...]:
    from plugbay.errors import UsageError
    from plugbay.model.dns import is_name, is_subdomain
    from plugbay.model.taints import Effect, Taint

    taints: list[Taint] = []
    effects = [each.value for each in Effect]
    for each in filter(None, text.split(",")):
        named, _, effect = each.strip().rpartition(":")
        key, _, value = named.partition("=")
        prefix, slash, name = key.rpartition("/")
        if effect not in effects or not is_name(name) or (slash and not is_subdomain(prefix)):
            problem = f"{each!r} is not a taint such as dedicated=gpu:NoSchedule, with one of {', '.join(effects)}"
            raise UsageError(f"--register-with-taints {text}: {problem}")
        if value and not is_name(value):
            raise UsageError(f"--register-with-taints {text}: {value!r} is not the value of a taint")
        taint = Taint(key, Effect(effect), value)
        if any((other.key, other.effect) == (taint.key, taint.effect) for other in taints):
            raise UsageError(f"--register-with-taints {text}: duplicated taints with the same key and effect: {taint}")
        taints.append(taint)
    return tuple(taints)
