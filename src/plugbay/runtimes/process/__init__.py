"""The ``process`` runtime: a container is a child process on the host. **It isolates nothing.**

For development and demonstration. The process has the host's file system, network, users and devices; images, cgroup
limits and device permissions have no meaning here. What it has of a container: its own session and process group
(it is stopped as a whole, and nothing in the session survives its first process), an environment of its own, a log,
an exit code, and a life that does not depend on the node's: `plugbay.runtimes.supervised` gives it all of these.

Paths: nothing is mounted. Host paths of volumes, mounts and device nodes are checked as an engine would, and the
process uses them where they lie on the host. When one of them should appear elsewhere, the environment variable
``PLUGBAY_MOUNTS`` holds a JSON object from each such container path to its host path.

May live here: the confinement that confines nothing. May not: the wrapper and the files of a container (`supervised`).
"""
