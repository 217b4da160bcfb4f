"""A linter for CNI network configurations: it says what is wrong with them, where, and what to do. Pure.

May live here: rules about configurations that were read already. May not: reading files or running plugins,
which is up to the command.
"""
