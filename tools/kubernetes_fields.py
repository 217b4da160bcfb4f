"""Regenerate ``src/plugbay/objects/messages/fields.txt`` from checkouts of Kubernetes' API packages.

``python tools/kubernetes_fields.py DIR``: in DIR are ``api``, ``apimachinery`` and ``apiextensions-apiserver``, as
github.com/kubernetes has them. Of the kinds that a node serves or reads, and of all they hold, it takes names,
numbers and types of fields, and how strategic merge patches treat them.

A line is a message: its name, then ``NAME:NUMBER:TYPE`` of each field, as `plugbay.objects.messages.fields` reads them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/plugbay/objects/messages/fields.txt"
ROOTS = {
    "api/core/v1": (
        "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod "
        "ResourceQuota Secret Service ServiceAccount"
    ),
    "api/admissionregistration/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    "api/apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet",
    "api/authentication/v1": "SelfSubjectReview TokenRequest TokenReview",
    "api/authorization/v1": (
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview"
    ),
    "api/autoscaling/v1": "Scale",
    "api/batch/v1": "Job",
    "api/coordination/v1": "Lease",
    "api/discovery/v1": "EndpointSlice",
    "api/events/v1": "Event",
    "api/networking/v1": "Ingress IngressClass NetworkPolicy",
    "api/node/v1": "RuntimeClass",
    "api/policy/v1": "Eviction PodDisruptionBudget",
    "api/rbac/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "api/resource/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "api/scheduling/v1": "PriorityClass",
    "api/storage/v1": "StorageClass",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1": "CustomResourceDefinition",
    "apimachinery/pkg/apis/meta/v1": "DeleteOptions ObjectMeta",
}
"""The messages to begin with, by package."""
SCALARS = {"string": "s", "bool": "b", "int32": "i", "int64": "i", "uint32": "i", "double": "d", "bytes": "y"}
SPECIAL = {
    "apimachinery/pkg/api/resource.Quantity": "Q",
    "apimachinery/pkg/util/intstr.IntOrString": "I",
    "apimachinery/pkg/apis/meta/v1.Time": "T",
    "apimachinery/pkg/apis/meta/v1.MicroTime": "M",
    "apimachinery/pkg/apis/meta/v1.FieldsV1": "J",
    "apimachinery/pkg/runtime.RawExtension": "J",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "J",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps": "J",
}
"""Messages whose JSON has another form than a mapping of their fields."""
LIST_TYPES = ("ExtraValue", "OptionalVolumeList")
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]+)? ?(\w+) = (\d+)", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_TAGGED = re.compile(r"^\t(.*?)`([^`]*protobuf:[^`]*)`", re.MULTILINE)


class Package:
    """The messages of a package, and the tags of its Go structs by message and number of field."""

    def __init__(self, root: Path, name: str) -> None:
        text = (root / name / "generated.proto").read_text()
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        self.name = name
        self.messages = dict(_MESSAGE.findall(text))
        self.tags: dict[tuple[str, str], str] = {}
        self.pointers: set[tuple[str, str]] = set()
        for source in (root / name).glob("*.go"):
            for struct, body in _STRUCT.findall(source.read_text()):
                for declared, tag in _TAGGED.findall(body):
                    if number := re.search(r'protobuf:"\w+,(\d+)', tag):
                        self.tags[struct, number[1]] = tag
                        if declared.split()[-1].startswith("*"):
                            self.pointers.add((struct, number[1]))


class Fields:
    """The lines of the file, made by following references from the roots."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packages: dict[str, Package] = {}
        self._lines: dict[str, str] = {}

    def add(self, package: str, message: str) -> str:
        """Take in a message and all it refers to; returns its short name."""
        short = f"{_short(package)}.{message}"
        if short not in self._lines:
            self._lines[short] = ""  # it may hold itself
            self._lines[short] = " ".join([short, *self._fields(self._package(package), message)])
        return short

    def text(self) -> str:
        return "".join(f"{line}\n" for _, line in sorted(self._lines.items()))

    def _package(self, name: str) -> Package:
        return self._packages.setdefault(name, Package(self._root, name))

    def _fields(self, package: Package, message: str) -> Iterator[str]:
        for label, valued, kind, proto_name, number in _FIELD.findall(package.messages[message]):
            code = self._code(package, valued or kind)
            code = f"[{code}]" if label == "repeated" else f"{{{code}}}" if valued else code
            tag = package.tags.get((message, number), "")
            name = _json_name(tag) or proto_name
            if re.search(r'json:",?(inline)?"', tag):
                name = "="
            if (message, number) in package.pointers:
                code += "?"
            merge = ""
            if key := re.search(r'patchMergeKey:"(\w+)"', tag):
                merge = f"@{key[1]}"
            elif "patchStrategy" in tag and "merge" in tag and code == "[s]":
                merge = "@"
            yield f"{name}:{number}:{code}{merge}"

    def _code(self, package: Package, kind: str) -> str:
        if kind in SCALARS:
            return SCALARS[kind]
        owner, message = package.name, kind
        if kind.startswith("."):
            owner, _, message = kind.removeprefix(".k8s.io.").replace(".", "/").rpartition("/")
        if f"{owner}.{message}" in SPECIAL and len(SPECIAL[f"{owner}.{message}"]) == 1:
            return SPECIAL[f"{owner}.{message}"]
        if list(_FIELD.findall(self._package(owner).messages[message])) and message in LIST_TYPES:
            return "[s]"
        return self.add(owner, message)


def _json_name(tag: str) -> str:
    found = re.search(r'json:"(\w+)', tag)
    return found[1] if found else ""


def _short(package: str) -> str:
    """``core/v1`` of ``api/core/v1``."""
    return "/".join(package.split("/")[-2:])


def main() -> None:
    """Write the file."""
    fields = Fields(Path(sys.argv[1]))
    for package, messages in ROOTS.items():
        for message in messages.split():
            fields.add(package, message)
    TARGET.write_text(fields.text())


if __name__ == "__main__":
    main()
