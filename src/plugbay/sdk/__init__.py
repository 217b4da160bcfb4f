"""The plugin author's side: plugin classes, discovery, serving, registration, and the process around them.

May live here: what a plugin process does, whatever its hardware. May not: a kubelet's decisions (`manager`), ready-made
plugins (`plugins`). `author` stays free of asyncio and gRPC, so that importing `plugbay` costs little.
"""
