"""Linux as we need it: what the kernel tells about files, devices and processes.

May live here: one kernel interface a module, with its paths as parameters. May not: anything of Kubernetes.
"""
