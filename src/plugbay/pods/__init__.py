"""Pods on one node: from their record to their end, with their devices, containers and events.

The values and tables all rooms share lie at the top; ``scheduling`` decides which pods fit, ``running`` works for one
pod, ``recovery`` takes up what an earlier node left, ``static`` follows a directory of manifests, ``store`` keeps pods
on disk. `engine` is where they meet.

May live here: what a node does with pods, over ports. May not: container runtimes, the control socket, wiring (`node`).
"""
