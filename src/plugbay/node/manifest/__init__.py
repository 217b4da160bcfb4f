"""Pod manifests: YAML and JSON texts and v1 objects to `plugbay.model.pods`, and back.

Here live the v1 field tables (``schema``), the walk that holds an object against them (``shapes``), the API server's
rules (``checks``). The text formats are `plugbay.documents`'. What a node does with a pod does not.
"""

from plugbay.documents import to_yaml
from plugbay.node.manifest.load import load_pods, pod_from_v1
from plugbay.node.manifest.report import ManifestWarning, Strictness, raise_problems
from plugbay.node.manifest.v1 import pod_to_v1

__all__ = ["ManifestWarning", "Strictness", "load_pods", "pod_from_v1", "pod_to_v1", "raise_problems", "to_yaml"]
