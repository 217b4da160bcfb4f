"""The Multi-Process Service: containers that share a GPU at the same moment, each with its part of memory and threads.

`plan` decides which daemons there are, `daemon` runs one of them, `control` all of a node, and `readiness` is the side
of the plugin, which gives no device away before its daemon answers.
"""
