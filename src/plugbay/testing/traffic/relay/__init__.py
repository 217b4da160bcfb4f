"""A relay between a plugin and a kubelet that cannot be told of each other: each sees the other in its own directory.

`relay` opens it; `registrations` follows the plugin's Register calls, `registry` the sockets that the kubelet's plugin
watcher would find, `forwarding` passes single calls on.
"""
