"""The end of a use of devices, on kubelets that never tell of it: noticed, proved, and told to the author's hooks.

The words: a *use* is devices in a pod's container from Allocate to their release; the *ledger* holds the uses of one
resource; a *reading* is one look at a kubelet's checkpoint; a *proof* is what a reading shows about a use; its *end*
calls the author's hooks.

`uses` says what follows from a reading, purely. ``ledger`` keeps the uses, in memory and in a journal. ``evidence``
reads checkpoints, pod lists and control groups. `giving` acts before an Allocate, `starts` before a container starts,
`sweep` in between; all three have `ending` end a use. `release` is the face of the room: it builds the parts.

May live here: decisions about ends of uses, and the evidence for them. May not: sockets and registration (`serving`).
"""
