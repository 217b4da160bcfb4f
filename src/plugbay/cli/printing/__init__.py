"""Output that every command shares: plain text, tables, colour, logs, and the exit code.

May live here: the way from text to a terminal or file. May not: v1 objects, or a command.
"""
