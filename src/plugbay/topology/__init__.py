"""Alignment with NUMA nodes: sets of nodes, hints about them, their merge, and the policies' verdicts.

Sets of NUMA nodes are ints with one bit per node.

May live here: the decisions of a kubelet's topology manager, and the values they are made of. May not: devices, CPUs or
other things that lie on a node; I/O, clocks, chance.
"""
