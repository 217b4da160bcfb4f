"""Giving devices back: from the Allocate that begins a use to the hooks that end it, on kubelets that never tell.

May live here: what is open and what a reading of the kubelet's checkpoint proves about it (`uses`, pure), the journal
that survives the process, getting a reading, and the part that calls the author's hooks. May not: how a plugin is
served and registered. Only plugins with something to give back import more than `settings`.
"""
