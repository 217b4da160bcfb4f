"""Ready-made plugins, a package each: ``config`` (what it is told), ``discover`` (what is there), ``plugin``.

May live here: what one kind of hardware or source of devices needs. May not: serving and registration (`sdk`), anything
of the kubelet's side (`manager`).
"""
