"""Static pods: the node keeps the pods of a directory of manifests running, whatever clients ask of its API."""
