"""A kubelet as seen from outside: its paths, its checkpoint format, pods' cgroups, a PodResources client.

May live here: facts both sides and onlookers share. May not: deciding anything (`manager`), serving anything (`sdk`),
where our own node lives (`node`).
"""
