"""Stock kubelets as they were, version by version, where a plugin or a test can tell the difference.

`versions` has the table of differences with their sources; `endpoints` and `readmission` act as the table says.
"""
