"""The choice of devices: pure functions over device tables and bitsets.

A device's *rank* is its place in the sorted list of its resource's device IDs, fixed by each list of the plugin. Sets
of devices are ints with one bit per rank: taking the lowest of 10,000 costs a microsecond, copying nothing.

May live here: policies and the set operations they need. May not: I/O, clocks, chance, gRPC.
"""
