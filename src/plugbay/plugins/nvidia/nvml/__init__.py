"""NVML in a worker process: questions to the driver with deadlines, and its events as they happen.

The driver may hang or crash; then the worker is killed and started anew, and the plugin's own process never waits.
`client` is the plugin's side. `program`, `questions` and `watch` run in the worker, which imports little else of ours:
between the two travel plain dicts, lists, texts and numbers, which `reading` turns into values.
"""
