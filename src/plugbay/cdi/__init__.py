"""The Container Device Interface: names, spec files, versions, and what they do to a container.

May live here: values of the CDI spec, their text forms, its rules, the scan of spec directories, injection into an OCI
spec. May not: Kubernetes, device plugins, container engines.

Source: CDI 1.1.0, read at its library's releases 0.3.0 to 1.1.0.
"""
