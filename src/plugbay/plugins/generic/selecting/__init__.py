"""Rules and a machine become units of resources, with their IDs.

May live here: which device is which unit, how units are named and told apart, and why a device is none. May not: what a
container gets for a unit, Kubernetes.
"""
