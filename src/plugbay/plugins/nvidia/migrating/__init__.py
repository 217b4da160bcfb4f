"""From NVIDIA's chart, manifests and flags to ours.

May live here: what becomes of each of NVIDIA's settings. May not: files, a driver, a cluster.
"""
