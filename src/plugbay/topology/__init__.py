"""Where things lie on the machine: sets of NUMA nodes, hints about them, their merge, and the policies' verdicts.

Sets of NUMA nodes are ints with one bit per node.

May live here: what the topology manager of a kubelet decides, and what such a decision is made of. May not: devices,
CPUs or whatever else has a place; I/O, clocks, chance.
"""
