"""The ``cri`` runtime: containers by a container engine, through its CRI socket, as a kubelet has them run.

The engine keeps the state: what it lists under our node's label is what there is, so that a node that was killed
finds its pods again. What was asked for while the engine went away may have been done or not; it is looked up before
it is asked for again, and nothing is started twice. Networks are the engine's business: it calls CNI.

May live here: configurations of sandboxes and containers, the order of calls, logs in CRI format, pulling images. May
not: messages and sockets, device plugins, what pods are.
"""
