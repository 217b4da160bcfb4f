"""The answers about devices and pods: the PodResources service, and snapshots for pages and the node's API."""
