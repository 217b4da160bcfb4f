"""The devices of the machine as its kernel shows them in sysfs and ``/dev``: what they are, and what belongs together.

May live here: reading and following sysfs. May not: rules, resources, Kubernetes.
"""
