"""A node on one machine: where the manager, pods, a container runtime and the control socket are put together.

May live here: pods from their manifest to their end, what a node remembers, and the reading of clock and environment
for everything below. May not: device decisions (`manager`), arguments and output of commands (`cli`).
"""
