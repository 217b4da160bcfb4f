"""What anyone knows of a kubelet from outside: paths, checkpoint format, PodResources client, restart watch.

May live here: facts both sides and onlookers share. May not: deciding anything (`manager`), serving anything (`sdk`).
"""
