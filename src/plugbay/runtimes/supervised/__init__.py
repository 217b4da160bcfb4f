"""Containers that are children of this machine without an engine's daemon: what the process and the oci runtime share.

Each container has a wrapper, a small process that starts it, keeps its output, and outlives the node. A runtime gives a
`Confinement`, which says what stands between the wrapper and the container's command.

A command run beside a container (``exec``, hooks) is a child of the container's wrapper, in a session of its own. It
ends with the container, with its wrapper, and with the client that asked for it, a killed node included.

A process that leaves the session (``setsid``) or its parent stays a descendant of the wrapper, a subreaper, and
ends with the container. When the wrapper is killed too, a node finds it by ``PLUGBAY_CONTAINER`` in its environment.

In ``<state_dir>/<pod uid>_<container>_<attempt>/`` lie ``spec.json`` (written before anything is started), ``launch``
(the same for the wrapper), ``process.json`` (written before the command runs; the name of the empty file ``ran_…`` says
the same), ``log`` with the older ``log.1`` and so on, and at the end ``exit.json``, for which ``exit.reserved`` keeps
the room; ``guests.sock`` is where the wrapper takes commands.

May live here: wrappers, their files, and commands beside containers. May not: namespaces and cgroups of one runtime,
what pods are, and when containers are started again.
"""
