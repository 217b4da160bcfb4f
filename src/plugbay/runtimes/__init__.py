"""Container runtimes behind one port: `port` says what a node asks of a runtime, and each package answers in its way.

``supervised`` gives each container a wrapper process; ``process`` and ``oci`` are built on it. ``cri`` asks a
container engine.

May live here: starting, watching and ending containers. May not: pods, restart policy, admission, gRPC to plugins.
"""
