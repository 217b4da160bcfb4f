"""The traffic between a kubelet and its plugins in a test: faults that disturb it, a relay between both.

The records are those of `plugbay.traffic`; `faults` are the switches of a test; `transport` is the manager's way to its
plugins with both in it.
"""
