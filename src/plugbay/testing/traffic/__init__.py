"""The traffic between a kubelet and its plugins: records of what passes, faults that disturb it, a relay between both.

`records` are values; `recorder` keeps them; `faults` are the switches of a test; `transport` is the manager's way to
its plugins with both in it.
"""
