"""Operating a process: HTTP, metrics, logs, clocks, tasks, worker processes.

May live here: what any daemon needs. May not: anything about devices, pods or kubelets; the caller hands in handlers.
"""
