"""Controllers: they make the pods of ReplicaSets, Deployments, DaemonSets and Jobs, and delete what lost its owner.

May live here: decisions, as pure functions of an object, its children and the time; one loop that carries them out.
May not: requests and answers.
"""
