"""The ``plugbay`` command: `commands` is the table of all commands, and each lies in a room with those like it.

May live here: arguments, output, exit codes. May not: anything that another program would want to import, except
`plugbay.run`, which makes a command of a plugin's own file; or a heavy import in `main`, `arguments` or `printing`,
because every command pays for it.
"""
