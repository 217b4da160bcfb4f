"""A deployment as a directory for kustomize: a file for each object, and the ConfigMap's files as they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.sdk.deploying.daemonset import NAME_LABEL, Fields
from plugbay.sdk.deploying.deployment import Deployment, image_name
from plugbay.sdk.deploying.noted_yaml import Noted, noted_yaml
from plugbay.sdk.deploying.objects import manifest

KUSTOMIZATION: Final = "kustomization.yaml"
_FILES: Final = "files"


def kustomize_directory(deployment: Deployment) -> Mapping[str, str]:
    """The texts of all files by their paths in the directory."""
    written: dict[str, str] = {}
    for each in manifest(deployment):
        if _is_generated(each, deployment):
            continue
        kind = str(each["kind"]).lower()
        name = f"{kind}.yaml" if kind != "configmap" else "dashboard.yaml"
        written[name] = noted_yaml([each])
    files = {f"{_FILES}/{name}": text for name, text in sorted(deployment.files.items())}
    kustomization = noted_yaml([_kustomization(deployment, tuple(written))])
    return {KUSTOMIZATION: kustomization, **written, **files}


def _is_generated(each: Fields, deployment: Deployment) -> bool:
    metadata = each["metadata"]
    return each["kind"] == "ConfigMap" and isinstance(metadata, dict) and metadata["name"] == deployment.name


def _kustomization(deployment: Deployment, resources: tuple[str, ...]) -> Fields:
    image = image_name(deployment.image)
    named = {"newTag": image.tag} if image.tag else {}
    if image.digest:
        named = {"digest": image.digest}
    fields: Fields = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": deployment.namespace,
        "resources": list(resources),
        "images": [{"name": image.repository, "newName": image.repository, **named}],
    }
    if deployment.files:
        files = [f"{_FILES}/{name}" for name in sorted(deployment.files)]
        why = "A config file that changes is read again: a new name would replace the pods for it."
        fields["configMapGenerator"] = [{"name": deployment.name, "files": files}]
        fields["generatorOptions"] = {
            "disableNameSuffixHash": Noted(True, why),
            "labels": {NAME_LABEL: deployment.name},
        }
    return fields
