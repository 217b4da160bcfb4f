"""Labels of a node with GPUs, as gpu-feature-discovery gives them.

`node_labels` computes them from values, `reading` finds those values that the driver does not tell, and `feature_file`
hands labels to Node Feature Discovery.
"""

from plugbay.plugins.nvidia.labels.machine import MachineProperties, PciFunction
from plugbay.plugins.nvidia.labels.node_labels import NodeLabels, node_labels

__all__ = ["MachineProperties", "NodeLabels", "PciFunction", "node_labels"]
