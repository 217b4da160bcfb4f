"""Ready-made plugins, a package each: ``config`` (settings), ``discover`` (devices), ``plugin``.

May live here: support for a kind of hardware or source of devices. May not: serving and registration (`sdk`), anything
of the kubelet's side (`manager`).
"""
