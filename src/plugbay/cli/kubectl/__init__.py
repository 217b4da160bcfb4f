"""The part of the command line that looks like kubectl: v1 objects as tables, pages and JSONPath, waits, exec.

This room is frozen: it does what ``plugbay pod`` and ``plugbay node`` need on a machine without a cluster, and no
feature of kubectl is added to it. Parity would never be complete, because kubectl gains features with every release,
and it would cost more code than devices do. A fault in what is here is mended, with kubectl's source as the judge.

May live here: what shows v1 objects, and the client of a node's control socket. May not: arguments, or a command.
"""
