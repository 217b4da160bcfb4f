"""All objects of a deployment: the one source of manifests, of a kustomize directory and of a chart's values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plugbay.errors import NeedsRefused
from plugbay.model.selectors import Operator, Requirement, Selector, parse_selector
from plugbay.sdk.deploying import companions, rights
from plugbay.sdk.deploying.daemonset import NAME_LABEL, Fields, Parts, daemon_set, files_volume
from plugbay.sdk.deploying.dashboard import FILE, LABEL, dashboard
from plugbay.sdk.deploying.deployment import Deployment, Extra
from plugbay.sdk.deploying.noted_yaml import Noted
from plugbay.sdk.deploying.pod_security import PodSecurity, level_of, violations

PYTHON: Final = ".py"
CODE: Final = "checksum/code"
CODE_NOTE: Final = "New code replaces the pods, which run the old one."
NO_TOKEN: Final = "It asks the API server for nothing."
_OPERATORS: Final = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
    Operator.GREATER: "Gt",
    Operator.LESS: "Lt",
}


def manifest(deployment: Deployment) -> list[Fields]:
    """The objects to apply, in this order; the same for the same deployment."""
    name, namespace, extras = deployment.name, deployment.namespace, deployment.extras
    pods_level = level_of(_pod(_daemon_set(deployment)))
    reads = rights.reads_nodes(deployment.needs)
    objects: list[Fields] = []
    if Extra.NAMESPACE in extras:
        objects.append(companions.namespace(namespace, pods_level.value))
    if reads:
        objects += companions.node_reader(name, namespace, f"plugbay:{namespace}:{name}", reads)
    if deployment.files:
        objects.append(companions.config_map(name, namespace, dict(sorted(deployment.files.items()))))
    objects.append(_daemon_set(deployment, level=pods_level))
    if Extra.NETWORK_POLICY in extras:
        outgoing = companions.to_api_server() if reads else None
        objects.append(companions.network_policy(name, namespace, outgoing, deployment.port))
    if Extra.POD_MONITOR in extras:
        objects.append(companions.pod_monitor(name, namespace, dict(sorted(deployment.monitor_labels.items()))))
    if Extra.DASHBOARD in extras:
        of_dashboard = {NAME_LABEL: name, LABEL: "1"}  # its own name may be too long for a label
        objects.append(companions.config_map(f"{name}-dashboard", namespace, {FILE: dashboard()}, of_dashboard))
    return objects


def check_pod_security(deployment: Deployment, level: PodSecurity) -> None:
    """Check that a namespace of this level admits the pods.

    Raises:
        NeedsRefused: it does not; the error names each rule, and the reason for what it refuses.
    """
    if refused := violations(_pod(_daemon_set(deployment)), level):
        problems = "; ".join(map(str, refused))
        raise NeedsRefused(f"Pod Security level {level.value} refuses what the plugins need: {problems}")


def _daemon_set(deployment: Deployment, *, level: PodSecurity | None = None) -> Fields:
    needs = deployment.needs
    annotations = {CODE: Noted(digest, CODE_NOTE)} if (digest := code_digest(deployment.files)) else None
    about = f"Serves {', '.join(needs.served)}."
    if level is not None:
        about = f"{about} Its namespace has to admit Pod Security level {level.value}."
    reads = bool(needs.node_reader)
    measured = f"It has {needs.memory_mib} MiB in use while it serves a few devices."
    parts = Parts(
        name=deployment.name,
        namespace=deployment.namespace,
        about=about,
        image=deployment.image,
        targets=deployment.targets,
        port=deployment.port,
        metrics=f"--metrics=:{deployment.port}",
        annotations=annotations,
        env=rights.env(needs) or None,
        resources=Noted(rights.resources(needs), measured),
        security=rights.security(needs),
        mounts=rights.mounts(needs),
        volumes=rights.volumes(needs),
        files=files_volume(deployment.name) if deployment.files else None,
        service_account=deployment.name if reads else None,
        automount=Noted(reads, rights.reads_nodes(needs) or NO_TOKEN),
        priority_class=deployment.priority_class or None,
        tolerations=[dict(each) for each in deployment.tolerations] or None,
        node_selector=dict(sorted(deployment.node_selector.items())) or None,
        affinity=affinity_of(deployment),
        runtime_class=deployment.runtime_class or None,
        update=rights.update(needs),
    )
    return daemon_set(parts)


def _pod(of_nodes: Any) -> Fields:
    pod: Fields = of_nodes["spec"]["template"]["spec"]
    return pod


def code_digest(files: Mapping[str, str]) -> str:
    """A digest of the Python files among ``files``; empty if there are none.

    Code that changes replaces the pods; a config file that changes does not, as it is read again. A chart's templates
    compute the same.
    """
    code = "".join(f"{name}\n{text}" for name, text in sorted(files.items()) if name.endswith(PYTHON))
    if not code:
        return ""
    import hashlib  # imported here: it brings OpenSSL, and most have no code

    return hashlib.sha256(code.encode()).hexdigest()


def affinity_of(deployment: Deployment) -> object | None:
    """The affinity to nodes that the deployment asks for, and its plugins; None for all nodes."""
    declared = deployment.needs.nodes
    of_plugins = tuple(parse_selector(each.selector) for each in declared) or ((),)
    terms = [(*wanted, *known) for wanted in deployment.affinity or ((),) for known in of_plugins]
    if not any(terms):
        return None
    affinity = _node_affinity(terms)
    return Noted(affinity, rights.all_of(each.reason for each in declared)) if declared else affinity


def _node_affinity(terms: Iterable[Selector]) -> Fields:
    """An affinity to nodes for which all conditions of one term hold."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [_expression(each) for each in term]} for term in terms]
            }
        }
    }


def _expression(requirement: Requirement) -> Fields:
    expression: Fields = {"key": requirement.key, "operator": _OPERATORS[requirement.operator]}
    if requirement.values:
        expression["values"] = sorted(requirement.values)
    return expression
