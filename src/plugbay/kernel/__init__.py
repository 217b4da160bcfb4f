"""Linux as plugbay needs it: the kernel's files, devices and processes.

May live here: one kernel interface a module, with its paths as parameters. May not: anything of Kubernetes.
"""
