"""A kubelet on this machine for tests: our Device Manager on a short private directory, its plugins, pods and faults.

`opening` and `facade` are the doors, for async and for other code. What a test expects is compared in `expectations`.
"""
