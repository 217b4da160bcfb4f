"""Stock kubelets as they were, version by version, where a plugin or a test can tell the difference.

`versions` has the table of differences with their sources; the other modules act as the table says.
"""
