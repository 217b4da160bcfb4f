"""Pod manifests: YAML and JSON texts and v1 objects become values of `plugbay.model.pods`, and back.

The v1 field tables (``schema``), the walk that holds an object against them (``shapes``), and the API server's rules
(``checks``) are here; `plugbay.documents` reads and writes the text formats.

May live here: the reading, checking, comparing and writing of v1 pods. May not: files, and a node's work with a pod.
"""

from plugbay.manifest.load import load_pods, pod_from_v1
from plugbay.manifest.report import ManifestWarning, Strictness, raise_problems
from plugbay.manifest.v1 import pod_to_v1

__all__ = ["ManifestWarning", "Strictness", "load_pods", "pod_from_v1", "pod_to_v1", "raise_problems"]
