"""From the files of other device plugins to ours: what was set, where, and what becomes of it.

May live here: settings that know whether a note tells of them, the parts of a DaemonSet that every plugin's has, and
the rules of plugins that have none of ours in their place. May not: files, the clock, a cluster.
"""
