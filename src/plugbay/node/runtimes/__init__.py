"""Container runtimes behind one port: ``port.py`` says what the node asks, each package answers in its way.

May live here: starting, watching and ending containers. May not: pods, restart policy, admission, gRPC to plugins.
"""
