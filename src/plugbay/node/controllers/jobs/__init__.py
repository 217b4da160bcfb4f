"""Jobs: pods that run to their end, so and so often. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job``.
"""
