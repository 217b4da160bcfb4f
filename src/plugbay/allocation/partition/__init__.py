"""The best way to take ``size`` devices so that what stays free can be taken in groups of ``size`` as well: pure.

May live here: exact search over partitions of at most 16 devices, and what makes it fast. May not: device IDs, vendors.

The parts, in the order in which a question passes them: `sums` gives the score of every group, `exchange` a good
partition, `prices` an upper bound that rules out most groups, `search` the first of the best partitions among the
rest, and `choice` ties them together.
"""
