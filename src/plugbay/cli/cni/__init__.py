"""The commands of ``plugbay cni``: networks of containers."""
