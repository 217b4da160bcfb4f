"""Deployments: a ReplicaSet for each template, and the way from one to the next. Pure.

Source: Kubernetes 1.36 ``pkg/controller/deployment``.
"""
