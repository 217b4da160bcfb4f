"""Replays recordings of a real kubelet node against ours: read by `recording`, acted by `driver`, judged by `compare`.

The recordings lie in ``tests/golden/kubelet-node``; what their members mean, and what of them is comparable, is said
in the README they came with. Everything here works from what a recording says; nothing knows one by its number.
"""
