"""The command line itself: its parser, options that several commands share, and the values that options take.

May live here: the code that turns words into values, and finds the root that they mean. May not: a command.
"""
