"""Objects of Kubernetes that a node keeps: what every kind has in common, and the table of those that are stored.

May live here: metadata and its rules, values that are stored, and watching them. May not: pods, and the requests of
clients.
"""
