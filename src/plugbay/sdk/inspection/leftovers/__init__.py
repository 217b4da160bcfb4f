"""Leftovers of plugins on a node: found, judged, and removed as far as no process and no pod needs them."""
