"""The ``oci`` runtime: containers by crun or runc, without a daemon, from bundles that we write.

It is the ``process`` runtime with another `Confinement`: an instance's wrapper runs ``ENGINE run`` in the foreground
instead of the container's command, so that records, logs, adoption and commands beside a container work as they do
there. What the engine keeps itself lies below ``<root>/oci``. A container's root file system is made of read-only bind
mounts of a directory's entries, ``/`` by default, with ``/tmp`` and ``/run`` of its own; images are the business of
CRI engines. Containers of one pod share its network, IPC and UTS namespaces; each has its own PID namespace. The engine
carries standard output and standard error to the log on two ways, so that a line of one may overtake one of the other.

May live here: OCI runtime specs, root file systems, the calls of the engine, sandboxes. May not: device plugins,
images, what pods are.
"""
