"""Plugins on a cluster: what they need of a node, and the manifest that gives them no more."""
