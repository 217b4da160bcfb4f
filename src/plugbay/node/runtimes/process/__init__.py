"""The ``process`` runtime: a container is a child process on the host. **It isolates nothing.**

For development and demonstration. The process has the host's file system, network, users and devices; images, cgroup
limits and device permissions have no meaning here. What it keeps of a container: its own session and process group
(it is stopped as a whole, and nothing in the session survives its first process), an environment of its own, a log,
an exit code, and a life that does not depend on the node's.

A command run beside a container (``exec``, hooks) is a child of the container's wrapper, in a session of its own. It
ends with the container, with its wrapper, and with the client that asked for it, a killed node included.

A process that leaves the session (``setsid``) or its parent stays a descendant of the wrapper, a subreaper, and
ends with the container. When the wrapper is killed too, a node finds it by ``PLUGBAY_CONTAINER`` in its environment.

Paths: nothing is mounted. Host paths of volumes, mounts and device nodes are checked as an engine would, and the
process uses them where they lie on the host. When one of them should appear elsewhere, the environment variable
``PLUGBAY_MOUNTS`` holds a JSON object from each such container path to its host path.

In ``<state_dir>/<pod uid>_<container>_<attempt>/`` lie ``spec.json`` (written before anything is started), ``launch``
(the same for the wrapper), ``process.json`` (written before the command runs; the name of the empty file ``ran_…`` says
the same), ``log`` with the older ``log.1`` and so on, and at the end ``exit.json``, for which ``exit.reserved`` keeps
the room; ``guests.sock`` is where the wrapper takes commands.

May live here: everything of this runtime. May not: what pods are, and when containers are started again.
"""
