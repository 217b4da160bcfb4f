"""The fields that an object of each kind needs at least, beside its name."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

CLAIM: Final = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gopher"}}]}}
POOL: Final = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
_ROLE: Final = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
_ACCOUNT: Final = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
_SELECTOR: Final = {"matchLabels": {"app": "a"}}
_TEMPLATE: Final[Json] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [{"name": "c", "image": "i", "command": ["true"]}],
        "schedulingGates": [{"name": "example.com/held"}],
    },
}
_DEFINITION: Final[Json] = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "as", "kind": "A"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
}
FIELDS: Final[dict[str, Json]] = {
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "persistentvolumes": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    },
    "resourceclaims": {"spec": CLAIM},
    "resourceclaimtemplates": {"spec": {"spec": CLAIM}},
    "resourcequotas": {"spec": {"hard": {"pods": "4", "limits.cpu": "2"}}},
    "resourceslices": {"spec": {"driver": "d.example.com", "nodeName": "n1", "pool": POOL, "devices": [{"name": "g"}]}},
    "runtimeclasses": {"handler": "crun"},
    "services": {"spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "a"}}},
    "storageclasses": {"provisioner": "example.com/p"},
    # The kinds that the node acts on; their pods wait.
    "clusterrolebindings": {"roleRef": _ROLE, "subjects": [_ACCOUNT]},
    "controllerrevisions": {"revision": 1},
    "customresourcedefinitions": {"spec": _DEFINITION},
    "daemonsets": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "deployments": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "events": {"involvedObject": {"namespace": "default"}},
    "jobs": {"spec": {"template": {"spec": _TEMPLATE["spec"] | {"restartPolicy": "Never"}}}},
    "pods": {"spec": _TEMPLATE["spec"]},
    "priorityclasses": {"value": 7},
    "replicasets": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "rolebindings": {"roleRef": _ROLE, "subjects": [_ACCOUNT]},
}
"""By the plural names of the kinds; one that is not here needs none."""
NEW_EVENT: Final[Json] = {
    "action": "Dig",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reason": "Dug",
    "regarding": {"namespace": "default"},
    "reportingController": "example.com/digger",
    "reportingInstance": "digger",
    "type": "Normal",
}
"""An event of ``events.k8s.io``."""
