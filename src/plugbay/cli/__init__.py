"""The ``plugbay`` command: one module per command, and what they share.

May live here: arguments, what is printed, exit codes. May not: anything another program would want to import, but for
`plugbay.run`, by which a plugin's file is a command too; or a heavy import at module level, because every command pays
for it.
"""
